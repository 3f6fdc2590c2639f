"""The general pair: any two convex shapes that say how far they reach, and where they are flat or straight.

The planes square to a unit n hold A and B apart by s(n) = n · w(n), w(n) = far_B(−n) − far_A(n), the
difference of their support points. The greatest s is their distance, or minus their least depth. It is at a
flat face of one of them, across a straight line, at a corner, or where both are smooth. All are tried, by
Newton's method on the sphere of directions,
    s' = w − s n,   −s'' = K = H_A + H_B + s I,   H = the derivative of a support point along n,
and the best is taken. The search carries no gradient: the direction is then solved for once more, by a Newton
step whose gradient is that of the exact solution, and the gap's is that of n · w at fixed support points.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.axes import margin
from backflip.geometry.choose import pick
from backflip.geometry.polytope import Near
from backflip.geometry.shape import Features, Form, Shape
from backflip.geometry.touch import Touch, touch_plane
from backflip.math import cross, dot, matvec, norm, unit, vecmat

STEPS = 14
"""Newton steps of a search, none of them longer than LONGEST [rad]."""
LONGEST = 0.4
STARTS = 12
"""Where the search between two smooth shapes begins, all around, besides the line of their centres."""
STEEP = 1e-2
"""Where s has no peak, K is taken as if they were apart by this part of its size."""
OUTMOST = 4
"""A line or a point counts where nothing is farther out by more than so many margins."""
FACE, LINE, POINT, NONE = range(4)
"""What a direction hangs on; NONE: a line or point that others stick out beyond, fixed."""

Far = Callable[[Array], Array]


class Choice(NamedTuple):
    """The best direction m (3,) out of shape X towards Y, what of X it hangs on, and that in its place."""

    m: Array
    kind: Array
    normal: Array
    point: Array
    along: Array


def collide_plane_convex(b: type[Shape]) -> Callable[..., Touch]:
    """A plane against a shape: one candidate, its lowest point."""

    def collide(form_a: Form, p_WA: Array, R_WA: Array, form_b: Form, p_WB: Array, R_WB: Array) -> Touch:
        lowest = _far(b, form_b, p_WB, R_WB)(-R_WA[:, 2])
        return touch_plane(lowest[None], jnp.zeros_like(p_WA[0]), p_WA, R_WA)

    return collide


def collide_convex(a: type[Shape], b: type[Shape]) -> Callable[..., Touch]:
    """Two shapes: one candidate. Not smooth where another face, line or corner takes over."""

    def collide(form_a: Form, p_WA: Array, R_WA: Array, form_b: Form, p_WB: Array, R_WB: Array) -> Touch:
        t = p_WB - p_WA
        far_a, far_b = _far(a, form_a, jnp.zeros_like(t), R_WA), _far(b, form_b, t, R_WB)
        features_a = _placed(a.features(form_a), jnp.zeros_like(t), R_WA)
        features_b = _placed(b.features(form_b), t, R_WB)
        held_a = _far(a, *stop_gradient((form_a, jnp.zeros_like(t), R_WA)))
        held_b = _far(b, *stop_gradient((form_b, t, R_WB)))
        centre = stop_gradient(t)
        results = []
        if _some(features_a):
            results.append(_near_features(features_a, far_a, held_a, far_b, held_b, centre))
        if _some(features_b):
            flipped = _near_features(features_b, far_b, held_b, far_a, held_a, jnp.zeros_like(t))
            results.append(flipped._replace(n=-flipped.n))
        if not (features_a.complete or features_b.complete):
            results.append(_near_smooth(far_a, held_a, far_b, held_b, centre))
        near = results[0]
        for other in results[1:]:
            better = stop_gradient(other.gap > near.gap)
            near = Near(*(jnp.where(better, x, y) for x, y in zip(other, near, strict=True)))
        return Touch(near.gap[None], near.n[None], (p_WA + near.middle)[None])

    return collide


def _far(kind: type[Shape], form: Form, p: Array, R: Array) -> Far:
    """The point (3,) of a shape in its place farthest along n (3,)."""
    return lambda n: p + matvec(R, kind.support(form, vecmat(n, R)))


def _placed(own: Features, p: Array, R: Array) -> Features:
    """Features of a shape in its place."""
    lines, points = p + matvec(R, own.lines), p + matvec(R, own.points)
    return own._replace(normals=matvec(R, own.normals), lines=lines, points=points)


def _some(own: Features) -> bool:
    return len(own.normals) + len(own.lines) + len(own.points) > 0


def _near_features(own: Features, far_x: Far, held_x: Far, far_y: Far, held_y: Far, centre: Array) -> Near:
    """The best direction out of a shape X, on its faces, lines or points; Y's origin is `centre`."""
    choice = _best(own, *stop_gradient((own,)), held_x, held_y, centre)
    m = _polished(choice, far_y, held_y)
    held = stop_gradient(m)
    by_feature = (choice.kind == LINE) | (choice.kind == POINT)
    on_x = jnp.where(by_feature, choice.point + own.radius * held, far_x(held))
    gap = dot(m, far_y(-held) - on_x)
    return Near(m, gap, far_y(-m) - m * (gap / 2))


def _best(own: Features, held: Features, held_x: Far, held_y: Far, centre: Array) -> Choice:
    """Try all faces, lines and points; the rows that win keep their gradient."""
    middle = held.lines.mean(1)
    along = unit(held.lines[:, 1] - held.lines[:, 0], jnp.eye(3, dtype=middle.dtype)[0])
    lines = jax.vmap(lambda q, e: _climb(_start(q, centre, e), lambda m: held_y(-m) - q, e))(middle, along)
    points = jax.vmap(lambda q: _climb(_start(q, centre), lambda m: held_y(-m) - q))(held.points)
    m = jnp.concatenate([held.normals, lines, points])
    counts = len(held.normals), len(lines), len(points)
    kinds = jnp.asarray(np.repeat((FACE, LINE, POINT), counts), m.dtype)
    ends = jax.vmap(held_x)(m)
    apart = dot(m, jax.vmap(lambda n: held_y(-n))(m) - ends)
    size = norm(held_y(m[0]) - held_y(-m[0])) + norm(ends[0] - held_x(-m[0]))
    own_ends = jnp.concatenate([ends[: counts[0]], middle, held.points])
    beyond = dot(m, ends - own_ends) - jnp.where(kinds == FACE, 0, held.radius)
    kinds = jnp.where(beyond < OUTMOST * margin(size), kinds, NONE)
    score = apart - jnp.where(kinds == FACE, 0, margin(size))
    none = jnp.zeros_like
    edges = own.lines[:, 1] - own.lines[:, 0]
    rows = [
        m,
        kinds[:, None],
        jnp.concatenate([own.normals, none(lines), none(points)]),
        jnp.concatenate([none(own.normals), own.lines.mean(1), own.points]),
        jnp.concatenate([none(own.normals), edges, none(points)]),
    ]
    _, row = pick(score, jnp.concatenate(rows, -1))
    return Choice(row[:3], row[3], row[4:7], row[7:10], row[10:13])


def _start(q: Array, centre: Array, e: Array | None = None) -> Array:
    """From q towards `centre`, square to e."""
    way = centre - q
    way = way if e is None else way - dot(way, e) * e
    side = jnp.eye(3, dtype=q.dtype)[2]
    return unit(way, side if e is None else _square_to(e)[0])


def _square_to(m: Array) -> tuple[Array, Array]:
    """Two unit vectors (3,) square to m and to each other."""
    x, y, _ = jnp.eye(3, dtype=m.dtype)
    u = unit(cross(m, jnp.where(jnp.abs(m[0]) < 0.6, x, y)), y)
    return u, cross(m, u)


def _polished(choice: Choice, far_y: Far, held_y: Far) -> Array:
    """The chosen direction with its gradient: one more Newton step, its matrix held."""
    m = stop_gradient(choice.m)
    on_line = choice.kind == LINE
    e = unit(jnp.where(on_line, choice.along, jnp.array([1.0, 0.0, 0.0], m.dtype)), m)
    square = jnp.where(on_line, unit(m - dot(m, e) * e, m), m)
    w = far_y(-square) - choice.point
    moved = square + _move(stop_gradient(square), w, lambda n: held_y(-n), e, on_line)
    fixed = jnp.where(choice.kind == FACE, choice.normal, m)
    return jnp.where(on_line | (choice.kind == POINT), unit(moved, m), fixed)


def _near_smooth(far_a: Far, held_a: Far, far_b: Far, held_b: Far, centre: Array) -> Near:
    """Where two shapes that are smooth are nearest, or overlap least."""

    def view(n: Array) -> Array:
        return held_b(-n) - held_a(n)

    starts = jnp.asarray(_around(STARTS), centre.dtype)
    starts = jnp.concatenate([unit(centre, starts[0])[None], starts])
    peaks = jax.vmap(lambda n: _climb(n, view))(starts)
    _, n = pick(jax.vmap(lambda n: dot(n, view(n)))(peaks), peaks)
    n = stop_gradient(n)
    n = unit(n + _move(n, far_b(-n) - far_a(n), view), n)
    held = stop_gradient(n)
    gap = dot(n, far_b(-held) - far_a(held))
    return Near(n, gap, far_b(-n) - n * (gap / 2))


def _climb(start: Array, view: Far, e: Array | None = None) -> Array:
    """The direction (3,) of the greatest n · view(n), from a start; square to e if that is given."""

    def turn(n: Array, _: None) -> tuple[Array, None]:
        move = _move(n, view(n), view, e, jnp.asarray(e is not None))
        length = norm(move)
        return unit(n + move * jnp.minimum(1, LONGEST / jnp.where(length > 0, length, 1)), n), None

    return jax.lax.scan(turn, start, length=STEPS)[0]


def _move(n: Array, w: Array, view: Far, e: Array | None = None, on_line: Array | bool = False) -> Array:
    """Newton's step (3,) from n, where w = view(n); on a line only square to e.

    It is linear in w, with a matrix that has no gradient.
    """
    u, v = _square_to(n)
    if e is not None:
        u = jnp.where(on_line, unit(cross(e, n), u), u)
        v = jnp.where(on_line, jnp.zeros_like(v), v)
    held_u, held_v = stop_gradient((u, v))
    (value, du), (_, dv) = (jax.jvp(view, (stop_gradient(n),), (x,)) for x in (held_u, held_v))
    uu, uv, vv = -dot(held_u, du), -(dot(held_u, dv) + dot(held_v, du)) / 2, -dot(held_v, dv)
    vv = jnp.where(on_line, uu, vv)
    uu, uv, vv = _positive(*stop_gradient((uu, uv, vv, dot(stop_gradient(n), stop_gradient(w)), norm(value))))
    det = uu * vv - uv * uv
    det = jnp.where(det > 0, det, 1)
    f, g = dot(w, u), dot(w, v)
    return ((vv * f - uv * g) / det) * u + ((uu * g - uv * f) / det) * v


def _positive(uu: Array, uv: Array, vv: Array, s: Array, size: Array) -> tuple[Array, Array, Array]:
    """K = H + s I, made positive where s has no peak yet: there it climbs as if the shapes were apart."""
    peak = (uu + vv + 2 * s > 0) & ((uu + s) * (vv + s) > uv * uv)
    s = jnp.where(peak, s, jnp.maximum(s, 0) + STEEP * (uu + vv + size))
    return uu + s, uv, vv + s


def _around(k: int) -> np.ndarray:
    """k directions (k, 3) spread over the sphere, on a spiral."""
    z = 1 - (2 * np.arange(k) + 1) / k
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(k)
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), z], -1)
