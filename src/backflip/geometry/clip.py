"""Two faces laid upon each other: clip one to the other, choose four points.

Coordinates are those of the reference face: along its two edges, then height above it. [m]
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.box import CORNERS
from backflip.geometry.choose import pick, sign
from backflip.geometry.segment import slab_interval
from backflip.math import dot, norm, unit

# edges within a milliradian of parallel do not cut each other: where they would is no use to anyone,
# and its gradient grows as one over the angle
PARALLEL_EDGES = 1e-3
# how far outside a face, in parts of its half edge, a point still counts as in it: float32 noise
SLACK = 1e-5
# candidates closer than this part of the face are one
DISTINCT = 1e-3
# one metre higher makes a candidate as dear as this many metres less spread
HEIGHT_COST = 5.0
# what a metre to the right of the line is worth against one to the left: equals must not change places
RIGHT = 0.5


def clip_face(edges: Array, middle: Array, e1: Array, e2: Array) -> tuple[Array, Array]:
    """Outline of the face middle ± e1 ± e2 (3,) within |x| ≤ edges (2,): points (12, 3), and which exist.

    Eight are the ends of its clipped edges, four are corners of the rectangle inside it; corners that both
    share appear more than once.
    """
    centres = middle + jnp.stack([-e1, e1, -e2, e2])
    along = jnp.stack([e2, e2, e1, e1])
    shortest = PARALLEL_EDGES * stop_gradient(norm(along))[:, None]
    lo, hi = slab_interval(centres[:, :2], along[:, :2], edges, shortest)
    first, last = jnp.maximum(lo[:, 0], lo[:, 1]), jnp.minimum(hi[:, 0], hi[:, 1])
    ends = [centres + s[:, None] * along for s in (first, last)]
    # an edge that misses the rectangle has folded to a point outside it
    within = jnp.abs(ends[0] + ends[1])[:, :2] / 2 <= edges * (1 + SLACK)
    there = (first <= last) & within[:, 0] & within[:, 1]
    corners, inside = corners_within(edges, middle, e1, e2)
    return jnp.concatenate([*ends, corners]), jnp.concatenate([there, there, inside])


def corners_within(edges: Array, middle: Array, e1: Array, e2: Array) -> tuple[Array, Array]:
    """Corners of the rectangle |x| ≤ edges, lifted onto the face middle ± e1 ± e2; which are inside it."""
    # corner = middle + α e1 + β e2 in the plane; height = that of the same sum
    corner = jnp.array(CORNERS, edges.dtype) * edges
    area = e1[0] * e2[1] - e1[1] * e2[0]
    flat = jnp.abs(area) > jnp.finfo(area.dtype).tiny * 1e6
    per_area = jnp.where(flat, 1 / jnp.where(flat, area, 1), 0)
    r = corner - middle[:2]
    alpha = (r[:, 0] * e2[1] - r[:, 1] * e2[0]) * per_area
    beta = (r[:, 1] * e1[0] - r[:, 0] * e1[1]) * per_area
    height = middle[2] + alpha * e1[2] + beta * e2[2]
    inside = (jnp.abs(alpha) <= 1 + SLACK) & (jnp.abs(beta) <= 1 + SLACK) & flat
    return jnp.concatenate([corner, height[:, None]], -1), inside


def spread(points: Array, there: Array, hint: Array, left: Array, edges: Array) -> tuple[Array, Array]:
    """Four of the points (n, 3) that are there, far apart and low, the lowest among them; and which exist.

    The two ends of a longest line across them, then the farthest from that line, then the farthest out of
    that triangle. They come in the same order from step to step, for warm starts: the search starts along
    `hint` (2,), and the third must be much farther on the right of the line to be taken there; `left` is ±1.
    """
    flat, height = stop_gradient((points[:, :2], points[:, 2]))
    low, lowest = pick(jnp.where(there, -height, -jnp.inf), points)
    cost = HEIGHT_COST * (height + jnp.where(low > -jnp.inf, low, 0))
    distinct = DISTINCT * stop_gradient(edges[0] + edges[1])

    def best(reach: Array, near: Array | float) -> tuple[Array, Array]:
        score, row = pick(jnp.where(there & (reach > near), reach - cost, -jnp.inf), points)
        return score > -jnp.inf, row

    _, start = best(dot(flat, hint), -jnp.inf)
    some1, p1 = best(norm(flat - start[:2]), -1.0)
    some2, p2 = best(norm(flat - p1[:2]), distinct)
    side = left * beside(flat, p1, p2)
    some3, p3 = best(jnp.where(side > 0, side, -RIGHT * side), distinct)
    sides = jnp.stack([beside(flat, p1, p2), beside(flat, p2, p3), beside(flat, p3, p1)])
    out = -sign(beside(p3, p1, p2)) * sides
    some4, p4 = best(jnp.maximum(jnp.maximum(out[0], out[1]), out[2]), distinct)
    exists = jnp.stack([some1, some2, some3, some3 & some4])
    return replace_nearest(jnp.stack([p1, p2, p3, p4]), exists, lowest), exists


def beside(x: Array, p: Array, q: Array) -> Array:
    """How far points x (..., 2) lie to the left of the line from p to q, in the plane; 0 where p = q."""
    line = unit(q[:2] - p[:2], jnp.zeros_like(p[:2]))
    return line[0] * (x[..., 1] - p[1]) - line[1] * (x[..., 0] - p[0])


def replace_nearest(chosen: Array, exists: Array, point: Array) -> Array:
    """`chosen` (4, 3) with `point` (3,) in place of the nearest of those that exist."""
    distance = stop_gradient(norm(chosen - point))
    _, nearest = pick(jnp.where(exists, -distance, -jnp.inf), jnp.eye(4, dtype=chosen.dtype))
    return jnp.where(nearest[:, None] > 0, point, chosen)
