"""Impulses between two ends, and the pushes that keep them there.

An impulse has a `room` (..., 2) to either end, and a `push` (..., 2) from it: together they move the row,
w = push₀ − push₁, and each push times its room is κ: the central path, which ends where κ is 0. Ends that
are not there (`there` 0) have room 1 and no push.
"""

import jax.numpy as jnp
from jax import Array

from backflip.math import dot, smallest

FAR = 1e3
"""longest step that is told apart from an endless one"""


def _shares(room: Array, there: Array) -> tuple[Array, Array]:
    """What a row weighs (...,), h = p q / (p + q), and its two ends' shares (..., 2), h/p and −h/q."""
    p, q = room[..., 0], room[..., 1]
    total = jnp.where(there[..., 0] * there[..., 1] > 0, p + q, 1)
    wide = total > 0
    total = jnp.where(wide, total, 1)
    ends = jnp.stack([jnp.where(wide, q / total, 0.5), jnp.where(wide, -p / total, -0.5)], -1)
    return p * q / total, there * ends


def linear(room: Array, push: Array, there: Array) -> tuple[Array, Array]:
    """Newton's equation of each row: weight · dw + stay · dλ = load.

    From dw = dpush₀ − dpush₁ and push · (dλ, −dλ) + room · dpush = c, times h.
    """
    weight, shares = _shares(room, there)
    return weight, shares[..., 0] * push[..., 0] - shares[..., 1] * push[..., 1]


def load(room: Array, there: Array, c: Array) -> Array:
    """The right side (...,) for wanted changes c (..., 2) of room times push."""
    return dot(_shares(room, there)[1], c)


def reply(room: Array, push: Array, there: Array, c: Array, droom: Array) -> Array:
    """dpush (..., 2)."""
    return there * (c - push * droom) / room


def longest(x: Array, dx: Array) -> Array:
    """How far (..., 2) x may go along dx and not below 0."""
    shrinks = -dx * FAR > x
    return jnp.where(shrinks, -x / jnp.where(shrinks, dx, -1), FAR)


def sharp(room: Array, w: Array, there: Array) -> tuple[Array, Array]:
    """Room and push (..., 2) at κ = 0: one of them is 0, the one that is smaller."""
    push = there * jnp.maximum(jnp.stack([w, -w], -1), 0)
    least = smallest(room)
    held = push > room
    return jnp.where(held, 0, jnp.maximum(room, least)), jnp.where(held, push, 0)
