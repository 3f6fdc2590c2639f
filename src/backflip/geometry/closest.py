"""The closest points of two polytopes apart (Gilbert, Johnson and Keerthi 1988), without branches.

Always on values: the gradient comes from the corners it returns. Polytopes that overlap have no
closest points; the corners are then arbitrary, and no direction through them separates anything.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry.choose import pick
from backflip.math import cross, dot, norm, safe_divide

TURNS = 14
"""Corners that are tried; each brings the origin nearer to the simplex or ends the search."""
SLIVER = 60
"""sin² below this many roundings: three corners are in line and span no triangle."""
SEGMENTS = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
TRIANGLES = np.array([(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)])


def closest_corners(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Three pairs of corners (3,), (3,), by number, of polytopes a (v, 3) and b (w, 3), and their weights.

    Σ weight (b − a) over the pairs leads from the closest point of A to that of B; pairs with weight 0 come
    last and do not count.
    """
    rows_a, rows_b = numbered(a), numbered(b)

    def turn(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        simplex, weight = carry
        direction = jnp.sum(weight[:, None] * simplex[:, :3], 0)
        new = opposite(rows_a, rows_b, direction)
        free = jnp.arange(4) == jnp.argmin(weight)
        simplex = jnp.where(free[:, None], new, simplex)
        return (simplex, nearest_weights(simplex[:, :3])), None

    start = opposite(rows_a, rows_b, b.mean(0) - a.mean(0))
    first = jnp.array([1.0, 0.0, 0.0, 0.0], a.dtype)
    (simplex, weight), _ = jax.lax.scan(turn, (jnp.tile(start, (4, 1)), first), length=TURNS)
    place = jnp.argsort(-weight)[:3]
    order = (place[:, None] == jnp.arange(4)).astype(a.dtype)
    rows = jnp.sum(order[:, :, None] * jnp.concatenate([simplex, weight[:, None]], -1), 1)
    return rows[:, 3], rows[:, 4], rows[:, 5]


def numbered(points: Array) -> Array:
    """Corners (v, 3) with their numbers as a fourth column."""
    return jnp.concatenate([points, jnp.arange(len(points), dtype=points.dtype)[:, None]], -1)


def opposite(rows_a: Array, rows_b: Array, n: Array) -> Array:
    """b − a and the numbers of a and b (5,): the corner of A farthest along n and that of B least far."""
    _, a = pick(dot(rows_a[:, :3], n), rows_a)
    _, b = pick(-dot(rows_b[:, :3], n), rows_b)
    return jnp.concatenate([b[:3] - a[:3], a[3:], b[3:]])


def nearest_weights(w: Array) -> Array:
    """Weights (4,) of the point nearest to the origin of the surface of a tetrahedron w (4, 3)."""
    candidates = jnp.concatenate([_on_segments(w), _on_triangles(w)])
    distance = norm(jnp.sum(candidates[:, :, None] * w, 1))
    real = jnp.sum(candidates, 1) > 0.5
    return pick(jnp.where(real, -distance, -jnp.inf), candidates)[1]


def _on_segments(w: Array) -> Array:
    """(6, 4) weights of the nearest point of every edge."""
    p, q = w[SEGMENTS[:, 0]], w[SEGMENTS[:, 1]]
    d = q - p
    t = jnp.clip(safe_divide(-dot(p, d), dot(d, d), 0.0), 0, 1)[:, None]
    eye = jnp.eye(4, dtype=w.dtype)
    return (1 - t) * eye[SEGMENTS[:, 0]] + t * eye[SEGMENTS[:, 1]]


def _on_triangles(w: Array) -> Array:
    """(4, 4) weights of the foot of the origin on every face; 0 if that is outside the face."""
    p, u, v = (
        w[TRIANGLES[:, 0]],
        w[TRIANGLES[:, 1]] - w[TRIANGLES[:, 0]],
        w[TRIANGLES[:, 2]] - w[TRIANGLES[:, 0]],
    )
    n = cross(u, v)
    square = dot(n, n)
    spans = square > SLIVER * jnp.finfo(w.dtype).eps * dot(u, u) * dot(v, v)
    per = jnp.where(spans, 1 / jnp.where(spans, square, 1), 0)
    # foot = p + β u + γ v with β = (−p × v) · n / n², γ = (u × −p) · n / n²
    beta, gamma = dot(cross(v, p), n) * per, dot(cross(p, u), n) * per
    inside = spans & (beta > 0) & (gamma > 0) & (beta + gamma < 1)
    eye = jnp.eye(4, dtype=w.dtype)
    parts = zip((1 - beta - gamma, beta, gamma), TRIANGLES.T, strict=True)
    return jnp.where(inside[:, None], sum(k[:, None] * eye[which] for k, which in parts), 0)
