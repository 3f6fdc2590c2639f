"""A cylinder against a polytope: every direction that can hold them apart is tried, and the best is taken.

Directions come from the cylinder's caps, the polytope's faces, its corners seen from the cylinder, and its
edges across the cylinder's axis and its rims. Positions are seen from the world's axes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.axes import corners_of, face_normals, margin
from backflip.geometry.choose import pick, sign
from backflip.geometry.closest import numbered
from backflip.geometry.cylinder import point_cylinder, support
from backflip.geometry.outline import Outline
from backflip.geometry.polytope import Near
from backflip.geometry.rim import Curve, Drum, angle_of, near_curves, rim, rim_line
from backflip.math import cross, dot, matvec, norm, unit, vecmat

CAP, FACE, CORNER, BESIDE, SIDE, RIM = range(6)
"""What a direction hangs on."""
# a corner or an edge counts where no corner is farther out by more than so many margins
OUTMOST = 4


class Choice(NamedTuple):
    """The best direction n (3,) out of the cylinder, what it hangs on, and the polytope's corners there."""

    n: Array
    kind: Array
    corners: Array


def nearest_of_cylinder(cylinder: Drum, points: Array, outline: Outline) -> Near:
    """Where a cylinder A and a polytope B (v, 3) are nearest or overlap least.

    Not smooth where another kind of direction or other corners take over.
    """
    choice = _best(stop_gradient(cylinder), stop_gradient(points), outline)
    corners = corners_of(choice.corners, points)
    options = [
        _near_cap(cylinder, corners[0], choice.n),
        _near_face(cylinder, corners, choice.n),
        _near_corner(cylinder, corners[0]),
        _near_side(cylinder, corners[0]),
        _near_edge(cylinder, corners, choice),
    ]
    near = options[-1]
    for kind, other in zip((CAP, FACE, CORNER, BESIDE), options[:-1], strict=True):
        near = Near(*(jnp.where(choice.kind == kind, x, y) for x, y in zip(other, near, strict=True)))
    return near


def _near_cap(cylinder: Drum, corner: Array, n: Array) -> Near:
    """A corner over or in a cap."""
    n = cylinder.z * sign(dot(n, cylinder.z))
    gap = dot(n, corner - cylinder.c) - cylinder.h
    return Near(n, gap, corner - n * (gap / 2))


def _near_face(cylinder: Drum, corners: Array, n: Array) -> Near:
    """A rim over or in the face through three corners."""
    way = cross(corners[1] - corners[0], corners[2] - corners[0])
    n = unit(way * sign(dot(way, n)), n)
    gap = dot(n, corners[0] - cylinder.c) - cylinder.reach(n)
    return Near(n, gap, support(cylinder, n) + n * (gap / 2))


def _near_corner(cylinder: Drum, corner: Array) -> Near:
    """A corner outside: over a rim, a cap or a side."""
    gap, way = point_cylinder(vecmat(corner - cylinder.c, cylinder.R), cylinder.h, cylinder.r)
    n = matvec(cylinder.R, way)
    return Near(n, gap, corner - n * (gap / 2))


def _near_side(cylinder: Drum, corner: Array) -> Near:
    """A corner beside the axis: how far out of the side it is, or in it."""
    out = corner - cylinder.c
    out = out - dot(out, cylinder.z) * cylinder.z
    n = unit(out, cylinder.R[:, 0])
    gap = dot(n, out) - cylinder.r
    return Near(n, gap, corner - n * (gap / 2))


def _near_edge(cylinder: Drum, corners: Array, choice: Choice) -> Near:
    """An edge across a rim, or across the axis, which is rounded by the radius."""
    on_rim = choice.kind == RIM
    curve = rim(cylinder, sign(dot(choice.n, stop_gradient(cylinder.z))), on_rim)
    along = unit(corners[1] - corners[0], choice.n)
    edge = Curve(corners[0], jnp.zeros_like(along), along, jnp.zeros((), bool))
    u = jnp.where(on_rim, angle_of(stop_gradient(cylinder), choice.n), 0)
    v = dot(stop_gradient(along), stop_gradient(curve).at(u)[0] - stop_gradient(corners[0]))
    near = near_curves(curve, u, edge, v, choice.n)
    skin = jnp.where(on_rim, 0, cylinder.r)
    return Near(near.n, near.gap - skin, near.middle + near.n * (skin / 2))


def _best(cylinder: Drum, points: Array, outline: Outline) -> Choice:
    """The direction that holds them farthest apart."""
    size = norm(points.max(0) - points.min(0)) + cylinder.r + cylinder.h
    n, hangs_on = _plain_directions(cylinder, points, outline)
    lowest = _lowest(n, points - cylinder.c)
    # a corner counts where it is the lowest; those come last
    corners = jnp.tile(points - cylinder.c, (2, 1))
    level = jnp.concatenate([lowest[: -len(corners)], dot(n[-len(corners) :], corners)])
    score = jnp.where(level - lowest < OUTMOST * margin(size), level - cylinder.reach(n), -jnp.inf)
    score, row = pick(score, jnp.concatenate([n, hangs_on], -1))
    if outline.edges:
        across, other = _across_edges(cylinder, points, outline, size)
        row = jnp.where(across > score + margin(size), other, row)
    n, kind, corners = row[:3], row[3], row[4:]
    _, lowest = pick(-dot(points, n), numbered(points)[:, 3:])
    return Choice(n, kind, jnp.where(kind == CAP, lowest, corners))


def _lowest(n: Array, points: Array) -> Array:
    """How far along n (k, 3) the lowest of points (v, 3) is: (k,) [m]."""

    def lower(lowest: Array, point: Array) -> tuple[Array, None]:
        return jnp.minimum(lowest, dot(n, point)), None

    return jax.lax.scan(lower, jnp.full(n.shape[:1], jnp.inf, n.dtype), points)[0]


def _plain_directions(cylinder: Drum, points: Array, outline: Outline) -> tuple[Array, Array]:
    """Directions (k, 3) of caps, faces and corners in turn, and what they hang on (k, 4)."""
    caps = jnp.stack([cylinder.z, -cylinder.z])
    faces = -face_normals(points, outline)
    _, way = point_cylinder(vecmat(points - cylinder.c, cylinder.R), cylinder.h, cylinder.r)
    flat = points - cylinder.c
    flat = unit(flat - dot(flat, cylinder.z)[:, None] * cylinder.z, cylinder.R[:, 0])
    numbers = numbered(points)[:, 3:]
    kinds = [(CAP, jnp.zeros((2, 3), points.dtype))]
    kinds += [(FACE, jnp.asarray(outline.triples, points.dtype).reshape(-1, 3))]
    kinds += [(kind, jnp.tile(numbers, (1, 3))) for kind in (CORNER, BESIDE)]
    ways = [caps, faces, matvec(cylinder.R, way), flat]
    hangs = [jnp.concatenate([jnp.full_like(c[:, :1], kind), c], -1) for kind, c in kinds]
    return jnp.concatenate(ways), jnp.concatenate(hangs)


def _across_edges(cylinder: Drum, points: Array, outline: Outline, size: Array) -> tuple[Array, Array]:
    """The best direction across an edge and a rim or the axis, and what it hangs on."""
    first, last = points[outline.ends[:, 0]], points[outline.ends[:, 1]]
    kinds = jnp.array([SIDE, SIDE, RIM, RIM], points.dtype)[:, None]

    def turn(best: tuple[Array, Array], edge: tuple) -> tuple[tuple[Array, Array], None]:
        q, end, numbers = edge
        e = unit(end - q, cylinder.z)
        across = unit(cross(cylinder.z, e), cylinder.R[:, 0])
        n = jnp.concatenate([jnp.stack([across, -across]), rim_line(cylinder, q, e)])
        level, lowest = dot(n, q - cylinder.c), _lowest(n, points - cylinder.c)
        score = jnp.where(level - lowest < OUTMOST * margin(size), level - cylinder.reach(n), -jnp.inf)
        score, row = pick(score, jnp.concatenate([n, kinds, jnp.tile(numbers, (4, 1))], -1))
        wins = score > best[0]
        return (jnp.where(wins, score, best[0]), jnp.where(wins, row, best[1])), None

    none = jnp.asarray(-jnp.inf, points.dtype), jnp.zeros(7, points.dtype)
    numbers = jnp.asarray(outline.ends[:, [0, 1, 0]], points.dtype)
    return jax.lax.scan(turn, none, (first, last, numbers))[0]
