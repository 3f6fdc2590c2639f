"""How impulses follow a change of their problem, by the implicit function theorem.

At a solution, or at a point of the central path, a row or contact answers a change of its velocity by

    dλ = g − D dw

with g what its bounds ask for. D is 0 at a bound. A held row is taken to be soft by ε of its own mobility, so
that redundant rows share their load: its D is the inverse of that. Friction follows its normal impulse too,
so D is not symmetric. With A = F Fᵀ and X = d(Fᵀ λ), of the size of the freedoms,

    X = dFᵀ λ + Fᵀ dλ,    dw = F X + e    ⇒    (1 + Fᵀ D F) X = dFᵀ λ + Fᵀ (g − D e)

e is what the change does to w besides. Iterative refinement makes held rows rigid.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from backflip.math import outer
from backflip.solve import interval
from backflip.solve.elimination import factorise, solve_factorised
from backflip.solve.equations import Iterate, central_point, linearise
from backflip.solve.friction import Friction
from backflip.solve.problem import Problem
from backflip.solve.rows import Delassus, Rows, Solution

REFINEMENTS = 2
"""iterative refinements, at least; a third gains nothing in float32"""


def softness_of(dtype: Any) -> float:
    """ε of held rows, in parts of their own mobility: 1e-4 in float32, 1e-5 in float64.

    n refinements leave (ε/σ²)ⁿ⁺¹ of an error, σ² the mobility of rows together in parts of their own; a
    smaller ε loses more to rounding.
    """
    return 6.2e-4 * float(jnp.finfo(dtype).eps) ** 0.1145


class Mobility(NamedTuple):
    """What an impulse does to its own row, in the order of a problem; one number for both tangents."""

    mass: Array
    """(r,) [kg] 0 for rows that no impulse can move"""
    inverse: Array
    """(r,) [1/kg] 1 for rows that no impulse can move"""
    tangents: Array
    """(k, 2) whether each moves: 1 or 0"""


def mobility_of(rows: Rows, delassus: Delassus) -> Mobility:
    """Of rows; no derivative is taken of it."""
    order, b = rows.layout.bounded_first, rows.layout.scalars + rows.layout.contacts
    A = (delassus.diagonal() + rows.softness)[order]
    moves = rows.min_diagonal[order] < A
    tangents = moves[b:].reshape(-1, 2) & moves[rows.layout.scalars : b, None]
    A = jnp.where(moves, A, 0)
    both = jnp.sum(jnp.where(tangents, A[b:].reshape(-1, 2), 0), -1)
    A = jnp.concatenate([A[:b], jnp.repeat(both, 2)])
    inverse = jnp.where(A > 0, A, 1)
    return Mobility(jnp.where(A > 0, 1 / inverse, 0), inverse, tangents.astype(A.dtype))


def physical_problem(rows: Rows, delassus: Delassus, velocity: Array) -> Problem:
    """Rows in SI units in the order of a problem."""
    order, k = rows.layout.bounded_first, rows.layout.contacts
    infinite = jnp.full(k, jnp.inf, velocity.dtype)
    return Problem(
        factor=delassus.factor[order],
        offset=(velocity - rows.target)[order],
        softness=rows.softness[order],
        lower=jnp.concatenate([rows.lower, jnp.zeros_like(infinite)]),
        upper=jnp.concatenate([rows.upper, infinite]),
        friction=rows.friction,
    )


class Answer(NamedTuple):
    """D, block by block, and what it is made of: B dλ = right-hand side − C_w dw."""

    D: Array
    """(b,) [kg]"""
    D_t: Array
    """(k, 2, 2) [kg]"""
    per_normal: Array
    """(k, 2) friction per normal impulse"""
    B: Array
    """(b,)"""
    B_t_inverse: Array
    """(k, 2, 2)"""

    def multiply(self, problem: Problem, dw: Array) -> Array:
        """D dw (r, ...)."""
        bounded, tangents = problem.split(dw)
        bounded = self.D.reshape(-1, *(1,) * (dw.ndim - 1)) * bounded
        return self.with_friction(problem, bounded, jnp.einsum("kij,kj...->ki...", self.D_t, tangents))

    def with_friction(self, problem: Problem, bounded: Array, tangents: Array) -> Array:
        """(r, ...) from bounded rows (b, ...) and tangents (k, 2, ...), which follow their normals."""
        per_normal = self.per_normal.reshape(-1, 2, *(1,) * (bounded.ndim - 1))
        tangents = tangents + per_normal * problem.normals(bounded)[:, None]
        return jnp.concatenate([bounded, tangents.reshape(-1, *bounded.shape[1:])])


def point_of(
    problem: Problem, mobility: Mobility, friction: Friction, impulse: Array, kappa: Array | None
) -> Iterate:
    """Impulses with slacks and duals, at κ [J] or the end of the path; duals are times `mass`, in N s."""
    mass, mass_t = problem.split(mobility.mass)
    if kappa is not None:
        at = central_point(problem, friction, impulse, kappa)
        of_contact = mass_t[:, 0].reshape(-1, *(1,) * (at.cone_dual.ndim - 1))
        return at._replace(dual=mass[:, None] * at.dual, cone_dual=of_contact * at.cone_dual)
    bounded, tangents = problem.split(impulse)
    w, sliding = problem.split(mobility.mass * problem.velocity(impulse))
    slack, dual = interval.active_set(jnp.maximum(problem.slack(bounded), 0), w, problem.has_bound())
    bound, sliding = problem.friction_bound(bounded), mobility.tangents * sliding
    return Iterate(impulse, slack, dual, *friction.active_set(bound, tangents, sliding))


def answer_of(
    problem: Problem, mobility: Mobility, friction: Friction, at: Iterate, softness: float
) -> Answer:  # fmt: skip
    """At an iterate whose duals are times `mass`, impulses; rows are at least as soft as `softness`."""
    linear = linearise(problem, friction, at)
    mass, mass_t = problem.split(mobility.mass)
    soft, soft_t = problem.split(jnp.maximum(mobility.mass * problem.softness, softness))
    B = linear.C_lam + linear.C_w * soft
    B_t_inverse = _inverse2(linear.C_lam_t + linear.C_w_t * soft_t[:, None, :])
    moves = mobility.tangents
    D_t = outer(moves * mass_t, moves) * (B_t_inverse @ linear.C_w_t)
    per_normal = -moves * jnp.einsum("kij,kj->ki", B_t_inverse, linear.C_n_t)
    return Answer(mass * linear.C_w / B, D_t, per_normal, B, moves[:, :, None] * B_t_inverse)


def _inverse2(A: Array) -> Array:
    """A⁻¹ of (k, 2, 2)."""
    a, b, c, d = A[:, 0, 0], A[:, 0, 1], A[:, 1, 0], A[:, 1, 1]
    adjugate = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-c, a], -1)], -2)
    return adjugate * (1 / (a * d - b * c))[:, None, None]


def soften_rows(problem: Problem, softness: float) -> Problem:
    """The same with all rows at least this soft, in parts of their own mobility."""
    bounded, tangents = problem.split(jnp.sum(jnp.square(problem.factor), -1) + problem.softness)
    A = jnp.concatenate([bounded, jnp.repeat(jnp.sum(tangents, -1), 2)])
    return problem._replace(softness=jnp.maximum(problem.softness, softness * A))


def tangent(
    problem: Problem, mobility: Mobility, friction: Friction, solution: Solution, kappa: Array | None,
    change: Problem,
) -> Array:  # fmt: skip
    """dλ (r,) of a solution on the central path at κ [J], or at its end, for a change of the problem.

    Linear in the change. What redundant rows leave open is that of the soft impulses, if there are any.
    """
    F, impulse = problem.factor, solution.impulse
    first, *steps = (*solution.soft, impulse)
    softness = solution.softness or softness_of(F.dtype)
    soft, soft_change = problem, change
    if solution.soft:
        soft, soft_change = jax.jvp(lambda x: soften_rows(x, softness), (problem,), (change,))
    at = point_of(soft, mobility, friction, first, kappa)
    answer = rigid = answer_of(problem, mobility, friction, at, softness)
    added = jnp.maximum(softness * mobility.inverse - problem.softness, 0)
    g = _asked_by_bounds(problem, friction, answer, at, change)
    solve = _coupled(problem, answer)
    e, of_factor = _offset_change(soft, soft_change, first), first @ change.factor
    dlam = solve(g - answer.multiply(problem, e), of_factor)
    if solution.soft:
        at = point_of(problem, mobility, friction, impulse, kappa)
        rigid = answer_of(problem, mobility, friction, at, softness)
        g = _asked_by_bounds(problem, friction, rigid, at, change)
        # a contact that barely slides turns otherwise than as a soft one: refinement by its law would not do
        solve = _coupled(problem, rigid)
    steps += [impulse] * (REFINEMENTS - len(steps))
    for last, after in pairwise([first, *steps]):
        # the softness of a step is centred on the impulses before it
        e = _offset_change(problem, change, after) + (soft_change.softness - change.softness) * (after - last)
        of_factor = after @ change.factor
        dw = F @ (of_factor + dlam @ F) + e - added * dlam
        dlam = dlam + solve(g - dlam - rigid.multiply(problem, dw), jnp.zeros_like(of_factor))
    return dlam


def _coupled(problem: Problem, answer: Answer) -> Callable[[Array, Array], Array]:
    """A function from dλ (r,) without coupling, and X besides what that does to it, to dλ."""
    F = problem.factor
    eye = jnp.eye(F.shape[1], dtype=F.dtype)
    factors = factorise(eye + F.T @ answer.multiply(problem, F))

    def solve(uncoupled: Array, X: Array) -> Array:
        X = solve_factorised(factors, X + uncoupled @ F)
        return uncoupled - answer.multiply(problem, F @ X)

    return solve


def _offset_change(problem: Problem, change: Problem, impulse: Array) -> Array:
    """e (r,): what a change does to w at fixed impulses, besides by d(Fᵀ λ)."""
    return change.factor @ (impulse @ problem.factor) + change.softness * impulse + change.offset


def _asked_by_bounds(
    problem: Problem, friction: Friction, answer: Answer, at: Iterate, change: Problem
) -> Array:
    """g (r,): what moving bounds do to impulses at fixed velocities."""
    has_bound = problem.has_bound()
    # slacks change with their bounds, at fixed impulses
    dslack = jnp.where(has_bound > 0, jnp.stack([-change.lower, change.upper], -1), 0)
    bounded, tangents = problem.split(at.impulse)
    dcone_slack = friction.slack(change.friction * problem.normals(bounded), jnp.zeros_like(tangents))
    g = interval.right_hand_side(at.slack, has_bound, -at.dual * dslack) / answer.B
    g_t = friction.right_hand_side(at.cone_slack, -friction.product(dcone_slack, at.cone_dual))
    return answer.with_friction(problem, g, jnp.einsum("kij,kj->ki", answer.B_t_inverse, g_t))
