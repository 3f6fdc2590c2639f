"""A cylinder against a capsule, a box, a hull and another cylinder.

Every function takes one pair, (form_a, p_WA, R_WA, form_b, p_WB, R_WB), and the outlines of its hulls.
"""

import jax.numpy as jnp
from jax import Array

from backflip.geometry.cylinder import cylinder_of, cylinder_patch
from backflip.geometry.cylinder_polytope import nearest_of_cylinder
from backflip.geometry.outline import BOX, SEGMENT, Outline
from backflip.geometry.polytope import Near, box_corners, core_ends, facing_patch, placed, touch_four
from backflip.geometry.touch import Touch


def collide_box_cylinder(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Array, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates, as a cylinder and a hull have."""
    flipped = collide_cylinder_hull(form_b, p_WB, R_WB, box_corners(form_a), p_WA, R_WA, BOX)
    return flipped._replace(normal=-flipped.normal)


def collide_cylinder_hull(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Array, p_WB: Array, R_WB: Array, outline_b: Outline
) -> Touch:
    """Four candidates: the nearest point, and others where a cap or a side lies on a face."""
    cylinder = cylinder_of(form_a, jnp.zeros_like(p_WA), R_WA)
    hull = placed(form_b, p_WB - p_WA, R_WB)
    near = nearest_of_cylinder(cylinder, hull, outline_b)
    region, incident = facing_patch(hull, outline_b, -near.n), cylinder_patch(cylinder, near.n)
    return touch_four(near, region, incident, -1, R_WA, p_WA)
