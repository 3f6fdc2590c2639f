"""Which function collides which kinds, and how many candidates it gives."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from backflip.geometry.box import collide_plane_box, collide_sphere_box
from backflip.geometry.box_box import collide_box_box
from backflip.geometry.capsule_box import collide_capsule_box
from backflip.geometry.cylinder import collide_plane_cylinder, collide_sphere_cylinder
from backflip.geometry.cylinder_pairs import (
    collide_box_cylinder,
    collide_capsule_cylinder,
    collide_cylinder_cylinder,
    collide_cylinder_hull,
)
from backflip.geometry.hull import (
    collide_box_hull,
    collide_capsule_hull,
    collide_hull_hull,
    collide_plane_hull,
    collide_sphere_hull,
)
from backflip.geometry.outline import Outline
from backflip.geometry.round import (
    collide_capsule_capsule,
    collide_plane_capsule,
    collide_plane_sphere,
    collide_sphere_capsule,
    collide_sphere_sphere,
)
from backflip.geometry.touch import Touch

# a pair is always asked in this order: the earlier kind is A
KINDS: tuple[str, ...] = ("plane", "sphere", "capsule", "box", "cylinder", "hull")


@dataclass(frozen=True)
class Pair:
    """collide(form_a, p_WA, R_WA, form_b, p_WB, R_WB) of one pair of shapes, with `count` candidates.

    The form of a hull is its corners (v, 3), that of other shapes their size (3,); pairs with hulls want
    their outlines too.
    """

    collide: Callable[..., Touch]
    count: int

    def between(self, outline_a: Outline | None, outline_b: Outline | None) -> Callable[..., Touch]:
        """`collide` of shapes with these outlines; of what is no hull, None."""
        given = {"outline_a": outline_a, "outline_b": outline_b}
        return partial(self.collide, **{name: o for name, o in given.items() if o is not None})


PAIRS: dict[tuple[str, str], Pair] = {
    ("plane", "sphere"): Pair(collide_plane_sphere, 1),
    ("plane", "capsule"): Pair(collide_plane_capsule, 2),
    ("plane", "box"): Pair(collide_plane_box, 4),
    ("plane", "cylinder"): Pair(collide_plane_cylinder, 4),
    ("plane", "hull"): Pair(collide_plane_hull, 4),
    ("sphere", "sphere"): Pair(collide_sphere_sphere, 1),
    ("sphere", "capsule"): Pair(collide_sphere_capsule, 1),
    ("sphere", "box"): Pair(collide_sphere_box, 1),
    ("sphere", "cylinder"): Pair(collide_sphere_cylinder, 1),
    ("sphere", "hull"): Pair(collide_sphere_hull, 1),
    ("capsule", "capsule"): Pair(collide_capsule_capsule, 3),
    ("capsule", "box"): Pair(collide_capsule_box, 3),
    ("capsule", "cylinder"): Pair(collide_capsule_cylinder, 3),
    ("capsule", "hull"): Pair(collide_capsule_hull, 3),
    ("box", "box"): Pair(collide_box_box, 4),
    ("box", "cylinder"): Pair(collide_box_cylinder, 4),
    ("box", "hull"): Pair(collide_box_hull, 4),
    ("cylinder", "cylinder"): Pair(collide_cylinder_cylinder, 4),
    ("cylinder", "hull"): Pair(collide_cylinder_hull, 4),
    ("hull", "hull"): Pair(collide_hull_hull, 4),
}
