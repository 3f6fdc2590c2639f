"""The interior-point solver: Newton's method along the central path."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.solve.cone import Cone
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient, Implicit, central, check_smoothness
from backflip.solve.problem import pose
from backflip.solve.rows import Mobility, Rows
from backflip.solve.solver import Solver, check_solver


class InteriorPoint(Solver):
    """Newton's method with all impulses inside their bounds, after Belbute-Peres et al. (2018), section 3.2.

    It converges where sweeps are slow: heavy on light, long loops, many contacts on one body. It takes no
    start from the last step. `smoothness` κ [J]: impulse times velocity that every contact and bound is left
    with, so that contacts push a little before they touch; 0 solves to the end.
    """

    iterations: int = eqx.field(static=True, default=24)
    friction: Friction = eqx.field(default=Cone(), static=True)
    smoothness: float = eqx.field(static=True, default=0.0)
    gradient: Gradient = eqx.field(default=Implicit(), static=True)

    def __check_init__(self):
        check_solver(self, "iterations", self.iterations)
        check_smoothness("InteriorPoint", self.smoothness)

    def solve(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        """Impulses after at most `iterations` iterations."""
        if not rows.target.shape[0]:
            return jnp.zeros_like(rows.target)
        return self.gradient.through(self._find, self.friction, self.smoothness, rows, mobility, velocity)

    def _find(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        posed = pose(rows, mobility, velocity, self.smoothness)
        kappa = self.smoothness / posed.energy
        found = central(posed.problem, self.friction, kappa, self.iterations, self.smoothness == 0)
        return posed.impulses(found)
