"""The interior-point solver: Newton's method along the central path."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.solve.cone import Cone
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient, Implicit, check_smoothness
from backflip.solve.path import solve_scaled
from backflip.solve.problem import scale_problem
from backflip.solve.rows import Delassus, Rows, Solution
from backflip.solve.solver import Solver, check_solver


class InteriorPoint(Solver):
    """Newton's method with all impulses inside their bounds, after Belbute-Peres et al. (2018), section 3.2.

    It converges where Gauss-Seidel is slow: large mass ratios, long loops, many contacts on one body. It has
    no warm start. `smoothness` κ [J]: slack times dual, impulse times velocity, of every contact and bound,
    so that contacts act a little before they touch; 0 solves to the end of the central path.
    """

    iterations: int = eqx.field(static=True, default=24)
    friction: Friction = eqx.field(default=Cone(), static=True)
    smoothness: float = eqx.field(static=True, default=0.0)
    gradient: Gradient = eqx.field(default=Implicit(), static=True)

    def __check_init__(self):
        check_solver(self, "iterations", self.iterations)
        check_smoothness("InteriorPoint", self.smoothness)

    def solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Array:
        """Impulses after at most `iterations` iterations."""
        if not rows.layout.rows:
            return jnp.zeros_like(rows.target)
        return self.gradient.differentiate(
            self._solve, self.friction, self.smoothness, rows, delassus, velocity
        )

    def _solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Solution:
        scaled = scale_problem(rows, delassus, velocity, self.smoothness)
        kappa, exact = self.smoothness / scaled.energy, self.smoothness == 0
        return scaled.solution(solve_scaled(scaled.problem, self.friction, kappa, self.iterations, exact))
