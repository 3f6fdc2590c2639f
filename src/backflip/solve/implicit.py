"""Gradients of a solution: through every operation of a solver, or by the implicit function theorem.

At a solution, or at a point of the central path, a change of the problem changes impulses by

    K dλ = −C_w dw − (what moving bounds do to slack · dual)        (newton.Linearised)

with dw what the change does to w at fixed λ. K is not symmetric: friction depends on its normal impulse, and
not the other way round. So a gradient takes one solve with Kᵀ: JAX transposes `_tangent`, which is linear in
the changes. How the solver arrived at the solution plays no part.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.solve.friction import Friction
from backflip.solve.newton import (
    Iterate,
    active_set_point,
    central_point,
    linearise,
    newton_solver,
    regularise,
    right_hand_side,
)
from backflip.solve.path import attainable, follow_central_path, polish, with_interior
from backflip.solve.problem import Problem, scale_problem
from backflip.solve.rows import Delassus, Rows

GRADIENT_REFINEMENTS = 3
"""iterative refinements of a gradient; a step along the path needs fewer, for the next one corrects it"""
ITERATIONS = 16
"""along the central path to a point that is smoother than the solution"""

Solve = Callable[[Rows, Delassus, Array], Array]


class Gradient(eqx.Module):
    """How a solver is differentiated."""

    @abstractmethod
    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array,
    ) -> Array:  # fmt: skip
        """solve(rows, delassus, velocity) with derivatives; `smoothness` [J] is that of its solution."""


class Unrolled(Gradient):
    """Through every sweep or iteration: JAX's automatic differentiation."""

    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array,
    ) -> Array:  # fmt: skip
        """Unchanged."""
        return solve(rows, delassus, velocity)


class Implicit(Gradient):
    """By the implicit function theorem: one linear solve, however many sweeps or iterations were made.

    It assumes that the solver has converged. `smoothness` κ [J], impulse times velocity, takes the gradient
    at another point of the central path: larger is smoother, 0 is its end, None is the solver's own.
    """

    smoothness: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_smoothness("Implicit", self.smoothness)

    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array,
    ) -> Array:  # fmt: skip
        """The impulses of `solve`, as constants with a tangent."""
        kappa = smoothness if self.smoothness is None else self.smoothness
        scaled = scale_problem(rows, delassus, velocity, kappa)
        impulse = scaled.dimensionless(solve(*jax.lax.stop_gradient((rows, delassus, velocity))))
        own = kappa == smoothness
        solution = _solution(friction, kappa, own, scaled.problem, scaled.scale, impulse, scaled.energy)
        return solution[scaled.position]


def check_smoothness(owner: str, smoothness: float | None) -> None:
    """An error unless it is None or a finite number >= 0."""
    if smoothness is None:
        return
    if not isinstance(smoothness, int | float) or not 0 <= smoothness < float("inf"):
        raise ValueError(f"{owner}: smoothness is {smoothness!r}; give an energy in joules, 0 or more")


@partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _solution(
    friction: Friction, kappa: float, own: bool, problem: Problem, scale: Array, impulse: Array, energy: Array
) -> Array:
    """scale · impulse (r,) [N s], which solves the problem, as a function of the problem and the scale."""
    return scale * impulse


@_solution.defjvp
def _solution_jvp(friction: Friction, kappa: float, own: bool, primals: tuple, tangents: tuple) -> tuple:
    problem, scale, impulse, energy = primals
    solution = _solution(friction, kappa, own, problem, scale, impulse, energy)
    at = impulse if own else solve_scaled(problem, friction, kappa / energy, ITERATIONS, kappa == 0)
    if kappa == 0:
        dlam = _tangent(friction, problem, at, tangents[0])
    else:
        dlam = _smooth_tangent(friction, attainable(kappa / energy), problem, at, tangents[0])
    # λ = scale λ̂, at the impulses of the gradient's κ, which need not be those of the solution
    return solution, scale * dlam + tangents[1] * at


def solve_scaled(problem: Problem, friction: Friction, kappa: Array, iterations: int, exact: bool) -> Array:
    """Impulses (r,) on the central path at κ, or, if `exact`, at its end.

    Where redundant rows leave the end undetermined, it is the limit of the regularised problem's.
    """
    if not exact:
        return follow_central_path(problem, friction, kappa, iterations)
    soft = regularise(problem)
    impulse = polish(soft, friction, follow_central_path(soft, friction, kappa, iterations))
    return polish(problem, friction, impulse)


def _tangent(friction: Friction, problem: Problem, impulse: Array, change: Problem) -> Array:
    """dλ (r,) at the end of the path for a change of the problem; linear in it.

    Where redundant rows leave dλ undetermined, it is that of the regularised problem, then refined.
    """
    soft, soft_change = jax.jvp(regularise, (problem,), (change,))
    soft_impulse = polish(soft, friction, impulse)
    initial = _solve(soft, friction, active_set_point(soft, friction, soft_impulse), soft_change)
    return _solve(problem, friction, active_set_point(problem, friction, impulse), change, initial)


def _smooth_tangent(
    friction: Friction, kappa: Array, problem: Problem, impulse: Array, change: Problem
) -> Array:
    """dλ (r,) on the central path at κ."""
    problem = with_interior(problem)
    return _solve(problem, friction, central_point(problem, friction, impulse, kappa), change)


def _solve(
    problem: Problem, friction: Friction, at: Iterate, change: Problem, initial: Array | None = None
) -> Array:
    """dλ (r,) at an iterate for a change of the problem."""
    linear = linearise(problem, friction, at)
    impulse, factor, dfactor = at.impulse, problem.factor, change.factor
    dw = dfactor @ (impulse @ factor) + factor @ (impulse @ dfactor)
    dw = dw + change.softness * impulse + change.offset
    bounded, tangents = problem.split(impulse)
    has_bound = problem.has_bound() > 0
    # slacks change with their bounds, at fixed impulses
    dslack = jnp.where(has_bound, jnp.stack([-change.lower, change.upper], -1), 0)
    dbound = change.friction * problem.normals(bounded)
    dcone_slack = friction.slack(dbound, jnp.zeros_like(tangents))
    dproduct, dcone = -at.dual * dslack, -friction.product(dcone_slack, at.cone_dual)
    rhs = right_hand_side(problem, friction, linear, at, dproduct, dcone, dw)
    return newton_solver(problem, linear, GRADIENT_REFINEMENTS)(rhs, initial)
