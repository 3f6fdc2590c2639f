"""Newton's method on Coulomb's law, from the last step's impulses."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.solve.cone import Cone
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient, Implicit
from backflip.solve.pgs import PGS
from backflip.solve.problem import scale_problem
from backflip.solve.rows import Delassus, Rows, Solution
from backflip.solve.semismooth import solve_semismooth
from backflip.solve.sensitivity import softness_of
from backflip.solve.solver import Solver, check_solver

NORMAL_SIZE = 0.5
"""of normal impulses, where the diagonal of A is 1: a contact parts where its velocity exceeds its impulse by
the inverse square of this, as servos that hold their joints make a foot heavier than the diagonal tells"""

SWEEPS = 4
"""to begin with: they solve little, and tell who bears and who slides"""


class Newton(Solver):
    """Newton's method on Coulomb's law, as many iterations as it takes, at most `iterations`.

    As many on slightly soft rows, which decide how redundant contacts share a load, and then on rigid ones.
    It starts from the last step's impulses; the best iterate is its result. Large mass ratios and redundant
    contacts cost it little. Of robots that are stepped together those whose rows are hard to solve decide how
    long a step takes: fewer iterations bound that, and leave more steps unsolved.
    """

    iterations: int = eqx.field(static=True, default=24)
    friction: Friction = eqx.field(default=Cone(), static=True)
    gradient: Gradient = eqx.field(default=Implicit(), static=True)

    def __check_init__(self):
        check_solver(self, "iterations", self.iterations)
        if not isinstance(self.friction, Cone):
            raise ValueError(f"Newton: friction is {self.friction!r}; give Cone(), or take another solver")

    def solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Array:
        """Impulses that solve the rows to rounding, where they can be solved."""
        if not rows.layout.rows:
            return jnp.zeros_like(rows.target)
        return self.gradient.differentiate(self._solve, self.friction, 0.0, rows, delassus, velocity)

    def _solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Solution:
        scaled = scale_problem(rows, delassus, velocity)
        size = np.ones(rows.layout.rows, rows.target.dtype)
        size[rows.layout.scalars :][: rows.layout.contacts] = NORMAL_SIZE
        swept = PGS(SWEEPS, self.friction).solve(rows, delassus, velocity)
        initial, unit = scaled.dimensionless(swept) / size, scaled.energy / scaled.scale / size
        problem, softness = scaled.problem, softness_of(unit.dtype)
        added = (problem.softened(softness).softness - problem.softness) * size * size

        found = solve_semismooth(problem.rescaled(size), added, unit, initial, self.iterations)
        *soft, impulse = (x * size for x in found)
        return scaled.solution(Solution(impulse, tuple(soft), softness))
