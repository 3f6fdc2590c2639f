"""Newton's equations of a scaled problem.

The duals are eliminated row by row, then the impulses in favour of x = factorᵀ dλ, so that the matrix to
factorise has the size of the freedoms, however many rows there are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import inverse
from backflip.solve import interval
from backflip.solve.friction import Friction
from backflip.solve.problem import Problem


class Iterate(NamedTuple):
    """Impulses with their slacks and duals, or a step of all of them."""

    impulse: Array
    """(r,)"""
    slack: Array
    dual: Array
    """(b, 2) of the lower and upper bound of bounded rows"""
    cone_slack: Array
    cone_dual: Array
    """(k, ...) of friction"""


class Linearised(NamedTuple):
    """Coefficients of the linearised complementarity conditions, the duals eliminated.

    bounded rows    C_w dw + C_lam dλ = right-hand side
    tangents        C_w_t dw_t + C_lam_t dλ_t + C_n_t dλ_n = right-hand side
    """

    C_w: Array
    C_lam: Array
    """(b,)"""
    C_w_t: Array
    C_lam_t: Array
    """(k, 2, 2)"""
    C_n_t: Array
    """(k, 2) friction depends on its normal impulse"""


def central_point(problem: Problem, friction: Friction, impulse: Array, kappa: Array) -> Iterate:
    """Impulses with the duals whose products with their slacks are κ."""
    bounded, tangents = problem.split(impulse)
    slack = jnp.maximum(problem.slack(bounded), jnp.finfo(impulse.dtype).eps ** 2)
    cone_slack = friction.slack(problem.friction_bound(bounded), tangents)
    dual = problem.has_bound() * kappa / slack
    return Iterate(impulse, slack, dual, cone_slack, friction.central_dual(cone_slack, kappa))


def active_set_point(problem: Problem, friction: Friction, impulse: Array) -> Iterate:
    """Impulses with slacks and duals at κ = 0: of every slack and dual one is 0."""
    bounded, tangents = problem.split(impulse)
    w, sliding = problem.split(problem.velocity(impulse))
    slack, dual = interval.active_set(jnp.maximum(problem.slack(bounded), 0), w, problem.has_bound())
    return Iterate(
        impulse, slack, dual, *friction.active_set(problem.friction_bound(bounded), tangents, sliding)
    )


def linearise(problem: Problem, friction: Friction, at: Iterate) -> Linearised:
    """The coefficients at an iterate."""
    C_w, C_lam = interval.linearise(at.slack, at.dual, problem.has_bound())
    C_w_t, C_lam_t, C_bound = friction.linearise(at.cone_slack, at.cone_dual)
    return Linearised(C_w, C_lam, C_w_t, C_lam_t, C_bound * problem.friction[:, None])


def right_hand_side(
    problem: Problem, friction: Friction, linear: Linearised, at: Iterate,
    dproduct: Array, dcone: Array, dw: Array,
) -> Array:  # fmt: skip
    """(r,) for wanted changes dproduct (b, 2), dcone (k, ...) of the products and a given change dw (r,)."""
    bounded = interval.right_hand_side(at.slack, problem.has_bound(), dproduct)
    tangents = friction.right_hand_side(at.cone_slack, dcone)
    return jnp.concatenate([bounded, tangents.reshape(-1)]) - multiply_C_w(problem, linear, dw)


def multiply_C_w(problem: Problem, linear: Linearised, x: Array) -> Array:
    """C_w x for x (r, ...)."""
    bounded, tangents = problem.split(x)
    bounded = linear.C_w.reshape(-1, *(1,) * (x.ndim - 1)) * bounded
    tangents = jnp.einsum("kij,kj...->ki...", linear.C_w_t, tangents)
    return jnp.concatenate([bounded, tangents.reshape(-1, *x.shape[1:])])


def left_hand_side(problem: Problem, linear: Linearised, x: Array) -> Array:
    """K x (r,), K = C_w (A + softness) + C_lam + C_n, for dλ = x (r,)."""
    bounded, tangents = problem.split(x)
    of_tangents = jnp.einsum("kij,kj->ki", linear.C_lam_t, tangents)
    of_tangents = of_tangents + linear.C_n_t * problem.normals(bounded)[:, None]
    of_impulse = jnp.concatenate([linear.C_lam * bounded, of_tangents.reshape(-1)])
    return multiply_C_w(problem, linear, problem.response(x)) + of_impulse


def regularise(problem: Problem) -> Problem:
    """The same with a minimum softness in every row: redundant rows then have one solution.

    1e-6 in float64, 2e-3 in float32, where the diagonal of A is 1: solving with it loses eps/softness² to
    rounding, and iterative refinement recovers that.
    """
    return problem.softened(min_softness(problem.softness.dtype))


def min_softness(dtype: Any) -> float:
    """In parts of a row's own mobility."""
    return float(jnp.finfo(dtype).eps) ** 0.38


def newton_solver(problem: Problem, linear: Linearised, refinements: int) -> Callable[..., Array]:
    """A function from a right-hand side (r,), and perhaps an initial dλ (r,), to dλ (r,).

    Solves the regularised equations, then refines. With B = C_lam + C_n + C_w softness, block by block, and
    x = factorᵀ dλ:
        B dλ + C_w factor x = rhs,    (1 + factorᵀ B⁻¹ C_w factor) x = factorᵀ B⁻¹ rhs
    Refinement does not change what redundant rows leave undetermined in an initial dλ.
    """
    soft, soft_t = problem.split(regularise(problem).softness)
    B = linear.C_lam + linear.C_w * soft
    B_t_inverse = _inverse2(linear.C_lam_t + linear.C_w_t * soft_t[:, None, :])

    def divide_by_B(x: Array) -> Array:
        """B⁻¹ x for x (r, ...)."""
        bounded, tangents = problem.split(x)
        tail = (1,) * (x.ndim - 1)
        bounded = bounded / B.reshape(-1, *tail)
        rest = tangents - linear.C_n_t.reshape(-1, 2, *tail) * problem.normals(bounded)[:, None]
        tangents = jnp.einsum("kij,kj...->ki...", B_t_inverse, rest)
        return jnp.concatenate([bounded, tangents.reshape(-1, *x.shape[1:])])

    coupling = divide_by_B(multiply_C_w(problem, linear, problem.factor))
    eye = jnp.eye(problem.factor.shape[1], dtype=B.dtype)
    reduced_inverse = inverse(eye + problem.factor.T @ coupling)

    def solve_regularised(rhs: Array) -> Array:
        uncoupled = divide_by_B(rhs)
        return uncoupled - coupling @ (reduced_inverse @ (uncoupled @ problem.factor))

    def solve(rhs: Array, initial: Array | None = None) -> Array:
        dlam = solve_regularised(rhs) if initial is None else initial
        for _ in range(refinements):
            dlam = dlam + solve_regularised(rhs - left_hand_side(problem, linear, dlam))
        return dlam

    return solve


def _inverse2(A: Array) -> Array:
    """A⁻¹ of (k, 2, 2)."""
    a, b, c, d = A[:, 0, 0], A[:, 0, 1], A[:, 1, 0], A[:, 1, 1]
    adjugate = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
    return adjugate / (a * d - b * c)[:, None, None]


def project(problem: Problem, friction: Friction, impulse: Array) -> Array:
    """Impulses (r,) projected onto their bounds, then friction onto the bound of the new normals."""
    bounded, tangents = problem.split(impulse)
    bounded = jnp.clip(bounded, problem.lower, problem.upper)
    bound = problem.friction_bound(bounded)
    return jnp.concatenate([bounded, friction.project(tangents, bound).reshape(-1)])


def residual(problem: Problem, friction: Friction, impulse: Array) -> Array:
    """(r,) natural residual, λ − project(λ − w); 0 at a solution."""
    trial, (bounded, _) = impulse - problem.velocity(impulse), problem.split(impulse)
    normal, tangents = problem.split(trial)
    normal = jnp.clip(normal, problem.lower, problem.upper)
    admissible = friction.project(tangents, problem.friction_bound(bounded))
    return impulse - jnp.concatenate([normal, admissible.reshape(-1)])
