"""Impulses between two ends, and the pushes that keep them there.

An impulse has a `room` (..., 2) to either end, and a `push` (..., 2) from it: together they move the row,
w = push₀ − push₁, and each push times its room is κ: the central path, which ends where κ is 0. Ends that
are not there (`there` 0) have room 1 and no push.
"""

import jax.numpy as jnp
from jax import Array

from backflip.math import dot


def _shares(room: Array, there: Array) -> tuple[Array, Array]:
    """What a row weighs (...,), h = p q / (p + q), and how its two ends share in it (..., 2), h/p and −h/q."""
    p, q = room[..., 0], room[..., 1]
    total = jnp.where(there[..., 0] * there[..., 1] > 0, p + q, 1)
    wide = total > 0
    total = jnp.where(wide, total, 1)
    ends = jnp.where(wide[..., None], jnp.stack([q / total, -p / total], -1), jnp.array([0.5, -0.5], p.dtype))
    return p * q / total, there * ends


def linear(room: Array, push: Array, there: Array) -> tuple[Array, Array, Array]:
    """Newton's equation of each row: weight · dw + stay · dλ + lean · de = load, with ends that move by de.

    From dw = dpush₀ − dpush₁ and push · droom + room · dpush = c, where droom = (dλ, −dλ) + de, times h.
    """
    weight, parts = _shares(room, there)
    lean = parts * push
    return weight, lean[..., 0] - lean[..., 1], lean


def load(room: Array, there: Array, c: Array) -> Array:
    """The right side (...,) of that equation for wanted changes c (..., 2) of room times push."""
    return dot(_shares(room, there)[1], c)


def reply(room: Array, push: Array, there: Array, c: Array, droom: Array) -> Array:
    """dpush (..., 2)."""
    return there * (c - push * droom) / room


def longest(x: Array, dx: Array) -> Array:
    """How far (...,) x may go along dx and not below 0; at most 1e3 times."""
    shrinks = dx < -1e-3 * x
    return jnp.min(jnp.where(shrinks, -x / jnp.where(shrinks, dx, -1), 1e3), -1)


def sharp(room: Array, w: Array, there: Array) -> tuple[Array, Array]:
    """Room and push (..., 2) at κ = 0: one of them is 0, the one that is smaller."""
    push = there * jnp.maximum(jnp.stack([w, -w], -1), 0)
    least = jnp.finfo(room.dtype).tiny ** 0.25
    held = push > room
    return jnp.where(held, 0, jnp.maximum(room, least)), jnp.where(held, push, 0)
