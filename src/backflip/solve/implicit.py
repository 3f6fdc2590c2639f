"""Gradients of a solution: through everything a solver did, or from the equations that its result fulfils.

At a solution, or at a point of the central path, a change of the problem changes impulses by

    K dλ = −weight dw − lean de        (newton.Linear; de: how bounds move)

with dw what the change does to w at fixed λ. K is not symmetric, since friction follows its normal and not
the other way round. So a gradient takes one solve with Kᵀ: JAX transposes `_tangent`, which is linear in the
changes. What a solver did on its way there plays no part.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.solve.friction import Friction
from backflip.solve.newton import Point, linearise, load, point_at, sharp_point, soften, solver
from backflip.solve.path import finish, follow, reachable, widen
from backflip.solve.problem import Problem, pose
from backflip.solve.rows import Mobility, Rows

GRADIENT_REFINEMENTS = 3
"""of a gradient; a step along the path needs fewer, since the next one mends it"""
ITERATIONS = 16
"""Steps along the central path to a point that is smoother than the solution"""

Find = Callable[[Rows, Mobility, Array], Array]


class Gradient(eqx.Module):
    """How a solver is differentiated."""

    @abstractmethod
    def through(
        self, find: Find, friction: Friction, smoothness: float,
        rows: Rows, mobility: Mobility, velocity: Array,
    ) -> Array:  # fmt: skip
        """find(rows, mobility, velocity) with derivatives; `smoothness` [J] is that of what it finds."""


class Unrolled(Gradient):
    """Through every sweep or iteration, as JAX does by itself."""

    def through(
        self, find: Find, friction: Friction, smoothness: float,
        rows: Rows, mobility: Mobility, velocity: Array,
    ) -> Array:  # fmt: skip
        """As it stands."""
        return find(rows, mobility, velocity)


class Implicit(Gradient):
    """By the implicit function theorem: one linear solve, however many sweeps or iterations were made.

    It trusts that the solver has converged. `smoothness` κ [J], impulse times velocity, takes the gradient
    at another point of the central path: larger is smoother, 0 is sharp, None is the solver's own.
    """

    smoothness: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_smoothness("Implicit", self.smoothness)

    def through(
        self, find: Find, friction: Friction, smoothness: float,
        rows: Rows, mobility: Mobility, velocity: Array,
    ) -> Array:  # fmt: skip
        """The impulses found, as constants with a tangent."""
        kappa = smoothness if self.smoothness is None else self.smoothness
        posed = pose(rows, mobility, velocity, kappa)
        impulse = posed.unscaled(find(*jax.lax.stop_gradient((rows, mobility, velocity))))
        own = kappa == smoothness
        found = _solution(friction, kappa, own, posed.problem, posed.scale, impulse, posed.energy)
        return found[posed.place]


def check_smoothness(owner: str, smoothness: float | None) -> None:
    """An error where it is no number from 0 on."""
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
    found = _solution(friction, kappa, own, problem, scale, impulse, energy)
    at = impulse if own else central(problem, friction, kappa / energy, ITERATIONS, kappa == 0)
    if kappa == 0:
        change = _tangent(friction, problem, at, tangents[0])
    else:
        change = _smooth_tangent(friction, reachable(kappa / energy), problem, at, tangents[0])
    # of the impulses that the gradient is taken at, which need not be those that were found
    return found, scale * change + tangents[1] * at


def central(problem: Problem, friction: Friction, kappa: Array, iterations: int, to_the_end: bool) -> Array:
    """Impulses (r,) on the central path at κ, or at its end.

    Where redundant rows leave it open, that end is the one that a little softness would lead to.
    """
    if not to_the_end:
        return follow(problem, friction, kappa, iterations)
    soft = soften(problem)
    return finish(problem, friction, finish(soft, friction, follow(soft, friction, kappa, iterations)))


def _tangent(friction: Friction, problem: Problem, impulse: Array, change: Problem) -> Array:
    """dλ (r,) at the end of the path for a change of the problem; linear in it.

    Redundant rows share out a change as they would if they were a little soft; all else is then put right.
    """
    soft, soft_change = jax.jvp(soften, (problem,), (change,))
    settled = finish(soft, friction, impulse)
    start = _solve(soft, friction, sharp_point(soft, friction, settled), soft_change)
    return _solve(problem, friction, sharp_point(problem, friction, impulse), change, start)


def _smooth_tangent(
    friction: Friction, kappa: Array, problem: Problem, impulse: Array, change: Problem
) -> Array:
    """dλ (r,) on the central path at κ."""
    problem = widen(problem)
    return _solve(problem, friction, point_at(problem, friction, impulse, kappa), change)


def _solve(
    problem: Problem, friction: Friction, at: Point, change: Problem, start: Array | None = None
) -> Array:
    """dλ (r,) at a point for a change of the problem."""
    linear = linearise(problem, friction, at)
    impulse, share, d = at.impulse, problem.share, change.share
    dw = d @ (impulse @ share) + share @ (impulse @ d) + change.softness * impulse + change.offset
    bounded, tangents = problem.split(impulse)
    there = problem.there() > 0
    ends = jnp.stack([-change.lower, change.upper], -1)
    # rooms change with their bounds, at fixed impulses
    droom = jnp.where(there, ends, 0)
    dspace = friction.room(change.friction * problem.normals(bounded), jnp.zeros_like(tangents))
    c, cs = -at.push * droom, -friction.product(dspace, at.slip)
    right = load(problem, friction, linear, at, c, cs, dw)
    return solver(problem, linear, GRADIENT_REFINEMENTS)(right, start)
