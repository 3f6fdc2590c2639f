"""Coulomb's law: what friction impulse a normal impulse allows.

For sweeps it is a projection. For Newton's method it is a `room` within the bound, a `slip` that belongs to
it, and a product of the two that is κ on the central path and 0 at its end.
"""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.math import dot
from backflip.solve import disc, interval


class Friction(eqx.Module):
    """How tangential impulses (k, 2) are held within a bound (k,), μ times the normal impulse."""

    @abstractmethod
    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Better impulses (k, 2) against `sliding` (k, 2) [m/s]; `size` (k, 2) [1/kg]: how they give way."""

    @abstractmethod
    def nearest(self, impulse: Array, bound: Array) -> Array:
        """The allowed impulses (k, 2) nearest to some."""

    @abstractmethod
    def room(self, bound: Array, impulse: Array) -> Array:
        """(k, m) linear in both; where the bound allows the impulse it lies in a cone."""

    @abstractmethod
    def product(self, room: Array, slip: Array) -> Array:
        """(k, m) κ times `one` on the central path."""

    @abstractmethod
    def one(self, bound: Array) -> Array:
        """(k, m) the unit of the product."""

    @abstractmethod
    def slip(self, room: Array, kappa: Array) -> Array:
        """The slip (k, m) that goes with a room on the central path."""

    @abstractmethod
    def sliding(self, slip: Array) -> Array:
        """w_t (k, 2)."""

    @abstractmethod
    def linear(self, room: Array, slip: Array) -> tuple[Array, Array, Array]:
        """weight (k, 2, 2), stay (k, 2, 2), lean (k, 2): weight dw_t + stay dλ_t + lean dbound = load."""

    @abstractmethod
    def load(self, room: Array, c: Array) -> Array:
        """The right side (k, 2) for wanted changes c (k, m) of the product."""

    @abstractmethod
    def reply(self, room: Array, slip: Array, c: Array, droom: Array, dslide: Array) -> Array:
        """The change (k, m) of slip that goes with one of room and one of w_t (k, 2)."""

    @abstractmethod
    def longest(self, x: Array, dx: Array) -> Array:
        """How far (k, ...) room or slip may go along dx without leaving the cone."""

    @abstractmethod
    def sharp(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Room and slip (k, m) at the end of the path."""


class Cone(Friction):
    """‖λ_t‖ <= μ λ_n: the same in every direction."""

    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Against the sliding, as far as the tangent that gives way more bears, then onto the disc."""
        # one that moves nothing, out of the plane of a planar scene, has no say and gets no impulse
        moves = jnp.isfinite(size)
        most = jnp.max(jnp.where(moves, size, 0), -1, keepdims=True)
        step = jnp.where(moves, 1 / jnp.where(most > 0, most, 1), 0)
        return self.nearest(impulse - sliding * step, bound)

    def nearest(self, impulse: Array, bound: Array) -> Array:
        """Shrunk onto the disc."""
        square = dot(impulse, impulse)
        outside = square > bound * bound
        # a contact without load does not stick, not even at no sliding at all
        inside = jnp.where(bound > 0, 1.0, 0.0)
        shrink = jnp.where(outside, bound / jnp.sqrt(jnp.where(outside, square, 1)), inside)
        return impulse * shrink[:, None]

    def room(self, bound: Array, impulse: Array) -> Array:
        """(k, 3) the bound, then the impulse."""
        return jnp.concatenate([bound[:, None], impulse], -1)

    def product(self, room: Array, slip: Array) -> Array:
        """Jordan's."""
        return disc.product(room, slip)

    def one(self, bound: Array) -> Array:
        """(1, 0, 0)."""
        return jnp.zeros((*bound.shape, 3), bound.dtype).at[:, 0].set(1)

    def slip(self, room: Array, kappa: Array) -> Array:
        """κ room⁻¹."""
        return kappa * disc.inverse(room)

    def sliding(self, slip: Array) -> Array:
        """All but the first."""
        return slip[:, 1:]

    def linear(self, room: Array, slip: Array) -> tuple[Array, Array, Array]:
        """See `disc`."""
        return disc.linear(room, slip)

    def load(self, room: Array, c: Array) -> Array:
        """See `disc`."""
        return disc.load(room, c)

    def reply(self, room: Array, slip: Array, c: Array, droom: Array, dslide: Array) -> Array:
        """See `disc`."""
        return disc.reply(room, slip, c, droom, dslide)

    def longest(self, x: Array, dx: Array) -> Array:
        """(k,)"""
        return disc.longest(x, dx)

    def sharp(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Sticks or slides."""
        return disc.sharp(bound, impulse, sliding)


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
        least = jnp.finfo(bound.dtype).tiny ** 0.25
        empty = ((bound <= least)[:, None] & (jnp.abs(sliding) <= least))[..., None]
        return jnp.where(empty, 0, room), jnp.where(empty, 1, slip)
