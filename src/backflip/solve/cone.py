"""Friction within a disc whose size is the normal impulse's, and the slip that belongs to it.

room (k, 3) is (μ λ_n, λ_t), slip (k, 3) is (γ, w_t); both lie in the cone first >= |rest|, and their product
is (κ, 0, 0): the central path. Where κ is 0 a contact sticks, w_t = 0, or slides, λ_t = −μ λ_n w_t / |w_t|
with γ = |w_t|.
"""

import jax.numpy as jnp
from jax import Array

from backflip.math import dot, norm, outer, smallest
from backflip.solve.friction import Friction
from backflip.solve.interval import FAR


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
        """Jordan's, room ∘ slip = (room · slip, room₀ slip_t + slip₀ room_t)."""
        rest = room[:, :1] * slip[:, 1:] + slip[:, :1] * room[:, 1:]
        return jnp.concatenate([dot(room, slip)[:, None], rest], -1)

    def one(self, bound: Array) -> Array:
        """(1, 0, 0)."""
        return jnp.zeros((*bound.shape, 3), bound.dtype).at[:, 0].set(1)

    def slip(self, room: Array, kappa: Array) -> Array:
        """κ room⁻¹, for room within the cone or, by rounding, on it."""
        along = _along(room)
        inside = jnp.maximum(1 - dot(along, along), jnp.finfo(room.dtype).eps)
        inverse = jnp.concatenate([jnp.ones_like(room[:, :1]), -along], -1) / (room[:, 0] * inside)[:, None]
        return kappa * inverse

    def sliding(self, slip: Array) -> Array:
        """All but the first."""
        return slip[:, 1:]

    def linear(self, room: Array, slip: Array) -> tuple[Array, Array, Array]:
        """The tangential part of droom ∘ slip + room ∘ dslip = c, less λ_t/(μ λ_n) times its first part."""
        along, eye = _along(room), jnp.eye(2, dtype=room.dtype)
        weight = room[:, :1, None] * eye - outer(room[:, 1:], along)
        stay = slip[:, :1, None] * eye - outer(along, slip[:, 1:])
        return weight, stay, slip[:, 1:] - along * slip[:, :1]

    def load(self, room: Array, c: Array) -> Array:
        """The right side made in the same way."""
        return c[:, 1:] - _along(room) * c[:, :1]

    def reply(self, room: Array, slip: Array, c: Array, droom: Array, dslide: Array) -> Array:
        """Its tangential part is dslide."""
        first = c[:, 0] - dot(slip, droom) - dot(room[:, 1:], dslide)
        return jnp.concatenate([(first / room[:, 0])[:, None], dslide], -1)

    def longest(self, x: Array, dx: Array) -> Array:
        """(k,) the least positive root t of y·R y = 0 or y₀ = 0, y = x + t dx, R = diag(1, −1, −1)."""
        sign = jnp.array([1, -1, -1], x.dtype)
        a, b, c = dot(sign * dx, dx), dot(sign * x, dx), dot(sign * x, x)
        root = jnp.sqrt(jnp.maximum(b * b - a * c, 0))
        # 1/t of the roots: the largest positive one is the nearest end
        c = jnp.maximum(c, jnp.finfo(x.dtype).eps * x[:, 0] * x[:, 0])
        inverse = jnp.maximum((-b + root) / c, -dx[:, 0] / x[:, 0])
        ends = inverse * FAR > 1
        return jnp.where(ends, 1 / jnp.where(ends, inverse, 1), FAR)

    def sharp(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """It sticks and slip is 0, or it slides and both lie on the cone."""
        least = smallest(bound)
        wanted = impulse - sliding
        length = norm(wanted)
        bears = bound > least
        slides = (length > bound) & (length > least)
        towards = jnp.where(slides, 1 / jnp.where(slides, length, 1), 0)[:, None] * wanted
        size = jnp.where(bears, bound, 0)
        beyond = jnp.where(slides, length - bound, jnp.where(bears, 0, 1))
        room = jnp.concatenate([size[:, None], size[:, None] * towards], -1)
        slip = jnp.concatenate([beyond[:, None], -beyond[:, None] * towards], -1)
        return room, slip


def _along(room: Array) -> Array:
    """(k, 2) λ_t / (μ λ_n), within the unit disc; 0 where nothing is borne."""
    bears = room[:, :1] > 0
    return jnp.where(bears, room[:, 1:] / jnp.where(bears, room[:, :1], 1), 0)
