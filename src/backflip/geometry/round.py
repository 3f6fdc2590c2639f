"""Pairs of planes, spheres and capsules: balls about well-chosen points.

Every function takes one pair, (size_a, p_WA, R_WA, size_b, p_WB, R_WB), and gives its Touch.
"""

import jax.numpy as jnp
from jax import Array

from backflip.geometry.segment import closest_of_segments, closest_on_segment, shared_interval
from backflip.geometry.touch import Touch, touch_balls, touch_plane
from backflip.math import cross, unit

# the ends of a shared stretch shorter than this part of the radii add nothing to its middle
SHORT = 1e-2


def collide_plane_sphere(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """One candidate: the sphere's lowest point."""
    return touch_plane(p_WB[None], size_b[0], p_WA, R_WA)


def collide_plane_capsule(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Two candidates: the end balls."""
    reach = R_WB[:, 2] * (size_b[1] / 2)
    return touch_plane(jnp.stack([p_WB - reach, p_WB + reach]), size_b[0], p_WA, R_WA)


def collide_sphere_sphere(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """One candidate. Not smooth where the centres coincide; the normal there is A's z axis."""
    return touch_balls(p_WA[None], size_a[0], p_WB[None], size_b[0], R_WA[:, 2])


def collide_sphere_capsule(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """One candidate. Not smooth where the centre is on the capsule's core; the normal there is B's x axis."""
    q = closest_on_segment(p_WA, p_WB, R_WB[:, 2], size_b[1] / 2)
    return touch_balls(p_WA[None], size_a[0], q[None], size_b[0], R_WB[:, 0])


def collide_capsule_capsule(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Three candidates: the closest points of the cores, and the two ends of the stretch they share.

    Parallel capsules rest on the ends, with the first candidate in their middle; crossing ones have the
    first only, or the ends farther apart. Not smooth where the cores turn parallel or meet.
    """
    u, h = R_WA[:, 2], size_a[1] / 2
    v, k = R_WB[:, 2], size_b[1] / 2
    lo, hi = shared_interval(p_WA, u, h, p_WB, v, k)
    p, q = closest_of_segments(p_WA, u, h, p_WB, v, k, (lo + hi) / 2)
    ends = p_WA + jnp.stack([lo, hi])[:, None] * u
    p = jnp.concatenate([p[None], ends])
    q = jnp.concatenate([q[None], closest_on_segment(ends, p_WB, v, k)])
    touch = touch_balls(p, size_a[0], q, size_b[0], unit(cross(u, v), R_WA[:, 0]))
    return touch.with_rest_if(hi - lo > SHORT * (size_a[0] + size_b[0]))
