"""Friction within a square: each tangent by itself."""

import jax.numpy as jnp
from jax import Array

from backflip.math import smallest
from backflip.solve import interval
from backflip.solve.friction import Friction


class Pyramid(Friction):
    """−μ λ_n <= λ_t <= μ λ_n: each tangent by itself, as Degrave et al. have it."""

    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Each tangent by itself."""
        return self.nearest(impulse - sliding * (1 / size), bound)

    def nearest(self, impulse: Array, bound: Array) -> Array:
        """Each tangent by itself."""
        bound = bound[:, None]
        return jnp.where(bound > 0, jnp.clip(impulse, -bound, bound), 0)

    def room(self, bound: Array, impulse: Array) -> Array:
        """(k, 2, 2) to either end of each tangent."""
        return bound[:, None, None] + jnp.stack([impulse, -impulse], -1)

    def product(self, room: Array, slip: Array) -> Array:
        """Each end by itself."""
        return room * slip

    def one(self, bound: Array) -> Array:
        """Ones."""
        return jnp.ones((*bound.shape, 2, 2), bound.dtype)

    def slip(self, room: Array, kappa: Array) -> Array:
        """κ / room, where rounding has left any."""
        least = jnp.finfo(room.dtype).eps * jnp.sum(room, -1, keepdims=True)
        return kappa / jnp.maximum(room, least)

    def sliding(self, slip: Array) -> Array:
        """The difference of the two ends."""
        return slip[..., 0] - slip[..., 1]

    def linear(self, room: Array, slip: Array) -> tuple[Array, Array, Array]:
        """See `interval`; both ends move with the bound."""
        weight, stay = interval.linear(room, slip, jnp.ones_like(room))
        eye = jnp.eye(2, dtype=room.dtype)
        return weight[..., None] * eye, stay[..., None] * eye, self.load(room, slip)

    def load(self, room: Array, c: Array) -> Array:
        """See `interval`."""
        return interval.load(room, jnp.ones_like(room), c)

    def reply(self, room: Array, slip: Array, c: Array, droom: Array, dslide: Array) -> Array:
        """See `interval`."""
        return interval.reply(room, slip, jnp.ones_like(room), c, droom)

    def longest(self, x: Array, dx: Array) -> Array:
        """(k, 2, 2)"""
        return interval.longest(x, dx)

    def sharp(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Each tangent sticks or slides; without load both stay."""
        room = self.room(bound, jnp.clip(impulse, -bound[:, None], bound[:, None]))
        room, slip = interval.sharp(room, sliding, jnp.ones_like(room))
        least = smallest(bound)
        empty = ((bound <= least)[:, None] & (jnp.abs(sliding) <= least))[..., None]
        return jnp.where(empty, 0, room), jnp.where(empty, 1, slip)
