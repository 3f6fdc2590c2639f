"""What every solver is."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient
from backflip.solve.newton import residual
from backflip.solve.problem import pose
from backflip.solve.rows import Mobility, Rows


class Solver(eqx.Module):
    """Finds the impulses that make rows hold."""

    @property
    @abstractmethod
    def friction(self) -> Friction:
        """What bounds friction."""

    @property
    @abstractmethod
    def gradient(self) -> Gradient:
        """How it is differentiated."""

    @abstractmethod
    def solve(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        """Impulses λ (r,) [N s]; velocity (r,) is J V before them."""

    def residual(self, rows: Rows, mobility: Mobility, velocity: Array, impulse: Array) -> Array:
        """By how much [m/s] the worst row misses what it should hold with these impulses (r,); 0: solved."""
        if not rows.target.shape[0]:
            return jnp.zeros((), rows.target.dtype)
        posed = pose(rows, mobility, velocity)
        miss = residual(posed.problem, self.friction, posed.unscaled(impulse))
        return jnp.max(jnp.abs(miss) * posed.energy / posed.scale)


def check_solver(solver: Solver, name: str, count: int) -> None:
    """An error that names what is wrong with a solver's fields."""
    own = type(solver).__name__
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"{own}: {name} is {count!r}; give a whole number of at least 1")
    if not isinstance(solver.friction, Friction):
        raise ValueError(f"{own}: friction is {solver.friction!r}; give Cone() or Pyramid()")
    if not isinstance(solver.gradient, Gradient):
        raise ValueError(f"{own}: gradient is {solver.gradient!r}; give Implicit() or Unrolled()")
