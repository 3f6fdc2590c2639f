"""Shapes, their volume and inertia, and where two of them touch.

comes in    shape kinds and outlines (static), sizes and corners, poses p_WB, R_WB
goes out    volume, centre of mass, inertia, Touch: gap, normal, point of a fixed number of candidates
may touch   jax, math; mesh files, where hulls_of_mesh reads one
never knows bodies, mass, velocity, time

Branch-free with static shapes: choices are tournaments of selects, and what is not there is far away.
"""

from backflip.geometry.mesh import hulls_of_mesh
from backflip.geometry.outline import MAX_VERTICES, Outline
from backflip.geometry.pairs import KINDS, PAIRS, Pair
from backflip.geometry.shapes import (
    Box,
    Bulk,
    Capsule,
    Cylinder,
    Hull,
    Plane,
    Shape,
    Sphere,
    bulk,
    unit_inertia,
    volume,
)
from backflip.geometry.touch import ABSENT, Touch

__all__ = [
    "ABSENT",
    "KINDS",
    "MAX_VERTICES",
    "PAIRS",
    "Box",
    "Bulk",
    "Capsule",
    "Cylinder",
    "Hull",
    "Outline",
    "Pair",
    "Plane",
    "Shape",
    "Sphere",
    "Touch",
    "bulk",
    "hulls_of_mesh",
    "unit_inertia",
    "volume",
]
