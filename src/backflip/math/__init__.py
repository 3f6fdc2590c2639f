"""Small vector algebra, rotations and guarded functions.

comes in    plain arrays, any leading axes
goes out    plain arrays
may touch   jax
never knows bodies, joints, time

Small products are single contractions: they trace and compile fast, and run fused.
"""

from backflip.math.kept import keep, keeping
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
    solve3,
    transpose,
    turned,
    vecmat,
    whiten,
)
from backflip.math.rotation import (
    cayley_stretch,
    orthonormal,
    relative_rotation_vector,
    rotate,
    rotation_about,
)
from backflip.math.smooth import at_most, clamp, norm, root, safe_divide, saturate, smallest, unit

__all__ = [
    "at_most",
    "cayley_stretch",
    "clamp",
    "cross",
    "dot",
    "gram",
    "inverse",
    "inverse3",
    "keep",
    "keeping",
    "matmul",
    "matvec",
    "norm",
    "orthonormal",
    "outer",
    "relative_rotation_vector",
    "root",
    "rotate",
    "rotation_about",
    "safe_divide",
    "saturate",
    "skew",
    "smallest",
    "solve3",
    "transpose",
    "turned",
    "unit",
    "vecmat",
    "whiten",
]
