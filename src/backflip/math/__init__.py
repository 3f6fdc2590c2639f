"""Small vector algebra, rotations and guarded functions.

comes in    plain arrays, any leading axes
goes out    plain arrays
may touch   jax
never knows bodies, joints, time

Small products are single contractions: they trace and compile fast, and run fused.
"""

from backflip.math.linalg import (
    cross,
    dot,
    gram,
    inverse,
    inverse3,
    matmul,
    matvec,
    outer,
    skew,
    transpose,
    turned,
    vecmat,
    whiten,
)
from backflip.math.rotation import orthonormal, relative_rotation_vector, rotate, rotation_about
from backflip.math.smooth import at_most, norm, safe_divide, saturate, smallest, unit

__all__ = [
    "at_most",
    "cross",
    "dot",
    "gram",
    "inverse",
    "inverse3",
    "matmul",
    "matvec",
    "norm",
    "orthonormal",
    "outer",
    "relative_rotation_vector",
    "rotate",
    "rotation_about",
    "safe_divide",
    "saturate",
    "skew",
    "smallest",
    "transpose",
    "turned",
    "unit",
    "vecmat",
    "whiten",
]
