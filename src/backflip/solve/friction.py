"""Coulomb's law as a projection: what friction impulse a normal impulse allows."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.math import norm


class Friction(eqx.Module):
    """How tangential impulses (c, 2) are held within a bound (c,), μ times the normal impulse."""

    def update(self, impulse: Array, sliding: Array, step: Array, bound: Array) -> Array:
        """Better impulses (c, 2) against `sliding` (c, 2) [m/s]; `step` (c, 2) [kg] is how far to go."""
        raise NotImplementedError


class Cone(Friction):
    """‖λ_t‖ <= μ λ_n: the same in every direction."""

    def update(self, impulse: Array, sliding: Array, step: Array, bound: Array) -> Array:
        """Straight against the sliding by the shorter step, then radially onto the disc."""
        wanted = impulse - sliding * jnp.minimum(step[:, :1], step[:, 1:])
        length = norm(wanted)
        outside = length > bound
        # a contact without load does not stick, not even at no sliding at all
        inside = jnp.where(bound > 0, 1.0, 0.0)
        return wanted * jnp.where(outside, bound / jnp.where(outside, length, 1), inside)[:, None]


class Pyramid(Friction):
    """−μ λ_n <= λ_t <= μ λ_n: each tangent by itself, as Degrave et al. have it."""

    def update(self, impulse: Array, sliding: Array, step: Array, bound: Array) -> Array:
        """Each tangent by its own step."""
        bound = bound[:, None]
        return jnp.where(bound > 0, jnp.clip(impulse - sliding * step, -bound, bound), 0)
