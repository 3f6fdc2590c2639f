"""A capsule against a box: balls about three points of the core c + s d, |s| ≤ 1, seen from the box."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.box import touch_box
from backflip.geometry.choose import pick
from backflip.geometry.segment import PARALLEL, clamp, slab_interval
from backflip.geometry.touch import Touch
from backflip.math import dot, vecmat

# half of a core that runs less than this across a slab does not cross it [m]; its square must not underflow
NO_LENGTH = 1e-9


def collide_capsule_box(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Three candidates: the core's closest point to the box, and where it comes over a face and leaves it.

    A capsule lying on a face, overhanging or not, rests on the last two. Not smooth where the core turns
    parallel to the face, nor where another face takes over.
    """
    half = size_b / 2
    c = vecmat(p_WA - p_WB, R_WB)
    d = vecmat(R_WA[:, 2] * (size_a[1] / 2), R_WB)
    lo, hi = slab_interval(c, d, half, NO_LENGTH)
    enter, leave, lies_flat = stretch_over_face(c, d, half, lo, hi)
    closest = closest_to_box(c, d, half, lo, hi, (enter + leave) / 2, lies_flat)
    s = jnp.stack([closest, enter, leave])
    touch = touch_box(c + s[:, None] * d, size_a[0], size_b, p_WB, R_WB)
    return touch.with_rest_if(leave > enter)


def stretch_over_face(c: Array, d: Array, half: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """Where the core comes over the face it is most clearly above and leaves it; whether it lies flat there.

    Slabs that the core runs parallel to do not count: along an edge it may lie beside the face.
    """
    level = stop_gradient(jnp.abs(c) - jnp.abs(d) - half)
    along = stop_gradient(d * d <= PARALLEL * dot(d, d))
    _, above = pick(level, jnp.eye(3, dtype=c.dtype))
    free = along | (above > 0)
    enter, leave = common(jnp.where(free, -1, lo), jnp.where(free, 1, hi))
    return enter, leave, (dot(above, jnp.where(along, above, 0)) > 0) & (enter < leave)


def common(lo: Array, hi: Array) -> tuple[Array, Array]:
    """The part that three stretches share; empty if lo ≥ hi."""
    return (
        jnp.maximum(jnp.maximum(lo[0], lo[1]), lo[2]),
        jnp.minimum(jnp.minimum(hi[0], hi[1]), hi[2]),
    )


def closest_to_box(
    c: Array, d: Array, half: Array, lo: Array, hi: Array, middle: Array, lies_flat: Array
) -> Array:
    """s of the core's closest point: exact outside, the middle of what is inside, `middle` if it is flat."""
    outside, side = closest_region(*stop_gradient((c, d, half, lo, hi)))
    # there ½ distance² = ½ Σ (cᵢ + s dᵢ − sideᵢ halfᵢ)² over the outside axes, least at slope · s = −pull
    steep = jnp.where(outside, d, 0)
    slope, pull = dot(steep, d), dot(steep, c - side * half)
    clear = slope > PARALLEL * dot(d, d)
    s = clamp(jnp.where(clear, -pull / jnp.where(clear, slope, 1), middle), jnp.ones_like(middle))
    s = jnp.where(lies_flat, middle, s)
    first, last = common(lo, hi)
    within = jnp.abs(c + (first + last) / 2 * d) <= half
    pierced = (first < last) & within[0] & within[1] & within[2]
    return jnp.where(pierced, (first + last) / 2, s)


def closest_region(c: Array, d: Array, half: Array, lo: Array, hi: Array) -> tuple[Array, Array]:
    """In which axes (3,) the closest point of the core lies outside the box, and on which side.

    The slope of ½ distance² along s rises, straight between the slabs' ends: it crosses zero between the
    last of them where it is not positive and the first where it is not negative.
    """
    one = jnp.ones_like(c[:1])
    s = jnp.concatenate([-one, lo, hi, one])
    x = c + s[:, None] * d
    slope = dot(x - clamp(x, half), d)
    last = pick(jnp.where(slope <= 0, s, -1), s[:, None])[0]
    first = -pick(jnp.where(slope >= 0, -s, -1), s[:, None])[0]
    x = c + (first + last) / 2 * d
    return jnp.abs(x) > half, jnp.sign(x)
