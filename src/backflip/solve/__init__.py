"""What must hold, and the impulses that make it hold.

comes in    rows, the matrix A = J M⁻¹ Jᵀ they see, the velocity they have, impulses to start from
goes out    impulses
may touch   math
never knows bodies, joints, shapes
"""

from backflip.solve.friction import Cone, Friction, Pyramid
from backflip.solve.pgs import PGS, Solver
from backflip.solve.rows import Rows, soften
from backflip.solve.unilateral import Strike, strike

__all__ = ["PGS", "Cone", "Friction", "Pyramid", "Rows", "Solver", "Strike", "soften", "strike"]
