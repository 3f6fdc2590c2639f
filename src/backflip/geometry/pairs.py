"""Which function collides which kinds, and how many candidates it gives."""

from collections.abc import Callable
from dataclasses import dataclass

from backflip.geometry.box import collide_plane_box, collide_sphere_box
from backflip.geometry.box_box import collide_box_box
from backflip.geometry.capsule_box import collide_capsule_box
from backflip.geometry.convex import collide_convex, collide_plane_convex
from backflip.geometry.cylinder import collide_plane_cylinder, collide_sphere_cylinder
from backflip.geometry.cylinder_pairs import (
    collide_box_cylinder,
    collide_capsule_cylinder,
    collide_cylinder_cylinder,
    collide_cylinder_hull,
)
from backflip.geometry.hull_pairs import (
    collide_box_hull,
    collide_capsule_hull,
    collide_hull_hull,
    collide_plane_hull,
    collide_sphere_hull,
)
from backflip.geometry.hulls import Hull
from backflip.geometry.round import (
    collide_capsule_capsule,
    collide_plane_capsule,
    collide_plane_sphere,
    collide_sphere_capsule,
    collide_sphere_sphere,
)
from backflip.geometry.shape import Shape
from backflip.geometry.shapes import Box, Capsule, Cylinder, Plane, Sphere
from backflip.geometry.touch import Touch

Kinds = tuple[type[Shape], type[Shape]]

KINDS: tuple[type[Shape], ...] = (Plane, Sphere, Capsule, Box, Cylinder, Hull)
"""A pair is always asked in this order, the earlier kind is A; see `kind_order` for kinds from elsewhere."""


@dataclass(frozen=True)
class Pair:
    """collide(form_a, p_WA, R_WA, form_b, p_WB, R_WB) of one pair of shapes, with `count` candidates."""

    collide: Callable[..., Touch]
    count: int


PAIRS: dict[Kinds, Pair] = {
    (Plane, Sphere): Pair(collide_plane_sphere, 1),
    (Plane, Capsule): Pair(collide_plane_capsule, 2),
    (Plane, Box): Pair(collide_plane_box, 4),
    (Plane, Cylinder): Pair(collide_plane_cylinder, 4),
    (Plane, Hull): Pair(collide_plane_hull, 4),
    (Sphere, Sphere): Pair(collide_sphere_sphere, 1),
    (Sphere, Capsule): Pair(collide_sphere_capsule, 1),
    (Sphere, Box): Pair(collide_sphere_box, 1),
    (Sphere, Cylinder): Pair(collide_sphere_cylinder, 1),
    (Sphere, Hull): Pair(collide_sphere_hull, 1),
    (Capsule, Capsule): Pair(collide_capsule_capsule, 3),
    (Capsule, Box): Pair(collide_capsule_box, 3),
    (Capsule, Cylinder): Pair(collide_capsule_cylinder, 3),
    (Capsule, Hull): Pair(collide_capsule_hull, 3),
    (Box, Box): Pair(collide_box_box, 4),
    (Box, Cylinder): Pair(collide_box_cylinder, 4),
    (Box, Hull): Pair(collide_box_hull, 4),
    (Cylinder, Cylinder): Pair(collide_cylinder_cylinder, 4),
    (Cylinder, Hull): Pair(collide_cylinder_hull, 4),
    (Hull, Hull): Pair(collide_hull_hull, 4),
}
"""The pairs that are better than the general one; it takes over for all others."""


def kind_order(kind: type[Shape]) -> tuple[bool, int, str]:
    """Where a kind stands in a pair: endless ones first, then as in KINDS, then by name."""
    place = KINDS.index(kind) if kind in KINDS else len(KINDS)
    return not kind.endless, place, f"{kind.__module__}.{kind.__qualname__}"


def pair_of(a: type[Shape], b: type[Shape]) -> Pair:
    """How two kinds collide, in the order of `kind_order`."""
    if (a, b) in PAIRS:
        return PAIRS[a, b]
    if b.endless:
        both = f"a {a.kind()} and a {b.kind()}"
        if a.endless:
            raise ValueError(f"{both}: two endless shapes never touch; leave one out")
        raise ValueError(f"{both}: a pair is in the order of kind_order; give the {b.kind()} first")
    if a.endless:
        # all half-spaces are alike
        return PAIRS.get((Plane, b), Pair(collide_plane_convex(b), 1))
    return Pair(collide_convex(a, b), 1)
