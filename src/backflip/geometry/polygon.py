"""Two flat patches laid upon each other along a direction n: where their outlines meet, and four points.

Coordinates are along two axes square to n, then along n: rows of F. [m]
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.choose import sign
from backflip.geometry.clip import PARALLEL_EDGES, SLACK, spread
from backflip.geometry.touch import ABSENT, Touch
from backflip.math import cross, dot, matvec, norm, safe_divide, unit, vecmat

# a patch whose normal is within this cosine (2.5°) of the direction lies flat on the other
FLAT_CONE = 0.999
# cosine to the direction below which a patch stands on its edge, and no height is read off its plane
STEEP = 0.05
# an outline whose area is a smaller part of its length squared encloses nothing
NO_AREA = 1e-6
# a direction that no edge is likely to be square to: where the four points start
HINT = (0.62, 0.31, 0.72)


class Patch(NamedTuple):
    """A convex polygon: corners (m, 3), counter-clockwise about its unit normal (3,); some may repeat."""

    corners: Array
    normal: Array


def frame_along(n: Array, R: Array) -> Array:
    """Rows of a right-handed frame whose third is n; the first is made from an axis of R."""
    side = jnp.where(jnp.abs(stop_gradient(dot(R[:, 0], n))) < 0.8, R[:, 0], R[:, 1])
    v = unit(cross(n, side), side)
    return jnp.stack([cross(v, n), v, n])


def four_points(first: Array, points: Array, there: Array, F: Array, size: Array) -> Touch:
    """The Touch of a row `first` and the best four of it and `points`: along F's rows, gap, middle (·, 4)."""
    points = jnp.concatenate([first[None], points])
    there = jnp.concatenate([jnp.ones((1,), bool), there])
    hint = stop_gradient(matvec(F, jnp.array(HINT, F.dtype)))
    chosen, exists = spread(points, there, hint[:2], jnp.ones_like(size), stop_gradient(size)[None].repeat(2))
    gap = jnp.where(exists, chosen[:, 2], ABSENT)
    place = jnp.concatenate([chosen[:, :2], chosen[:, 3:]], -1)
    return Touch(gap, jnp.broadcast_to(F[2], place.shape), vecmat(place, F))


def meet(region: Patch, incident: Patch, F: Array, side: Array | int) -> tuple[Array, Array]:
    """Outline of what two patches share, seen along n: rows (x, y, gap, middle) (2k + m, 4); which exist.

    Ends of the incident's k edges within the region, and the region's m corners within the incident.
    The incident may be a mere segment. It belongs to B if side = 1, to A if side = −1.
    """
    P, Q = (vecmat(x.corners, F.T) for x in (region, incident))
    f, g = matvec(F, region.normal), matvec(F, incident.normal)
    ends, exist = _clip(P, f, Q)
    corners, inside = P, _inside(Q, g, P) & _has_area(Q)
    low = jnp.concatenate([_height(P[0], f, ends), corners[:, 2]])
    high = jnp.concatenate([ends[:, 2], _height(Q[0], g, corners)])
    flat = jnp.concatenate([ends[:, :2], corners[:, :2]])
    rows = jnp.concatenate([flat, (side * (high - low))[:, None], ((high + low) / 2)[:, None]], -1)
    lies = jnp.maximum(jnp.abs(f[2]), jnp.abs(g[2])) > FLAT_CONE
    return rows, jnp.concatenate([exist, inside]) & lies


def _height(corner: Array, normal: Array, x: Array) -> Array:
    """Where lines along n through x (k, 3) meet the plane through `corner`."""
    up = jnp.where(jnp.abs(normal[2]) > STEEP, normal[2], STEEP)
    return corner[2] - dot(x[:, :2] - corner[:2], normal[:2]) / up


def _levels(P: Array, f: Array, x: Array) -> Array:
    """How far points x (k, 3) lie within each of the m edges of polygon P with normal f: (k, m) [m]."""
    edge = jnp.roll(P, -1, 0)[:, :2] - P[:, :2]
    edge = edge * (sign(f[2]) * safe_divide(jnp.ones_like(edge[:, 0]), norm(edge), 0.0))[:, None]
    r = x[:, None, :2] - P[:, :2]
    return edge[:, 0] * r[..., 1] - edge[:, 1] * r[..., 0]


def _inside(P: Array, f: Array, x: Array) -> Array:
    """Which of points x (k, 3) are over polygon P."""
    slack = SLACK * stop_gradient(norm((P - P.mean(0))[:, :2]).max())
    return _levels(P, f, x).min(-1) >= -slack


def _clip(P: Array, f: Array, Q: Array) -> tuple[Array, Array]:
    """The edges of Q (k, 3) within polygon P: their two ends (2k, 3) and which exist."""
    along = jnp.roll(Q, -1, 0) - Q
    start, end = _levels(P, f, Q), _levels(P, f, jnp.roll(Q, -1, 0))
    pace = end - start
    cuts = jnp.abs(pace) > PARALLEL_EDGES * stop_gradient(norm(along[:, :2]))[:, None]
    cuts &= pace != 0
    at = jnp.clip(-start / jnp.where(cuts, pace, 1), 0, 1)
    first = jnp.max(jnp.where(cuts & (pace > 0), at, 0), -1)
    last = jnp.min(jnp.where(cuts & (pace < 0), at, 1), -1)
    ends = [Q + s[:, None] * along for s in (first, last)]
    there = (first <= last) & _inside(P, f, (ends[0] + ends[1]) / 2)
    return jnp.concatenate(ends), jnp.concatenate([there, there])


def _has_area(Q: Array) -> Array:
    """Whether the outline Q (k, 3) encloses anything, seen along n."""
    r = (Q - Q.mean(0))[:, :2]
    s = jnp.roll(r, -1, 0)
    twice = jnp.sum(r[:, 0] * s[:, 1] - r[:, 1] * s[:, 0])
    return jnp.abs(twice) > NO_AREA * jnp.max(dot(r, r))
