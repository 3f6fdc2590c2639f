"""The interface of every solver."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.solve.equations import residual
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient
from backflip.solve.problem import scale_problem
from backflip.solve.rows import Delassus, Rows


class Solver(eqx.Module):
    """Computes the impulses with which rows hold. Subclasses give `friction`, `gradient` and `solve`."""

    @property
    @abstractmethod
    def friction(self) -> Friction:
        """Coulomb's law, as a cone or a pyramid."""

    @property
    @abstractmethod
    def gradient(self) -> Gradient:
        """How it is differentiated."""

    @abstractmethod
    def solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Array:
        """Impulses λ (r,) [N s]; velocity (r,) is J V before them."""

    def residual(self, rows: Rows, delassus: Delassus, velocity: Array, impulse: Array) -> Array:
        """The largest violation [m/s] of a row with these impulses (r,); 0: solved."""
        if not rows.layout.rows:
            return jnp.zeros((), rows.target.dtype)
        scaled = scale_problem(rows, delassus, velocity)
        violation = residual(scaled.problem, self.friction, scaled.dimensionless(impulse))
        return jnp.max(jnp.abs(violation) * scaled.energy / scaled.scale)


def check_solver(solver: Solver, name: str, count: int) -> None:
    """An error that names what is wrong with a solver's fields."""
    own = type(solver).__name__
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{own}: {name} is {count!r}; give a whole number of at least 1")
    if not isinstance(solver.friction, Friction):
        raise ValueError(f"{own}: friction is {solver.friction!r}; give Cone() or Pyramid()")
    if not isinstance(solver.gradient, Gradient):
        raise ValueError(f"{own}: gradient is {solver.gradient!r}; give Implicit() or Unrolled()")
