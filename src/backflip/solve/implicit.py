"""Gradients of a solution: through every operation of a solver, or by the implicit function theorem.

An implicit gradient knows the solution and not how the solver arrived at it. Its tangent is linear in the
change of the problem (see `sensitivity`), and JAX transposes it for a gradient: both take one factorisation
of the size of the freedoms. The solution is kept from the forward pass, and not solved for again.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax import Array

from backflip.math import keep
from backflip.solve.friction import Friction
from backflip.solve.path import attainable, solve_scaled, with_interior
from backflip.solve.problem import Problem, scale_problem
from backflip.solve.rows import Delassus, Rows, Solution
from backflip.solve.sensitivity import mobility_of, physical_problem, tangent

ITERATIONS = 16
"""along the central path to a point that is smoother than the solution"""

Solve = Callable[[Rows, Delassus, Array], Solution]


class Gradient(eqx.Module):
    """How a solver is differentiated."""

    @abstractmethod
    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array,
    ) -> Array:  # fmt: skip
        """The impulses of `solve`, with derivatives; `smoothness` [J] is that of its solution."""


class Unrolled(Gradient):
    """Through every sweep or iteration: JAX's automatic differentiation."""

    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array,
    ) -> Array:  # fmt: skip
        """Unchanged."""
        return solve(rows, delassus, velocity).impulse


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
        fixed = Fixed(*jax.lax.stop_gradient((rows, delassus, velocity)))
        order, found = rows.layout.bounded_first, solve(*fixed)
        how = How(friction, smoothness, self.smoothness, found.softness)
        problem, impulse = physical_problem(rows, delassus, velocity), keep(found.impulse)[order]
        soft = tuple(keep(x)[order] for x in found.soft)
        return _solution(how, problem, fixed, impulse, soft)[np.argsort(order)]


class Fixed(NamedTuple):
    """What a solver was given, without derivatives."""

    rows: Rows
    delassus: Delassus
    velocity: Array


class How(NamedTuple):
    """Which derivative is taken."""

    friction: Friction
    solved: float
    wanted: float | None
    """[J] smoothness of the solution and of the gradient; None: the same"""
    softness: float
    """of `Solution.soft`; 0: there are no such impulses"""

    @property
    def smoothness(self) -> float:
        """[J] of the gradient."""
        return self.solved if self.wanted is None else self.wanted


def check_smoothness(owner: str, smoothness: float | None) -> None:
    """An error unless it is None or a finite number >= 0."""
    if smoothness is None:
        return
    if not isinstance(smoothness, int | float) or not 0 <= smoothness < float("inf"):
        raise ValueError(f"{owner}: smoothness is {smoothness!r}; give an energy in joules, 0 or more")


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solution(how: How, problem: Problem, fixed: Fixed, impulse: Array, soft: tuple[Array, ...]) -> Array:
    """`impulse` (r,) [N s], as a function of the problem that it solves."""
    return impulse


@_solution.defjvp
def _solution_jvp(how: How, primals: tuple, tangents: tuple) -> tuple:
    (problem, fixed, impulse, soft), change = primals, tangents[0]
    solution = _solution(how, problem, fixed, impulse, soft)
    mobility, kappa = mobility_of(fixed.rows, fixed.delassus), None
    at = Solution(solution, soft, how.softness)
    if how.smoothness != how.solved:
        at = _solve_at(how, fixed)
    if how.smoothness:
        problem, kappa = with_interior(problem), _attainable(how.smoothness, fixed)
    return solution, tangent(problem, mobility, how.friction, at, kappa, change)


def _solve_at(how: How, fixed: Fixed) -> Solution:
    """Impulses (r,) [N s] where the gradient is taken, in the order of a problem."""
    kappa, scaled = how.smoothness, scale_problem(*fixed, how.smoothness)
    found = solve_scaled(scaled.problem, how.friction, kappa / scaled.energy, ITERATIONS, kappa == 0)
    soft = tuple(scaled.scale * x for x in found.soft)
    return found._replace(impulse=scaled.scale * found.impulse, soft=soft)


def _attainable(kappa: float, fixed: Fixed) -> Array:
    """κ [J], but no less than rounding lets the path come to."""
    energy = scale_problem(*fixed, kappa).energy
    return attainable(kappa / energy) * energy
