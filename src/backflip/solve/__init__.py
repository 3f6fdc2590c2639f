"""What must hold, and the impulses that make it hold.

comes in    rows, how impulses move them, A = J M⁻¹ Jᵀ, the velocity they have, impulses to start from
goes out    impulses
may touch   math
never knows bodies, joints, shapes
"""

from backflip.solve.cone import Cone
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient, Implicit, Unrolled
from backflip.solve.interior import InteriorPoint
from backflip.solve.layout import Layout
from backflip.solve.pgs import PGS
from backflip.solve.pyramid import Pyramid
from backflip.solve.rows import Mobility, Rows, soften
from backflip.solve.solver import Solver
from backflip.solve.unilateral import Strike, strike

__all__ = [
    "PGS",
    "Cone",
    "Friction",
    "Gradient",
    "Implicit",
    "InteriorPoint",
    "Layout",
    "Mobility",
    "Pyramid",
    "Rows",
    "Solver",
    "Strike",
    "Unrolled",
    "soften",
    "strike",
]
