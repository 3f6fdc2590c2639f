"""Friction within a disc whose size is the normal impulse's, and the slip that belongs to it.

room (k, 3) is (μ λ_n, λ_t), slip (k, 3) is (γ, w_t); both lie in the cone first >= |rest|, and their Jordan
product room ∘ slip = (room · slip, room₀ slip_t + slip₀ room_t) is (κ, 0, 0): the central path. Where κ is 0
a contact sticks, w_t = 0, or slides, λ_t = −μ λ_n w_t / |w_t| with γ = |w_t|.
"""

import jax.numpy as jnp
from jax import Array

from backflip.math import dot, norm, outer
from backflip.solve.interval import FAR


def product(a: Array, b: Array) -> Array:
    """a ∘ b (k, 3)."""
    return jnp.concatenate([dot(a, b)[:, None], a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:]], -1)


def inverse(a: Array) -> Array:
    """b (k, 3) with a ∘ b = (1, 0, 0), for a within the cone or, by rounding, on it."""
    along = _along(a)
    inside = jnp.maximum(1 - dot(along, along), jnp.finfo(a.dtype).eps)
    return jnp.concatenate([jnp.ones_like(a[:, :1]), -along], -1) / (a[:, 0] * inside)[:, None]


def linear(room: Array, slip: Array) -> tuple[Array, Array, Array]:
    """weight (k, 2, 2), stay (k, 2, 2), lean (k, 2): weight dw_t + stay dλ_t + lean d(μ λ_n) = load.

    The tangential part of droom ∘ slip + room ∘ dslip = c, less λ_t/(μ λ_n) times its first part.
    """
    along, eye = _along(room), jnp.eye(2, dtype=room.dtype)
    weight = room[:, :1, None] * eye - outer(room[:, 1:], along)
    stay = slip[:, :1, None] * eye - outer(along, slip[:, 1:])
    return weight, stay, slip[:, 1:] - along * slip[:, :1]


def load(room: Array, c: Array) -> Array:
    """The right side (k, 2) for wanted changes c (k, 3) of room ∘ slip."""
    return c[:, 1:] - _along(room) * c[:, :1]


def reply(room: Array, slip: Array, c: Array, droom: Array, dslide: Array) -> Array:
    """dslip (k, 3) that goes with a change `dslide` (k, 2) of its tangential part."""
    first = c[:, 0] - dot(slip, droom) - dot(room[:, 1:], dslide)
    return jnp.concatenate([(first / room[:, 0])[:, None], dslide], -1)


def longest(x: Array, dx: Array) -> Array:
    """How far (k,) x may go along dx within the cone.

    The least positive root t of (x + t dx)·R(x + t dx) = 0, R = diag(1, −1, −1), or where x₀ + t dx₀ = 0.
    """
    sign = jnp.array([1, -1, -1], x.dtype)
    a, b, c = dot(sign * dx, dx), dot(sign * x, dx), dot(sign * x, x)
    root = jnp.sqrt(jnp.maximum(b * b - a * c, 0))
    # 1/t of the roots: the largest positive one is the nearest end
    c = jnp.maximum(c, jnp.finfo(x.dtype).eps * x[:, 0] * x[:, 0])
    inverse = jnp.maximum((-b + root) / c, -dx[:, 0] / x[:, 0])
    ends = inverse * FAR > 1
    return jnp.where(ends, 1 / jnp.where(ends, inverse, 1), FAR)


def sharp(bound: Array, tangent: Array, slide: Array) -> tuple[Array, Array]:
    """Room and slip (k, 3) at κ = 0: it sticks and slip is 0, or it slides and both lie on the cone."""
    least = jnp.finfo(bound.dtype).tiny ** 0.25
    wanted = tangent - slide
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
