"""Polytopes, rounded or not: hulls, boxes, the cores of capsules and the centres of spheres."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.axes import Axis, best_axis, corners_of, face_normals
from backflip.geometry.choose import pick, sign
from backflip.geometry.outline import BOX_SIGNS, Outline
from backflip.geometry.polygon import Patch, four_points, frame_along, meet
from backflip.geometry.round import SHORT
from backflip.geometry.touch import ABSENT, Touch
from backflip.math import cross, dot, matvec, norm, unit, vecmat

# sine, in roundings, of the angle below which three corners are in line and span no plane
IN_LINE = 16


class Near(NamedTuple):
    """Where two shapes are nearest, or deepest in each other."""

    n: Array
    """(3,) unit, from A to B"""
    gap: Array
    """[m]"""
    middle: Array
    """(3,) [m] half-way between the surfaces"""


def box_corners(size: Array) -> Array:
    """(8, 3) [m] of a box of that size (3,)."""
    return jnp.array(BOX_SIGNS, size.dtype) * (size / 2)


def core_ends(size: Array) -> Array:
    """(2, 3) [m] ends of a capsule's core."""
    reach = jnp.stack([jnp.zeros_like(size[1])] * 2 + [size[1] / 2])
    return jnp.stack([-reach, reach])


def placed(points: Array, p: Array, R: Array) -> Array:
    """Points (v, 3) of a body's frame, seen from the world's axes at −p."""
    return p + matvec(R, points)


def nearest(a: Array, outline_a: Outline, b: Array, outline_b: Outline) -> Near:
    """Where polytopes a (v, 3) and b (w, 3) are nearest or overlap least.

    Not smooth where other corners take over.
    """
    axis = best_axis(*stop_gradient((a,)), outline_a, *stop_gradient((b,)), outline_b)
    return near_corners(axis, corners_of(axis.a, a), corners_of(axis.b, b))


def near_corners(axis: Axis, a: Array, b: Array) -> Near:
    """The same from the three pairs of corners a and b (3, 3) that the axis hangs on."""
    w = b - a
    beta, gamma, plane = _weights(w, axis.rank)
    way = w[0] + beta * (w[1] - w[0]) + gamma * (w[2] - w[0])
    n = jnp.where(axis.rank > 2, plane * sign(dot(plane, axis.n)), way)
    n = unit(n, axis.n)
    point_a = a[0] + beta * (a[1] - a[0]) + gamma * (a[2] - a[0])
    point_b = b[0] + beta * (b[1] - b[0]) + gamma * (b[2] - b[0])
    return Near(n, dot(n, w[0]), (point_a + point_b) / 2)


def _weights(w: Array, rank: Array) -> tuple[Array, Array, Array]:
    """β, γ of the point w₀ + β u + γ v nearest to the origin, with u = w₁ − w₀, v = w₂ − w₀; and u × v.

    rank 3: on the plane, or w₀ itself where u and v are in line; rank 2: on the line, γ = 0; rank 1: w₀.
    """
    # u and v are scaled to unit length: no power of a length leaves the range of float32;
    # where the rank does not ask for a quotient, its divisor is 1
    u, per_u = _scaled(w[1] - w[0])
    v, per_v = _scaled(w[2] - w[0])
    plane = cross(u, v)
    in_line = (IN_LINE * float(jnp.finfo(w.dtype).eps)) ** 2
    square, along = dot(plane, plane), dot(u, u)
    spans, line = (rank > 2) & (square > in_line), (rank == 2) & (along > 0)
    per_square, per_along = (1 / jnp.where(x, y, 1) for x, y in ((spans, square), (line, along)))
    beta = jnp.where(spans, dot(cross(v, w[0]), plane) * per_square, 0)
    beta = jnp.where(line, -dot(w[0], u) * per_along, beta)
    gamma = jnp.where(spans, dot(cross(w[0], u), plane) * per_square, 0)
    return beta * per_u, gamma * per_v, jnp.where(spans, plane, 0)


def _scaled(x: Array) -> tuple[Array, Array]:
    """x (3,) about as long as 1, and the factor that made it so, which has no gradient; 0 stays."""
    length = stop_gradient(jnp.max(jnp.abs(x)))
    factor = 1 / jnp.where(length > jnp.finfo(x.dtype).tiny, length, 1)
    return x * factor, factor


def facing_patch(points: Array, outline: Outline, n: Array) -> Patch:
    """The face of a polytope that most faces along n."""
    normals = face_normals(points, outline)
    corners = points[outline.polygons.reshape(-1)].reshape(len(normals), -1)
    _, row = pick(stop_gradient(dot(normals, n)), jnp.concatenate([normals, corners], -1))
    return Patch(row[3:].reshape(-1, 3), row[:3])


def touch_one(near: Near, radius: Array, origin: Array) -> Touch:
    """One candidate, A being rounded by `radius`."""
    gap = near.gap - radius
    return Touch(gap[None], near.n[None], (origin + near.middle + near.n * (radius / 2))[None])


def touch_four(
    near: Near, region: Patch, incident: Patch, side: Array | int, R: Array, origin: Array
) -> Touch:
    """Four candidates: the nearest point, and others where the two patches lie upon each other."""
    F = frame_along(near.n, R)
    place = matvec(F, near.middle)
    first = jnp.concatenate([place[:2], near.gap[None], place[2:]])
    rows, there = meet(region, incident, F, side)
    size = norm(region.corners.max(0) - region.corners.min(0))
    touch = four_points(first, rows, there, F, size)
    return touch._replace(point=origin + touch.point)


def touch_stretch(near: Near, region: Patch, ends: Array, radius: Array, R: Array, origin: Array) -> Touch:
    """Three candidates of a capsule A: the nearest, and the ends of its core's stretch over the region."""
    F = frame_along(near.n, R)
    rows, there = meet(region, Patch(ends, jnp.zeros_like(near.n)), F, -1)
    # the segment is run forth and back: first ends, then last ends
    stretch = jnp.stack([rows[0], rows[2]])
    there = there[0] & (norm(stretch[0, :2] - stretch[1, :2]) > SHORT * radius)
    gap = jnp.concatenate([near.gap[None], jnp.where(there, stretch[:, 2], ABSENT)]) - radius
    place = jnp.concatenate([stretch[:, :2], stretch[:, 3:]], -1)
    middle = jnp.concatenate([near.middle[None], vecmat(place, F)])
    return Touch(gap, jnp.broadcast_to(near.n, middle.shape), origin + middle + near.n * (radius / 2))
