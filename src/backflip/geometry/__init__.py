"""Shapes, their volume and inertia, and where two of them touch.

comes in    shape kinds (static) and sizes, poses p_WB, R_WB
goes out    volume, unit inertia, Touch: gap, normal, point of a fixed number of candidates
may touch   jax, math
never knows bodies, mass, velocity, time

Branch-free with static shapes: choices are tournaments of selects, and what is not there is far away.
"""

from backflip.geometry.pairs import KINDS, PAIRS, Pair
from backflip.geometry.shapes import Box, Capsule, Plane, Shape, Sphere, unit_inertia, volume
from backflip.geometry.touch import ABSENT, Touch

__all__ = [
    "ABSENT",
    "KINDS",
    "PAIRS",
    "Box",
    "Capsule",
    "Pair",
    "Plane",
    "Shape",
    "Sphere",
    "Touch",
    "unit_inertia",
    "volume",
]
