"""A box against a plane and a sphere; its faces and its distance, which other pairs use too.

Every function takes one pair, (size_a, p_WA, R_WA, size_b, p_WB, R_WB), and gives its Touch.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.choose import pick, sign
from backflip.geometry.segment import clamp
from backflip.geometry.touch import Touch, touch_plane
from backflip.math import dot, matvec, norm, transpose, unit, vecmat

# corners of a square, in turn
CORNERS = ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0))


class Face(NamedTuple):
    """A pair of opposite faces of a box: right-handed unit axes u, v, n and the half edges along them."""

    centre: Array  # (..., 3) of the box
    n: Array
    u: Array
    v: Array
    half: Array  # (..., 3) along n, u, v


def face_table(half: Array, centre: Array, R: Array) -> Array:
    """The three Faces of a box as rows (3, 15), to be picked from."""
    n = transpose(R)
    halves = jnp.stack([half, jnp.roll(half, -1), jnp.roll(half, -2)], -1)
    centres = jnp.broadcast_to(centre, (3, 3))
    return jnp.concatenate([centres, n, jnp.roll(n, -1, 0), jnp.roll(n, -2, 0), halves], -1)


def face_of(row: Array) -> Face:
    """One row of a face table, by name."""
    return Face(row[0:3], row[3:6], row[6:9], row[9:12], row[12:15])


def facing(table: Array, direction: Array) -> Face:
    """The pair of faces most nearly square to `direction` (3,)."""
    return face_of(pick(jnp.abs(stop_gradient(dot(table[:, 3:6], direction))), table)[1])


def collide_plane_box(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: the corners of the face that most faces the plane; the deepest corner is among them.

    Not smooth where another face comes to face it more.
    """
    face = facing(face_table(size_b / 2, p_WB, R_WB), R_WA[:, 2])
    centre = face.centre - face.n * (sign(dot(face.n, R_WA[:, 2])) * face.half[0])
    square = jnp.array(CORNERS, p_WB.dtype)
    u, v = face.u * face.half[1], face.v * face.half[2]
    corners = centre + square[:, :1] * u + square[:, 1:] * v
    return touch_plane(corners, jnp.zeros_like(p_WA[0]), p_WA, R_WA)


def point_box(c: Array, half: Array) -> tuple[Array, Array]:
    """Signed distance (k,) of points c (k, 3) to a box at rest about the origin, and the way out (k, 3).

    Outside: to the closest point. Inside: to the nearest face, negative.
    Not smooth inside where two faces are equally near.
    """
    d = c - clamp(c, half)
    side = sign(c)
    level = stop_gradient(jnp.abs(c) - half)
    x, y, z = level[:, 0], level[:, 1], level[:, 2]
    nearest = jnp.stack([(x >= y) & (x >= z), (y > x) & (y >= z), (z > x) & (z > y)], -1)
    face = jnp.where(nearest, side, 0)
    outside = (x > 0) | (y > 0) | (z > 0)
    depth = dot(face, c - side * half)
    return jnp.where(outside, norm(d), depth), unit(d, face)


def touch_box(c: Array, radius: Array, size: Array, p_WB: Array, R_WB: Array) -> Touch:
    """Balls about c (k, 3), in B, against the box B."""
    distance, out = point_box(c, size / 2)
    gap = distance - radius
    n = -matvec(R_WB, out)
    return Touch(gap, n, p_WB + matvec(R_WB, c) + n * (radius + gap / 2)[:, None])


def collide_sphere_box(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """One candidate: the closest point of the box, or its nearest face when the centre is inside."""
    return touch_box(vecmat(p_WA - p_WB, R_WB)[None], size_a[0], size_b, p_WB, R_WB)
