"""Gaussian elimination without pivoting, from the last column to the first.

The freedoms of a Delassus factor F are in the order of the tree, root first, and a row touches those between
its bodies and the root. So Fᵀ D F is an arrow, and eliminated from the leaves inwards it stays one: a
compiler that knows which elements are 0 writes out only the others.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from backflip.math import outer

MOST_WRITTEN = 32
"""Columns up to which every elimination is written out"""
MIN_PIVOT = 1e-2
"""Pivots of 1 + a positive matrix are at least 1; only sliding friction that jams can make one vanish"""


def factorise(M: Array) -> Array:
    """M (n, n) = U D⁻¹ L in one matrix: U above the diagonal, L below, both with ones on it, and D on it."""
    n = M.shape[0]
    if n <= MOST_WRITTEN:
        for j in reversed(range(n)):
            M = _eliminate(M, np.arange(n) < j, np.arange(n) == j, M[j], M[:, j], M[j, j])
        return M

    def turn(M: Array, j: Array) -> tuple[Array, None]:
        i = jnp.arange(n)
        return _eliminate(M, i < j, i == j, M[j], M[:, j], M[j, j]), None

    return jax.lax.scan(turn, M, jnp.arange(n - 1, -1, -1))[0]


def _eliminate(M: Array, rest, here, row: Array, column: Array, pivot: Array) -> Array:
    """[P q; r s] = [1 q/s; 0 1] [P − q r/s  0; 0 s] [1 0; r/s 1]."""
    inverse = 1 / jnp.where(jnp.abs(pivot) > MIN_PIVOT, pivot, jnp.where(pivot < 0, -MIN_PIVOT, MIN_PIVOT))
    row = jnp.where(rest, row, 0)
    column = jnp.where(rest, column * inverse, 0)
    M = jnp.where((rest | here)[:, None] & here, (column + here * inverse)[:, None], M - outer(column, row))
    return jnp.where(here[:, None] & rest, row * inverse, M)


def solve_factorised(UDL: Array, b: Array) -> Array:
    """M⁻¹ b (n,) of what was factorised."""
    z = triangular_solve(UDL, b[:, None], left_side=True, lower=False, unit_diagonal=True)
    z = jnp.diagonal(UDL)[:, None] * z
    return triangular_solve(UDL, z, left_side=True, lower=True, unit_diagonal=True)[:, 0]
