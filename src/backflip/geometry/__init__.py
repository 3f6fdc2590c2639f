"""Shapes, everything about them, and where two of them touch.

comes in    descriptions of shapes; their forms (sizes and corners), poses p_WB, R_WB
goes out    volume, centre of mass, inertia, bounds, pictures; Touch: gap, normal, point of fixed candidates
may touch   jax, math; mesh files, where hulls_of_mesh reads one
never knows bodies, mass, velocity, time

Branch-free with static shapes: choices are tournaments of selects, and what is not there is far away.
"""

from backflip.geometry.hulls import Hull
from backflip.geometry.mesh import hulls_of_mesh
from backflip.geometry.outline import MAX_VERTICES, Outline
from backflip.geometry.pairs import KINDS, PAIRS, Pair, kind_order, pair_of
from backflip.geometry.shape import Bulk, Features, Form, Polytope, Shape, form_of, no_features
from backflip.geometry.shapes import Box, Capsule, Cylinder, Plane, Sphere
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
    "Features",
    "Form",
    "Hull",
    "Outline",
    "Pair",
    "Plane",
    "Polytope",
    "Shape",
    "Sphere",
    "Touch",
    "form_of",
    "hulls_of_mesh",
    "kind_order",
    "no_features",
    "pair_of",
]
