"""Coulomb's law as a projection: what friction impulse a normal impulse allows."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.math import dot


class Friction(eqx.Module):
    """How tangential impulses (c, 2) are held within a bound (c,), μ times the normal impulse."""

    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Better impulses (c, 2) against `sliding` (c, 2) [m/s]; `size` (c, 2) [1/kg]: how they give way."""
        raise NotImplementedError


class Cone(Friction):
    """‖λ_t‖ <= μ λ_n: the same in every direction."""

    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Against the sliding, as far as the tangent that gives way more bears, then onto the disc."""
        wanted = impulse - sliding * (1 / jnp.max(size, -1, keepdims=True))
        square = dot(wanted, wanted)
        outside = square > bound * bound
        # a contact without load does not stick, not even at no sliding at all
        inside = jnp.where(bound > 0, 1.0, 0.0)
        shrink = jnp.where(outside, bound / jnp.sqrt(jnp.where(outside, square, 1)), inside)
        return wanted * shrink[:, None]


class Pyramid(Friction):
    """−μ λ_n <= λ_t <= μ λ_n: each tangent by itself, as Degrave et al. have it."""

    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Each tangent by itself."""
        bound = bound[:, None]
        return jnp.where(bound > 0, jnp.clip(impulse - sliding * (1 / size), -bound, bound), 0)
