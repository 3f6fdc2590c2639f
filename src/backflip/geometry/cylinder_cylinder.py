"""Cylinder against cylinder: caps, sides and rims that hold them apart, seen from the world's axes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.axes import margin
from backflip.geometry.choose import pick, sign
from backflip.geometry.cylinder import support
from backflip.geometry.polytope import Near
from backflip.geometry.rim import Drum, angle_of, near_curves, rim, rim_line
from backflip.math import cross, dot, norm, unit, vecmat

CAP_A, CAP_B, CURVES = range(3)
# where the search for two rims begins, all around, and its Newton steps, none of them longer than this [rad]
STARTS = 20
STEPS = 10
LONGEST = 0.4
# [rad] off the axes, where more of them begin
LEAN = 0.02
# a rim has no direction where n is within this sine of the axis
ON_AXIS = 1e-6
# curvature [m] that is left where there is none, so that a step stays finite
LEAST = 1e-3


def nearest_of_cylinders(a: Drum, b: Drum) -> Near:
    """Where two cylinders are nearest or overlap least.

    Not smooth where other rims, caps or sides take over, nor where the axes turn parallel.
    """
    n, kind, round_a, round_b = _best(*stop_gradient((a, b)))
    cap_a = a.z * sign(dot(n, a.z))
    cap_b = b.z * sign(dot(n, b.z))
    curves = _near_curves(a, b, n, round_a, round_b)
    caps = [_near_cap(a, b, cap_a, 1), _near_cap(b, a, -cap_b, -1)]
    near = curves
    for k, other in zip((CAP_A, CAP_B), caps, strict=True):
        near = Near(*(jnp.where(kind == k, x, y) for x, y in zip(other, near, strict=True)))
    return near


def _near_cap(a: Drum, b: Drum, n: Array, side: int) -> Near:
    """The rim of b over or in the cap of a that looks along n; side = −1 if a is the pair's second."""
    gap = dot(n, b.c - a.c) - a.h - b.reach(n)
    return Near(side * n, gap, support(b, -n) - n * (gap / 2))


def _near_curves(a: Drum, b: Drum, n: Array, round_a: Array, round_b: Array) -> Near:
    """A rim or the axis of a, with the radius around it, across a rim or the axis of b."""
    held_a, held_b = stop_gradient((a, b))
    curve_a = rim(a, sign(dot(n, held_a.z)), round_a)
    curve_b = rim(b, -sign(dot(n, held_b.z)), round_b)
    u, v = angle_of(held_a, n), angle_of(held_b, -n)
    # on an axis, the place nearest to the other curve: exact for two axes, and right for a rim's point
    s, t = _on_axes(held_a, held_b, stop_gradient(curve_a), u, round_a, stop_gradient(curve_b), v, round_b)
    near = near_curves(curve_a, jnp.where(round_a, u, s), curve_b, jnp.where(round_b, v, t), n)
    skin_a, skin_b = jnp.where(round_a, 0, a.r), jnp.where(round_b, 0, b.r)
    return Near(near.n, near.gap - skin_a - skin_b, near.middle + near.n * ((skin_a - skin_b) / 2))


def _on_axes(a, b, curve_a, u, round_a, curve_b, v, round_b) -> tuple[Array, Array]:
    """Where on the two axes the point at u of a's rim and that at v of b's are nearest."""
    p = jnp.where(round_a, curve_a.at(u)[0], a.c)
    q = jnp.where(round_b, curve_b.at(v)[0], b.c)
    return dot(q - a.c, a.z), dot(p - b.c, b.z)


def _apart(a: Drum, b: Drum, n: Array) -> Array:
    """How far the planes square to n (k, 3) hold them apart [m]."""
    return dot(n, b.c - a.c) - a.reach(n) - b.reach(n)


def _best(a: Drum, b: Drum) -> tuple[Array, Array, Array, Array]:
    """The direction from a to b that holds them farthest apart, its kind, and which curves are rims."""
    across = unit(cross(a.z, b.z), a.R[:, 0])
    caps = jnp.stack([a.z, -a.z, b.z, -b.z])
    rims = _rim_to_rim(a, b)
    ways = [
        (caps, [(CAP_A, 0, 0)] * 2 + [(CAP_B, 0, 0)] * 2),
        (jnp.stack([across, -across]), [(CURVES, 0, 0)] * 2),
        (rim_line(a, b.c, b.z), [(CURVES, 1, 0)] * 2),
        (-rim_line(b, a.c, a.z), [(CURVES, 0, 1)] * 2),
        (rims, [(CURVES, 1, 1)] * len(rims)),
    ]
    n = jnp.concatenate([way for way, _ in ways])
    kinds = np.array([kind for _, kinds in ways for kind in kinds], float)
    dearer = jnp.asarray(kinds[:, 0] == CURVES, n.dtype) * margin(a.r + a.h + b.r + b.h)
    rows = jnp.concatenate([n, jnp.asarray(kinds, n.dtype)], -1)
    _, row = pick(_apart(a, b, n) - dearer, rows)
    return row[:3], row[3], row[4] > 0, row[5] > 0


def _rim_to_rim(a: Drum, b: Drum) -> Array:
    """Directions (k, 3) in which a rim of a and one of b hold them farthest apart, searched all around."""
    # s(n) = n · w,  w = t − Σ (h σ z + r ρ̂),  ρ̂ = n's part square to z, normed:  s' = w − s n
    # s'' = −K = −Σ r/ρ ττᵀ − s I,  τ = z × n / ρ

    def turn(n: Array, _: None) -> tuple[Array, None]:
        w = b.c - a.c - _far(a, n) - _far(b, n)
        s = dot(n, w)
        (u, bend_a), (tau, bend_b) = _bend(a, n), _bend(b, n)
        v = cross(n, u)
        f, g = dot(w, u), dot(w, v)
        x, y = dot(tau, u), dot(tau, v)
        uu, uv, vv = bend_a + bend_b * x * x, bend_b * x * y, bend_b * y * y
        peak = (uu + vv + 2 * s > 0) & ((uu + s) * (vv + s) > uv * uv)
        # where it is no peak yet, climb as if they were apart
        s = jnp.where(peak, s, jnp.maximum(s, 0) + LEAST)
        det = (uu + s) * (vv + s) - uv * uv
        det = jnp.where(det > 0, det, 1)
        move = (((vv + s) * f - uv * g) / det)[:, None] * u + (((uu + s) * g - uv * f) / det)[:, None] * v
        length = norm(move)[:, None]
        move = move * jnp.minimum(1, LONGEST / jnp.where(length > 0, length, 1))
        return unit(n + move, n), None

    starts = jnp.asarray(_around(STARTS), a.c.dtype) @ a.R.T
    starts = jnp.concatenate([starts, _tilted(a, b, b.c - a.c), _tilted(b, a, b.c - a.c)])
    return jax.lax.scan(turn, starts, length=STEPS)[0]


def _tilted(a: Drum, b: Drum, t: Array) -> Array:
    """Directions (2, 3) near a's axis, leant towards where b's rim pulls: there a rim turns fastest."""
    n = jnp.stack([a.z, -a.z])
    pull = t - _far(b, n)
    pull = pull - dot(pull, a.z)[:, None] * a.z
    return unit(n + LEAN * unit(pull, a.R[:, 0]), n)


def _far(cylinder: Drum, n: Array) -> Array:
    """The point (k, 3) farthest along n, from the centre."""
    up = dot(n, cylinder.z)[:, None]
    flat = unit(vecmat(n, cylinder.R[:, :2]) @ cylinder.R[:, :2].T, cylinder.R[:, 0])
    return cylinder.h * sign(up) * cylinder.z + cylinder.r * flat


def _bend(cylinder: Drum, n: Array) -> tuple[Array, Array]:
    """Tangent (k, 3) of the rim where it reaches farthest along n, and how fast that place moves [m]."""
    side = cross(jnp.broadcast_to(cylinder.z, n.shape), n)
    return unit(side, cylinder.R[:, 0]), cylinder.r / jnp.maximum(norm(side), ON_AXIS)


def _around(k: int) -> np.ndarray:
    """k directions (k, 3) spread over the sphere, on a spiral."""
    z = 1 - (2 * np.arange(k) + 1) / k
    turn = np.pi * (1 + np.sqrt(5)) * np.arange(k)
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(turn), flat * np.sin(turn), z], -1)
