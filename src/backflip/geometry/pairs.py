"""Which function collides which kinds, and how many candidates it gives."""

from collections.abc import Callable
from dataclasses import dataclass

from jax import Array

from backflip.geometry.box import collide_plane_box, collide_sphere_box
from backflip.geometry.box_box import collide_box_box
from backflip.geometry.capsule_box import collide_capsule_box
from backflip.geometry.round import (
    collide_capsule_capsule,
    collide_plane_capsule,
    collide_plane_sphere,
    collide_sphere_capsule,
    collide_sphere_sphere,
)
from backflip.geometry.touch import Touch

# a pair is always asked in this order: the earlier kind is A
KINDS: tuple[str, ...] = ("plane", "sphere", "capsule", "box")


@dataclass(frozen=True)
class Pair:
    """collide(size_a, p_WA, R_WA, size_b, p_WB, R_WB) of one pair of shapes, with `count` candidates."""

    collide: Callable[[Array, Array, Array, Array, Array, Array], Touch]
    count: int


PAIRS: dict[tuple[str, str], Pair] = {
    ("plane", "sphere"): Pair(collide_plane_sphere, 1),
    ("plane", "capsule"): Pair(collide_plane_capsule, 2),
    ("plane", "box"): Pair(collide_plane_box, 4),
    ("sphere", "sphere"): Pair(collide_sphere_sphere, 1),
    ("sphere", "capsule"): Pair(collide_sphere_capsule, 1),
    ("sphere", "box"): Pair(collide_sphere_box, 1),
    ("capsule", "capsule"): Pair(collide_capsule_capsule, 3),
    ("capsule", "box"): Pair(collide_capsule_box, 3),
    ("box", "box"): Pair(collide_box_box, 4),
}
