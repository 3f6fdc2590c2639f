"""Separating axes of two polytopes: faces of either, and pairs of edges whose planes bound both.

Always on values: the gradient comes from the corners it returns.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from backflip.geometry.choose import pick, sign
from backflip.geometry.closest import closest_corners, numbered
from backflip.geometry.outline import Outline
from backflip.math import cross, dot, norm, unit

# what is not a face must hold the polytopes farther apart by this part of their size to be preferred, or by
# this many roundings: stacks stay on their faces
MARGIN = 1e-7
ROUNDINGS = 64
# sin² of the angle below which two edges span no plane
NO_PLANE = 1e-8


class Axis(NamedTuple):
    """The direction in which polytopes are farthest apart, or overlap least, and the corners it hangs on."""

    n: Array
    """(3,) unit, from A to B"""
    a: Array
    b: Array
    """(3,) corners of A and of B, by number, in pairs"""
    rank: Array
    """how many pairs count: 3 span a plane square to n, 2 a line, 1 a point"""


def face_normals(points: Array, outline: Outline) -> Array:
    """(f, 3) unit, outward."""
    if not outline.faces:
        return jnp.zeros((0, 3), points.dtype)
    i, j, k = outline.triples.T
    return unit(cross(points[j] - points[i], points[k] - points[i]), jnp.eye(3, dtype=points.dtype)[0])


def best_axis(a: Array, outline_a: Outline, b: Array, outline_b: Outline) -> Axis:
    """The axis that holds polytopes a (v, 3) and b (w, 3) farthest apart: −gap if they overlap."""
    size = norm(a.max(0) - a.min(0)) + norm(b.max(0) - b.min(0))
    f, g = (face_normals(x, o) for x, o in ((a, outline_a), (b, outline_b)))
    faces, others = [], [_apart(a, b)]
    if len(f):
        faces.append(_on_face(a, outline_a, f, b, 1))
    if len(g):
        faces.append(_on_face(b, outline_b, g, a, -1))
    if outline_a.edges and outline_b.edges:
        others.append(_on_edges(a, outline_a, f, b, outline_b, g))
    scores = [score for score, _ in faces] + [score - margin(size) for score, _ in others]
    _, row = pick(jnp.stack(scores), jnp.stack([row for _, row in faces + others]))
    return Axis(row[:3], row[3:6], row[6:9], row[9])


def margin(size: Array) -> Array:
    """By how much [m] what is not a face must be better."""
    return max(MARGIN, ROUNDINGS * float(jnp.finfo(size.dtype).eps)) * size


def _row(n: Array, a: Array, b: Array, rank: Array | float) -> Array:
    return jnp.concatenate([n, a, b, jnp.full((1,), rank, n.dtype)])


def held_apart(n: Array, a: Array, b: Array) -> Array:
    """How far the planes square to n (3,) hold polytopes a and b apart [m]; negative if they overlap."""
    return dot(b, n).min() - dot(a, n).max()


def _apart(a: Array, b: Array) -> tuple[Array, Array]:
    """The direction between the closest points."""
    on_a, on_b, weight = closest_corners(a, b)
    gaps = corners_of(on_b, b) - corners_of(on_a, a)
    n = unit(jnp.sum(weight[:, None] * gaps, 0), jnp.array([0.0, 0.0, 1.0], a.dtype))
    return held_apart(n, a, b), _row(n, on_a, on_b, jnp.sum(weight > 0).astype(a.dtype))


def corners_of(numbers: Array, points: Array) -> Array:
    """The points (v, 3) with these numbers (k,)."""
    chosen = (numbers[:, None] == jnp.arange(len(points))).astype(points.dtype)
    return jnp.sum(chosen[:, :, None] * points, 1)


def _on_face(a: Array, outline: Outline, normals: Array, b: Array, side: int) -> tuple[Array, Array]:
    """The best face of a, as an axis from a to b; for side = −1 as one from b to a."""
    low = jnp.min(jnp.sum(normals[:, None] * b, -1), 1) - dot(normals, a[outline.triples[:, 0]])
    triples = jnp.asarray(outline.triples, a.dtype)
    best, row = pick(low, jnp.concatenate([normals, triples], -1))
    n, corners = row[:3], row[3:]
    _, partner = pick(-dot(b, n), numbered(b)[:, 3:])
    partners = jnp.broadcast_to(partner, (3,))
    on_a, on_b = (corners, partners) if side > 0 else (partners, corners)
    return best, _row(side * n, on_a, on_b, 3.0)


def _on_edges(
    a: Array, outline_a: Outline, f: Array, b: Array, outline_b: Outline, g: Array
) -> tuple[Array, Array]:
    """The best plane through an edge of a and one of b that has all of a before it and all of b behind it.

    Edges are arcs on the sphere of normals, between those of their faces; the two planes are one where the
    arc of a crosses the mirror image of that of b (Gregorius 2013).
    """
    p, u, f1, f2 = _arcs(a, outline_a, f)
    q, v, g1, g2 = _arcs(b, outline_b, g)
    edges_b = jnp.concatenate([jnp.zeros((len(q), 1), a.dtype), jnp.asarray(outline_b.ends, a.dtype)], -1)

    def turn(best: tuple[Array, Array], edge: tuple) -> tuple[tuple[Array, Array], None]:
        p, u, f1, f2, ends = edge
        n = cross(u, v)
        square = dot(n, n)
        spans = square > NO_PLANE * dot(u, u) * dot(v, v)
        n = n / jnp.sqrt(jnp.where(spans, square, 1))[:, None]
        n = n * sign(dot(n, f1 + f2 - g1 - g2))[:, None]
        crosses = (dot(v, f1) * dot(v, f2) <= 0) & (dot(g1, u) * dot(g2, u) <= 0)
        crosses &= (dot(n, f1 + f2) >= 0) & (dot(n, g1 + g2) <= 0) & spans
        score, row = pick(jnp.where(crosses, dot(n, q - p), -jnp.inf), jnp.concatenate([n, edges_b], -1))
        i, k, l = jnp.concatenate([ends, ends[:1]]), row[4:5], row[5:]
        # the plane through b1 − a1, b1 − a2, b2 − a1
        new = _row(row[:3], i, jnp.concatenate([k, k, l]), 3.0)
        wins = score > best[0]
        return (jnp.where(wins, score, best[0]), jnp.where(wins, new, best[1])), None

    none = jnp.asarray(-jnp.inf, a.dtype), jnp.zeros(10, a.dtype)
    ends = jnp.asarray(outline_a.ends, a.dtype)
    return jax.lax.scan(turn, none, (p, u, f1, f2, ends))[0]


def _arcs(points: Array, outline: Outline, normals: Array) -> tuple[Array, Array, Array, Array]:
    """A point (e, 3), the direction and the two faces' normals of every edge; 0 for a lone edge's."""
    p, q = points[outline.ends[:, 0]], points[outline.ends[:, 1]]
    if not outline.sides:
        return p, q - p, jnp.zeros_like(p), jnp.zeros_like(p)
    first, second = (normals[jnp.array(side)] for side in zip(*outline.sides, strict=True))
    return p, q - p, first, second
