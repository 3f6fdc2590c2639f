"""How much a residual counts: all by its square, or outliers less."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

NORMAL = 0.6745
"""half of all normal numbers are within so many standard deviations"""


class ResidualCost(eqx.Module):
    """A residual r, in units of its noise, costs signed_root(r)² / 2."""

    def signed_root(self, r: Array) -> Array:
        """The number whose square is what r costs; odd and smooth, signed_root(r) → r for small r."""
        raise NotImplementedError

    def variance(self, roots: np.ndarray, parameters: int) -> float:
        """Of the noise, by the median of a fit's signed roots (m,), which outliers do not move."""
        spread = float(np.median(np.abs(roots))) / NORMAL
        return spread**2 * len(roots) / max(len(roots) - parameters, 1)


class Square(ResidualCost):
    """Least squares: every residual counts by its square."""

    def signed_root(self, r: Array) -> Array:
        """r itself."""
        return r

    def variance(self, roots: np.ndarray, parameters: int) -> float:
        """The sum of squares over the degrees of freedom."""
        return float(roots @ roots) / max(len(roots) - parameters, 1)


def _check(name: str, width: float) -> None:
    if not 0 < width < float("inf"):
        raise ValueError(f"{name}: width is {width!r}; give a positive number of standard deviations")


class Huber(ResidualCost):
    """r² up to `width` standard deviations of the noise, from there on 2·width·abs(r) − width²."""

    width: float = eqx.field(static=True, default=1.5)

    def __check_init__(self):
        _check("Huber", self.width)

    def signed_root(self, r: Array) -> Array:
        """± √(2 width abs(r) − width²) beyond the width."""
        far = jnp.abs(r) > self.width
        safe = jnp.where(far, jnp.abs(r), self.width)
        return jnp.where(far, jnp.sign(r) * jnp.sqrt(self.width * (2 * safe - self.width)), r)


class Cauchy(ResidualCost):
    """width² ln(1 + (r/width)²): outliers count less the farther they are."""

    width: float = eqx.field(static=True, default=3.0)

    def __check_init__(self):
        _check("Cauchy", self.width)

    def signed_root(self, r: Array) -> Array:
        """± width √ln(1 + (r/width)²)."""
        x = r / self.width
        near = jnp.abs(x) < 1e-3
        # √ln(1 + x²) = |x| (1 − x²/4 + …): the root has no slope at 0
        safe = jnp.where(near, 1.0, x)
        return self.width * jnp.where(near, x, jnp.sign(x) * jnp.sqrt(jnp.log1p(safe * safe)))
