"""Lines and circles: where a cylinder's rim or axis runs nearest to an edge, an axis or another rim."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.choose import sign
from backflip.geometry.polytope import Near
from backflip.math import cross, dot, norm, unit

# Newton steps towards the nearest point of a rim
STEPS = 10
# cotangent of the smallest angle on an ellipse that differs from its end, and its smallest half axis in radii
FAR = 1e10
EDGEWISE = 1e-7
# sin² below which curves run alongside each other; distance² in tangents² below which they touch
ALONGSIDE = 1e-4
TOUCHING = 1e-6
# cosine to the direction that was looked for, below which Newton's steps have gone astray
STRAY = 0.99
# sin² below which a line is parallel to the axis
PARALLEL = 1e-10
# a Newton step with a determinant below this part of its largest possible, or so many roundings, goes nowhere
SINGULAR = 1e-10
ROUNDINGS = 16


class Drum(NamedTuple):
    """A cylinder in its place: centre c (3,) [m], axes R (3, 3), z along it, half its length h, radius r."""

    c: Array
    R: Array
    h: Array
    r: Array

    @property
    def z(self) -> Array:
        """(3,) unit, along the axis."""
        return self.R[:, 2]

    def reach(self, n: Array) -> Array:
        """How far it reaches from its centre along unit vectors n (..., 3) [m]."""
        up = dot(n, self.z)
        return self.r * norm(n - up[..., None] * self.z) + self.h * jnp.abs(up)


class Curve(NamedTuple):
    """c + x cos u + y sin u if it is round, else c + y u."""

    c: Array
    x: Array
    y: Array
    round: Array

    def at(self, u: Array) -> tuple[Array, Array, Array]:
        """Point, tangent and curvature vector (3,) at u."""
        cos, sin = jnp.cos(u), jnp.sin(u)
        flat = jnp.zeros_like(self.y)
        point = self.c + jnp.where(self.round, self.x * cos + self.y * sin, self.y * u)
        tangent = jnp.where(self.round, self.y * cos - self.x * sin, self.y)
        return point, tangent, jnp.where(self.round, -self.x * cos - self.y * sin, flat)


def rim(cylinder: Drum, end: Array, round: Array | bool = True) -> Curve:
    """The rim at the end +1 or −1; or, if it is not round, the axis."""
    up = jnp.where(round, cylinder.z * (cylinder.h * end), 0)
    x, y = cylinder.R[:, 0] * cylinder.r, cylinder.R[:, 1] * cylinder.r
    return Curve(cylinder.c + up, x, jnp.where(round, y, cylinder.z), jnp.asarray(round))


def angle_of(cylinder: Drum, n: Array) -> Array:
    """Where on its rim (...) [rad] a cylinder reaches farthest along n (..., 3)."""
    x, y = dot(n, cylinder.R[:, 0]), dot(n, cylinder.R[:, 1])
    some = x * x + y * y > 0
    return jnp.arctan2(jnp.where(some, y, 0), jnp.where(some, x, 1))


def near_curves(a: Curve, u: Array, b: Curve, v: Array, n: Array) -> Near:
    """Where curves a and b are stationary to each other, from u and v close by; n (3,) is about the way out.

    One Newton step to be there, and one more whose gradient is that of the exact solution. Where that leads
    away from n, n is taken, with gradient 0; the gap's is right nevertheless.
    """
    held_a, held_b, u, v, n = stop_gradient((a, b, u, v, n))
    s, t = stop_gradient(_step(held_a, u, held_b, v))
    s, t = _step(a, s, b, t)
    way = _way_out(a, s, b, t, n)
    close = stop_gradient(dot(way, n)) > STRAY
    p, q = a.at(jnp.where(close, s, u))[0], b.at(jnp.where(close, t, v))[0]
    way = jnp.where(close, way, n)
    return Near(way, dot(way, q - p), (p + q) / 2)


def _way_out(a: Curve, u: Array, b: Curve, v: Array, n: Array) -> Array:
    """The direction square to both curves; from one to the other where they run alongside and apart."""
    (p, s, _), (q, t, _) = a.at(u), b.at(v)
    across, d = cross(s, t), q - p
    crossing = stop_gradient(dot(across, across) > ALONGSIDE * dot(s, s) * dot(t, t))
    apart = stop_gradient(dot(d, d) > TOUCHING * dot(s, s))
    way = jnp.where(crossing, across, jnp.where(apart, d, n))
    return unit(way * sign(dot(way, n)), n)


def _step(a: Curve, u: Array, b: Curve, v: Array) -> tuple[Array, Array]:
    """A Newton step of u and v, with its matrix held."""
    #   F = (t_a · d, t_b · d),  d = b − a;   F' = [[k_a · d − t_a², t_a · t_b], [−t_a · t_b, k_b · d + t_b²]]
    (p, s, k), (q, t, m) = a.at(u), b.at(v)
    d = q - p
    f, g = dot(s, d), dot(t, d)
    aa, ab, bb = stop_gradient((dot(k, d) - dot(s, s), dot(s, t), dot(m, d) + dot(t, t)))
    det = aa * bb + ab * ab
    singular = max(SINGULAR, ROUNDINGS * float(jnp.finfo(det.dtype).eps))
    clear = jnp.abs(det) > singular * stop_gradient(dot(s, s) * dot(t, t))
    per = jnp.where(clear, 1 / jnp.where(clear, det, 1), 0)
    return u - (bb * f - ab * g) * per, v - (ab * f + aa * g) * per


def rim_line(cylinder: Drum, q: Array, e: Array) -> Array:
    """Directions (2, 3) square to the line q + t e, |e| = 1, from its upper and its lower rim towards it,
    along which they are farthest from the line, or least deep beyond it.

    Seen along e a rim is an ellipse, its long half axis r along k, its short one b along m:
    the nearest of its points to the line's has (x − a(θ)) · a'(θ) = 0.
    """
    ends = jnp.array([1.0, -1.0], q.dtype)
    k, beside = cross(cylinder.z, e), cross(e, cylinder.R[:, 0])
    k = unit(jnp.where(dot(k, k) > PARALLEL, k, beside), cylinder.R[:, 1])
    k = unit(k - dot(k, e) * e, k)
    m = cross(e, k)
    m = ends[:, None] * (m * sign(dot(m, cylinder.z)))
    r, b = cylinder.r, cylinder.r * jnp.maximum(jnp.abs(dot(e, cylinder.z)), EDGEWISE)
    far = q - cylinder.c - (cylinder.h * ends)[:, None] * cylinder.z
    x, y = dot(far, k), dot(far, m)
    # with t = cot θ it reads  x r = y b t + (r² − b²) t/√(1 + t²):  from where the second term is at its end,
    # or from 0, Newton's steps never pass the root
    beyond = jnp.maximum(jnp.abs(x) * r - (r * r - b * b), 0) / jnp.where(y > 0, y * b, 1)
    t = jnp.where(y > 0, jnp.minimum(beyond, FAR) * jnp.sign(x), 0)
    for _ in range(STEPS):
        s = 1 / jnp.sqrt(1 + t * t)
        slope = y * b + (r * r - b * b) * s * s * s
        rises = slope > 0
        move = (x * r - y * b * t - (r * r - b * b) * t * s) / jnp.where(rises, slope, 1)
        t = jnp.clip(t + jnp.where(rises, move, 0), -FAR, FAR)
    return unit((b * t)[:, None] * k + r * m, m)
