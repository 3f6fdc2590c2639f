"""A cylinder against a capsule, a box, a hull and another cylinder.

Every function takes one pair, (form_a, p_WA, R_WA, form_b, p_WB, R_WB), and gives its Touch.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.cylinder import cylinder_of, cylinder_patch
from backflip.geometry.cylinder_cylinder import nearest_of_cylinders
from backflip.geometry.cylinder_polytope import nearest_of_cylinder
from backflip.geometry.outline import BOX, SEGMENT
from backflip.geometry.polygon import Patch
from backflip.geometry.polytope import box_corners, core_ends, facing_patch, placed, touch_four, touch_stretch
from backflip.geometry.rim import Drum
from backflip.geometry.round import SHORT
from backflip.geometry.segment import closest_on_segment, shared_interval
from backflip.geometry.shape import Polytope
from backflip.geometry.touch import Touch, touch_balls
from backflip.math import dot

# sides touch along each other where the normal is within this sine of square to both axes,
BESIDE = 0.05
# and the axes within this cosine of parallel
ALONG = 0.99


def collide_box_cylinder(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates, as a cylinder and a hull have."""
    flipped = collide_cylinder_hull(form_b, p_WB, R_WB, Polytope(box_corners(form_a), BOX), p_WA, R_WA)
    return flipped._replace(normal=-flipped.normal)


def collide_cylinder_hull(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Polytope, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: the nearest point, and others where a cap or a side lies on a face."""
    cylinder = cylinder_of(form_a, jnp.zeros_like(p_WA), R_WA)
    hull = placed(form_b.points, p_WB - p_WA, R_WB)
    near = nearest_of_cylinder(cylinder, hull, form_b.outline)
    region, incident = facing_patch(hull, form_b.outline, -near.n), cylinder_patch(cylinder, near.n)
    return touch_four(near, region, incident, -1, R_WA, p_WA)


def collide_capsule_cylinder(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Three candidates: the nearest point, and the ends of the stretch that lies on a cap or along a side."""
    cylinder = cylinder_of(form_b, p_WB - p_WA, R_WB)
    core = placed(core_ends(form_a), jnp.zeros_like(p_WA), R_WA)
    near = nearest_of_cylinder(cylinder, core, SEGMENT)
    region = cylinder_patch(cylinder, near.n)
    near = near._replace(n=-near.n)
    on_cap = touch_stretch(near, region, core, form_a[0], R_WA, p_WA)
    axis = cylinder_of(form_a, jnp.zeros_like(p_WA), R_WA)
    along = _along_sides(axis, cylinder, near.n)
    return _with_sides(on_cap, along, p_WA)


def collide_cylinder_cylinder(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: the nearest point, and others where caps lie on each other, or one on a side, or where
    two sides run along each other."""
    a, b = cylinder_of(form_a, jnp.zeros_like(p_WA), R_WA), cylinder_of(form_b, p_WB - p_WA, R_WB)
    near = nearest_of_cylinders(a, b)
    patch_a, patch_b = cylinder_patch(a, near.n), cylinder_patch(b, -near.n)
    # a side encloses nothing: the cap is the region, whichever it is of
    swap = stop_gradient(jnp.abs(dot(near.n, a.z)) < jnp.abs(dot(near.n, b.z)))
    region, incident = (
        Patch(*(jnp.where(swap, x, y) for x, y in zip(*pair, strict=True)))
        for pair in ((patch_b, patch_a), (patch_a, patch_b))
    )
    touch = touch_four(near, region, incident, jnp.where(swap, -1, 1), R_WA, p_WA)
    return _with_sides(touch, _along_sides(a, b, near.n), p_WA)


def _along_sides(a: Drum, b: Drum, n: Array) -> tuple[Touch, Array]:
    """Balls at the two ends of the stretch that the axes share, and whether the sides touch along it."""
    lo, hi = shared_interval(a.c, a.z, a.h, b.c, b.z, b.h)
    p = a.c + jnp.stack([lo, hi])[:, None] * a.z
    q = closest_on_segment(p, b.c, b.z, b.h)
    touch = touch_balls(p, a.r, q, b.r, n)
    beside = stop_gradient(jnp.maximum(jnp.abs(dot(n, a.z)), jnp.abs(dot(n, b.z)))) < BESIDE
    return touch, beside & (hi - lo > SHORT * (a.r + b.r)) & (jnp.abs(dot(a.z, b.z)) > ALONG)


def _with_sides(touch: Touch, sides: tuple[Touch, Array], origin: Array) -> Touch:
    """The second and third candidates replaced by those along the sides, if they are there."""
    along, there = sides
    # balls at the ends of an axis stick out of its caps: none is nearer than the nearest point
    along = along._replace(gap=jnp.maximum(along.gap, touch.gap.min()), point=origin + along.point)
    return Touch(*(x.at[1:3].set(jnp.where(there, y, x[1:3])) for x, y in zip(touch, along, strict=True)))
