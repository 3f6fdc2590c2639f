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
from backflip.solve.equations import regularise
from backflip.solve.friction import Friction
from backflip.solve.path import attainable, follow_central_path, polish, with_interior
from backflip.solve.problem import Problem, scale_problem
from backflip.solve.rows import Delassus, Rows
from backflip.solve.sensitivity import mobility_of, physical_problem, soften_rows, tangent

ITERATIONS = 16
"""along the central path to a point that is smoother than the solution"""

Solve = Callable[[Rows, Delassus, Array], Array]


class Gradient(eqx.Module):
    """How a solver is differentiated."""

    @abstractmethod
    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array, limit: bool = False,
    ) -> Array:  # fmt: skip
        """solve(rows, delassus, velocity) with derivatives; `smoothness` [J] is that of its solution.

        `limit`: where redundant rows leave the solution open, it is the limit of ever less soft rows' ones.
        """


class Unrolled(Gradient):
    """Through every sweep or iteration: JAX's automatic differentiation."""

    def differentiate(
        self, solve: Solve, friction: Friction, smoothness: float,
        rows: Rows, delassus: Delassus, velocity: Array, limit: bool = False,
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
        rows: Rows, delassus: Delassus, velocity: Array, limit: bool = False,
    ) -> Array:  # fmt: skip
        """The impulses of `solve`, as constants with a tangent."""
        fixed = Fixed(*jax.lax.stop_gradient((rows, delassus, velocity)))
        order, how = rows.layout.bounded_first, How(friction, smoothness, self.smoothness, limit)
        problem, impulse = physical_problem(rows, delassus, velocity), keep(solve(*fixed))[order]
        return _solution(how, problem, fixed, impulse)[np.argsort(order)]


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
    limit: bool

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
def _solution(how: How, problem: Problem, fixed: Fixed, impulse: Array) -> Array:
    """`impulse` (r,) [N s], as a function of the problem that it solves."""
    return impulse


@_solution.defjvp
def _solution_jvp(how: How, primals: tuple, tangents: tuple) -> tuple:
    (problem, fixed, impulse), change = primals, tangents[0]
    solution = _solution(how, problem, fixed, impulse)
    at = solution if how.smoothness == how.solved else _solve_at(how, fixed)
    mobility, start = mobility_of(fixed.rows, fixed.delassus), None
    if how.smoothness:
        kappa = _attainable(how.smoothness, fixed)
        return solution, tangent(with_interior(problem), mobility, how.friction, at, kappa, change)
    if how.limit:
        soft, soft_change = jax.jvp(soften_rows, (problem,), (change,))
        start = tangent(soft, mobility, how.friction, _soften(how, fixed, at), None, soft_change)
    return solution, tangent(problem, mobility, how.friction, at, None, change, start)


def _solve_at(how: How, fixed: Fixed) -> Array:
    """Impulses (r,) [N s] where the gradient is taken, in the order of a problem."""
    kappa, scaled = how.smoothness, scale_problem(*fixed, how.smoothness)
    found = solve_scaled(scaled.problem, how.friction, kappa / scaled.energy, ITERATIONS, kappa == 0)
    return scaled.scale * found


def _soften(how: How, fixed: Fixed, impulse: Array) -> Array:
    """Impulses (r,) [N s] if rows were slightly soft, in the order of a problem."""
    scaled = scale_problem(*fixed)
    return scaled.scale * polish(regularise(scaled.problem), how.friction, impulse / scaled.scale)


def _attainable(kappa: float, fixed: Fixed) -> Array:
    """κ [J], but no less than rounding lets the path come to."""
    energy = scale_problem(*fixed, kappa).energy
    return attainable(kappa / energy) * energy


def solve_scaled(problem: Problem, friction: Friction, kappa: Array, iterations: int, exact: bool) -> Array:
    """Impulses (r,) on the central path at κ, or, if `exact`, at its end.

    Where redundant rows leave the end undetermined, it is the limit of the regularised problem's.
    """
    if not exact:
        return follow_central_path(problem, friction, kappa, iterations)
    soft = regularise(problem)
    impulse = polish(soft, friction, follow_central_path(soft, friction, kappa, iterations))
    return polish(problem, friction, impulse)
