"""A hull against a plane, a sphere, a capsule, a box and another hull.

Every function takes one pair, (form_a, p_WA, R_WA, form_b, p_WB, R_WB), and gives its Touch; the form
of a hull is a Polytope, its corners in its own frame, that of other shapes their size (3,).
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from backflip.geometry.choose import pick
from backflip.geometry.outline import BOX, POINT, SEGMENT
from backflip.geometry.polygon import four_points
from backflip.geometry.polytope import (
    box_corners,
    core_ends,
    facing_patch,
    nearest,
    placed,
    touch_four,
    touch_one,
    touch_stretch,
)
from backflip.geometry.shape import Polytope
from backflip.geometry.touch import Touch
from backflip.math import norm, vecmat


def collide_plane_hull(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Polytope, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: corners of the face that most faces the plane, the deepest corner among them.

    Not smooth where another face comes to face it more, or another corner is the deepest.
    """
    corners = placed(form_b.points, p_WB - p_WA, R_WB)
    patch = facing_patch(corners, form_b.outline, -R_WA[:, 2])
    # in the plane's frame: x, y, gap, and the middle half of that
    rows = vecmat(jnp.concatenate([patch.corners, corners]), R_WA)
    rows = jnp.concatenate([rows, rows[:, 2:] / 2], -1)
    lowest = rows[len(patch.corners) :]
    _, first = pick(-stop_gradient(lowest[:, 2]), lowest)
    patch_rows = rows[: len(patch.corners)]
    size = norm(patch.corners.max(0) - patch.corners.min(0))
    touch = four_points(first, patch_rows, jnp.ones(len(patch_rows), bool), R_WA.T, size)
    return touch._replace(point=p_WA + touch.point)


def collide_sphere_hull(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Polytope, p_WB: Array, R_WB: Array
) -> Touch:
    """One candidate: the closest point of the hull, or its nearest face when the centre is inside."""
    near = nearest(
        jnp.zeros_like(p_WA)[None], POINT, placed(form_b.points, p_WB - p_WA, R_WB), form_b.outline
    )
    return touch_one(near, form_a[0], p_WA)


def collide_capsule_hull(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Polytope, p_WB: Array, R_WB: Array
) -> Touch:
    """Three candidates: the nearest point, and the two ends of what lies over the face there."""
    core = placed(core_ends(form_a), jnp.zeros_like(p_WA), R_WA)
    hull = placed(form_b.points, p_WB - p_WA, R_WB)
    near = nearest(core, SEGMENT, hull, form_b.outline)
    return touch_stretch(near, facing_patch(hull, form_b.outline, -near.n), core, form_a[0], R_WA, p_WA)


def collide_box_hull(
    form_a: Array, p_WA: Array, R_WA: Array, form_b: Polytope, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates, as two hulls have."""
    return collide_hull_hull(Polytope(box_corners(form_a), BOX), p_WA, R_WA, form_b, p_WB, R_WB)


def collide_hull_hull(
    form_a: Polytope, p_WA: Array, R_WA: Array, form_b: Polytope, p_WB: Array, R_WB: Array
) -> Touch:
    """Four candidates: the nearest point, and corners of the overlap of two faces that lie on each other.

    Not smooth where another pair of faces, edges or corners is nearest.
    """
    a = placed(form_a.points, jnp.zeros_like(p_WA), R_WA)
    b = placed(form_b.points, p_WB - p_WA, R_WB)
    near = nearest(a, form_a.outline, b, form_b.outline)
    region, incident = facing_patch(b, form_b.outline, -near.n), facing_patch(a, form_a.outline, near.n)
    return touch_four(near, region, incident, -1, R_WA, p_WA)
