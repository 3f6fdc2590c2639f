"""A cylinder against a plane and a sphere; its caps and sides as patches.

Every function takes one pair, (size_a, p_WA, R_WA, size_b, p_WB, R_WB), and gives its Touch.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.choose import sign
from backflip.geometry.polygon import Patch
from backflip.geometry.rim import Drum
from backflip.geometry.touch import ABSENT, Touch, touch_plane
from backflip.math import cross, dot, matvec, norm, unit, vecmat

# corners of the polygon that stands for a cap where it lies on something
CORNERS = 8
# a cap within this sine of square to a direction has no lowest point: a place on its rim that is fixed in the
# body stands for it, at most 1e-4 · 0.3 radii too high
LEVEL = 1e-4
# and its lowest point carries no gradient below this sine: it would grow as one over it
NO_LOWEST = 1e-3
# cosine to the axis beyond which a cylinder stands on its cap rather than lies on its side
STANDS = 0.7


def cylinder_of(size: Array, p: Array, R: Array) -> Drum:
    """The cylinder of size (radius, length, 0) at p, R."""
    return Drum(p, R, size[1] / 2, size[0])


def radial(cylinder: Drum, n: Array) -> Array:
    """The unit vector (3,) square to the axis in which a cylinder reaches farthest along n."""
    # along the axes, so that no rounding of n's long part along z is left in its short part
    side = matvec(cylinder.R[:, :2], vecmat(n, cylinder.R[:, :2]))
    sine = stop_gradient(norm(side))
    direction = unit(side, cylinder.R[:, 0])
    direction = jnp.where(sine > NO_LOWEST, direction, stop_gradient(direction))
    return jnp.where(sine > LEVEL, direction, cylinder.R[:, 0])


def support(cylinder: Drum, n: Array) -> Array:
    """The point (3,) of a cylinder farthest along n."""
    up = cylinder.h * sign(dot(n, cylinder.z))
    return cylinder.c + up * cylinder.z + cylinder.r * radial(cylinder, n)


def cylinder_patch(cylinder: Drum, n: Array) -> Patch:
    """What of a cylinder faces along n: a cap, as a polygon with its farthest point among the corners, or a
    line along its side, which encloses nothing."""
    x = radial(cylinder, n)
    end = sign(dot(n, cylinder.z))
    stands = stop_gradient(jnp.abs(dot(n, cylinder.z))) > STANDS
    y = cross(cylinder.z * end, x)
    turn = 2 * np.pi * np.arange(CORNERS) / CORNERS
    cos, sin = (jnp.asarray(f(turn), n.dtype)[:, None] for f in (np.cos, np.sin))
    cap = cylinder.h * end * cylinder.z + cylinder.r * (cos * x + sin * y)
    along = jnp.asarray(np.where(np.arange(CORNERS) < CORNERS // 2, 1.0, -1.0), n.dtype)[:, None]
    line = along * cylinder.h * cylinder.z + cylinder.r * x
    return Patch(cylinder.c + jnp.where(stands, cap, line), jnp.where(stands, cylinder.z * end, 0))


def collide_plane_cylinder(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: around the lower rim from its lowest point on; lying, the upper rim's is the third.

    Not smooth where the axis turns square to the plane or parallel to it.
    """
    cylinder = cylinder_of(size_b, p_WB, R_WB)
    down = -R_WA[:, 2]
    x, end = radial(cylinder, down), sign(dot(down, cylinder.z))
    y = cross(cylinder.z, x)
    stands = stop_gradient(jnp.abs(dot(down, cylinder.z))) > STANDS
    up = cylinder.z * (cylinder.h * end)
    across = [x, y, jnp.where(stands, -x, x), -y]
    ends = [up, up, jnp.where(stands, up, -up), up]
    points = cylinder.c + jnp.stack([e + cylinder.r * a for e, a in zip(ends, across, strict=True)])
    touch = touch_plane(points, jnp.zeros_like(cylinder.r), p_WA, R_WA)
    # lying, the two beside would touch a rolling rim before it comes down there
    beside = jnp.array([False, True, False, True]) & ~stands
    return touch._replace(gap=jnp.where(beside, ABSENT, touch.gap))


def point_cylinder(c: Array, h: Array, r: Array) -> tuple[Array, Array]:
    """Signed distance of points c (..., 3) to a cylinder at rest about the origin, and the way out (..., 3).

    Outside: to the closest point. Inside: to the cap or the side, negative.
    Not smooth inside where both are equally near, nor on the axis, where the way out is x.
    """
    flat = c * jnp.array([1.0, 1.0, 0.0], c.dtype)
    out = unit(flat, jnp.array([1.0, 0.0, 0.0], c.dtype))
    top = jnp.array([0.0, 0.0, 1.0], c.dtype) * sign(c[..., 2])[..., None]
    beyond, above = dot(out, c) - r, jnp.abs(c[..., 2]) - h
    d = jnp.maximum(beyond, 0)[..., None] * out + jnp.maximum(above, 0)[..., None] * top
    inside = stop_gradient((beyond <= 0) & (above <= 0))
    nearer = stop_gradient(beyond >= above)
    way = unit(d, jnp.where(nearer[..., None], out, top))
    return jnp.where(inside, jnp.where(nearer, beyond, above), norm(d)), way


def collide_sphere_cylinder(
    size_a: Array, p_WA: Array, R_WA: Array, size_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """One candidate: the closest point of the cylinder, or its nearest face when the centre is inside."""
    distance, way = point_cylinder(vecmat(p_WA - p_WB, R_WB), size_b[1] / 2, size_b[0])
    gap, n = distance - size_a[0], -matvec(R_WB, way)
    return Touch(gap[None], n[None], (p_WA + n * (size_a[0] + gap / 2))[None])
