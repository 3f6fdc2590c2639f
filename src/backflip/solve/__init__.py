"""Constraint solvers: the impulses with which every row of a step holds.

comes in    rows, a factor of their Delassus matrix A = J M⁻¹ Jᵀ, their velocity before, an initial guess
goes out    impulses
may touch   math
never knows bodies, joints, shapes
"""

from backflip.solve.cone import Cone
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient, Implicit, Unrolled
from backflip.solve.interior import InteriorPoint
from backflip.solve.layout import Layout
from backflip.solve.newton import Newton
from backflip.solve.pgs import PGS
from backflip.solve.pyramid import Pyramid
from backflip.solve.rows import Delassus, Rows, Solution, soften
from backflip.solve.solver import Solver

__all__ = [
    "PGS",
    "Cone",
    "Delassus",
    "Friction",
    "Gradient",
    "Implicit",
    "InteriorPoint",
    "Layout",
    "Newton",
    "Pyramid",
    "Rows",
    "Solution",
    "Solver",
    "Unrolled",
    "soften",
]
