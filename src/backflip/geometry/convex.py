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


class Reach(NamedTuple):
    """How far a shape in its place reaches: its farthest point (3,) along n (3,)."""

    far: Far
    """differentiable in everything"""
    mark: Far
    """the same point as a mark on the body: n is held in the body's frame, as the gap's gradient wants it"""
    held: Far
    """without any gradient of the shape or its place"""


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
        lowest = _reach(b, form_b, p_WB, R_WB).far(-R_WA[:, 2])
        return touch_plane(lowest[None], jnp.zeros_like(p_WA[0]), p_WA, R_WA)

    return collide


def collide_convex(a: type[Shape], b: type[Shape]) -> Callable[..., Touch]:
    """Two shapes: one candidate. Not smooth where another face, line or corner takes over."""

    def collide(form_a: Form, p_WA: Array, R_WA: Array, form_b: Form, p_WB: Array, R_WB: Array) -> Touch:
        t, origin = p_WB - p_WA, jnp.zeros_like(p_WA)
        reach_a, reach_b = _reach(a, form_a, origin, R_WA), _reach(b, form_b, t, R_WB)
        features_a = _placed(a.features(form_a), origin, R_WA)
        features_b = _placed(b.features(form_b), t, R_WB)
        results = []
        if _some(features_a):
            results.append(_near_features(features_a, reach_a, reach_b, t))
        if _some(features_b):
            flipped = _near_features(features_b, reach_b, reach_a, origin)
            results.append(flipped._replace(n=-flipped.n))
        if not (features_a.complete or features_b.complete):
            results.append(_near_smooth(reach_a, reach_b, t))
        near = results[0]
        for other in results[1:]:
            better = stop_gradient(other.gap > near.gap)
            near = Near(*(jnp.where(better, x, y) for x, y in zip(other, near, strict=True)))
        return Touch(near.gap[None], near.n[None], (p_WA + near.middle)[None])

    return collide


def _reach(kind: type[Shape], form: Form, p: Array, R: Array) -> Reach:
    """The Reach of a shape at p, R."""
    held_form, held_p, held_R = stop_gradient((form, p, R))
    return Reach(
        far=lambda n: p + matvec(R, kind.support(form, vecmat(n, R))),
        mark=lambda n: p + matvec(R, kind.support(form, stop_gradient(vecmat(n, R)))),
        held=lambda n: held_p + matvec(held_R, kind.support(held_form, vecmat(n, held_R))),
    )


def _placed(own: Features, p: Array, R: Array) -> Features:
    """Features of a shape in its place."""
    lines, points = p + matvec(R, own.lines), p + matvec(R, own.points)
    return own._replace(normals=matvec(R, own.normals), lines=lines, points=points)


def _some(own: Features) -> bool:
    return len(own.normals) + len(own.lines) + len(own.points) > 0


def _near_features(own: Features, x: Reach, y: Reach, centre: Array) -> Near:
    """The best direction out of a shape X, on its faces, lines or points; Y's origin is `centre`."""
    choice = _best(own, x.held, y.held, stop_gradient(centre))
    m = _polished(choice, y)
    by_feature = (choice.kind == LINE) | (choice.kind == POINT)
    on_x = jnp.where(by_feature, choice.point + own.radius * stop_gradient(m), x.mark(m))
    gap = dot(m, y.mark(-m) - on_x)
    return Near(m, gap, y.far(-m) - m * (gap / 2))


def _best(own: Features, far_x: Far, far_y: Far, centre: Array) -> Choice:
    """Try all faces, lines and points; the rows that win keep their gradient."""
    held: Features = stop_gradient(own)
    first = _directions(held, far_x, far_y, centre, None)
    _, m = pick(first[0], first[1][:, :3])
    # from the best so far once more: deep in each other, the way to the centre may lead elsewhere
    again = _directions(held, far_x, far_y, centre, m)
    score, rows = (jnp.concatenate(both) for both in zip(first, again, strict=True))
    none, faces, lines, points = jnp.zeros_like, own.normals, own.lines.mean(1), own.points
    edges = own.lines[:, 1] - own.lines[:, 0]
    features = [
        jnp.concatenate([faces, none(lines), none(points)]),
        jnp.concatenate([none(faces), lines, points]),
        jnp.concatenate([none(faces), edges, none(points)]),
    ]
    _, row = pick(score, jnp.concatenate([rows, jnp.tile(jnp.concatenate(features, -1), (2, 1))], -1))
    return Choice(row[:3], row[3], row[4:7], row[7:10], row[10:13])


def _directions(
    own: Features, far_x: Far, far_y: Far, centre: Array, start: Array | None
) -> tuple[Array, Array]:
    """How far every face, line and point holds X and Y apart (k,) [m]; the directions and kinds (k, 4).

    Each is searched for from `start`, or where that is None from itself towards Y's origin.
    """
    middle = own.lines.mean(1)
    along = unit(own.lines[:, 1] - own.lines[:, 0], jnp.eye(3, dtype=middle.dtype)[0])

    def over_line(q: Array, e: Array) -> Array:
        return _climb(_start(centre - q if start is None else start, e), lambda m: far_y(-m) - q, e)

    def over_point(q: Array) -> Array:
        return _climb(_start(centre - q if start is None else start), lambda m: far_y(-m) - q)

    lines, points = jax.vmap(over_line)(middle, along), jax.vmap(over_point)(own.points)
    m = jnp.concatenate([own.normals, lines, points])
    kinds = np.repeat((FACE, LINE, POINT), (len(own.normals), len(lines), len(points)))
    ends = jax.vmap(far_x)(m)
    apart = dot(m, jax.vmap(lambda n: far_y(-n))(m) - ends)
    size = norm(far_y(m[0]) - far_y(-m[0])) + norm(ends[0] - far_x(-m[0]))
    features = jnp.concatenate([ends[: len(own.normals)], middle, own.points])
    beyond = dot(m, ends - features) - jnp.where(kinds == FACE, 0, own.radius)
    kind = jnp.where(beyond < OUTMOST * margin(size), jnp.asarray(kinds, m.dtype), NONE)
    score = apart - jnp.where(kinds == FACE, 0, margin(size))
    return score, jnp.concatenate([m, kind[:, None]], -1)


def _start(way: Array, e: Array | None = None) -> Array:
    """The unit vector (3,) along `way`, square to e."""
    if e is None:
        return unit(way, jnp.eye(3, dtype=way.dtype)[2])
    return unit(way - dot(way, e) * e, _square_to(e)[0])


def _square_to(m: Array) -> tuple[Array, Array]:
    """Two unit vectors (3,) square to m and to each other."""
    x, y, _ = jnp.eye(3, dtype=m.dtype)
    u = unit(cross(m, jnp.where(jnp.abs(m[0]) < 0.6, x, y)), y)
    return u, cross(m, u)


def _polished(choice: Choice, y: Reach) -> Array:
    """The chosen direction with its gradient: one more Newton step, its matrix held."""
    m = stop_gradient(choice.m)
    on_line = choice.kind == LINE
    e = unit(jnp.where(on_line, choice.along, jnp.array([1.0, 0.0, 0.0], m.dtype)), m)
    square = jnp.where(on_line, unit(m - dot(m, e) * e, m), m)
    w = y.far(-square) - choice.point
    moved = square + _move(stop_gradient(square), w, lambda n: y.held(-n), e, on_line)
    fixed = jnp.where(choice.kind == FACE, choice.normal, m)
    return jnp.where(on_line | (choice.kind == POINT), unit(moved, m), fixed)


def _near_smooth(a: Reach, b: Reach, centre: Array) -> Near:
    """Where two shapes that are smooth are nearest, or overlap least."""

    def view(n: Array) -> Array:
        return b.held(-n) - a.held(n)

    starts = jnp.asarray(_around(STARTS), centre.dtype)
    starts = jnp.concatenate([unit(stop_gradient(centre), starts[0])[None], starts])
    peaks = jax.vmap(lambda n: _climb(n, view))(starts)
    _, n = pick(jax.vmap(lambda n: dot(n, view(n)))(peaks), peaks)
    n = stop_gradient(n)
    n = unit(n + _move(n, b.far(-n) - a.far(n), view), n)
    gap = dot(n, b.mark(-n) - a.mark(n))
    return Near(n, gap, b.far(-n) - n * (gap / 2))


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
