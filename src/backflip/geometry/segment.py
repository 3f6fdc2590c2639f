"""Segments c + s u, |s| ≤ h: the cores of capsules and the edges of boxes."""

import jax.numpy as jnp
from jax import Array

from backflip.math import cross, dot

# sin² of the angle below which two directions count as parallel (one milliradian): the closest points of
# nearly parallel segments run from end to end within that angle, and no gradient of theirs means anything
PARALLEL = 1e-6


def clamp(x: Array, limit: Array) -> Array:
    """x within ±limit."""
    return jnp.minimum(jnp.maximum(x, -limit), limit)


def closest_on_segment(p: Array, c: Array, u: Array, h: Array) -> Array:
    """The point of the segment c + s u, |s| ≤ h, closest to p (..., 3)."""
    s = clamp(dot(p - c, u), h)
    return c + s[..., None] * u


def shared_interval(c: Array, u: Array, h: Array, q: Array, v: Array, k: Array) -> tuple[Array, Array]:
    """Where on c + s u the segment q + t v, |t| ≤ k, casts its shadow: (s_lo, s_hi), both within ±h.

    Empty shadows fold to s_lo = s_hi at the nearer end.
    """
    middle, reach = dot(q - c, u), k * jnp.abs(dot(u, v))
    return clamp(middle - reach, h), clamp(middle + reach, h)


def closest_of_segments(
    c: Array, u: Array, h: Array, q: Array, v: Array, k: Array, where_parallel: Array
) -> tuple[Array, Array]:
    """The closest points of c + s u, |s| ≤ h and q + t v, |t| ≤ k (Ericson 2005, sec. 5.1.9); u, v unit.

    Where the two are parallel, s = `where_parallel`. Not smooth there, nor where a point reaches an end.
    """
    # stationary in t: t = b s + v·r;  in s: s = b t − u·r;  with b = u·v, r = c − q
    # both at once:    s = (b v·r − u·r) / (1 − b²),  1 − b² = |u × v|²
    r = c - q
    b, ur, vr = dot(u, v), dot(u, r), dot(v, r)
    normal = cross(u, v)
    sine2 = dot(normal, normal)
    skew = sine2 > PARALLEL
    s = clamp(jnp.where(skew, (b * vr - ur) / jnp.where(skew, sine2, 1), where_parallel), h)
    t = clamp(b * s + vr, k)
    s = clamp(b * t - ur, h)
    return c + s * u, q + t * v


def slab_interval(c: Array, d: Array, half: Array, shortest: Array | float) -> tuple[Array, Array]:
    """The stretch (lo, hi) of c + s d, |s| ≤ 1, where |c + s d| ≤ half, element by element (Liang-Barsky).

    Where |d| ≤ shortest all of it, whatever c; where it misses the slab, lo = hi at the nearer end.
    """
    # s |d| + c sign d = ∓half
    cuts = jnp.abs(d) > shortest
    pace = jnp.where(cuts, jnp.abs(d), 1)
    shift = -c * jnp.where(d >= 0, 1.0, -1.0)
    one = jnp.ones_like(shift)
    lo = clamp(jnp.where(cuts, (shift - half) / pace, -1), one)
    hi = clamp(jnp.where(cuts, (shift + half) / pace, 1), one)
    return lo, hi
