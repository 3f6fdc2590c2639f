"""Volume, centre of mass and inertia of a hull, as functions of its corners."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry.outline import Outline
from backflip.math import cross, dot, matmul, outer, transpose


def hull_bulk(outline: Outline, vertices: Array) -> tuple[Array, Array, Array]:
    """Volume [m³], centre of mass (3,) [m] and inertia per mass about it (3, 3) [m²] of a hull (v, 3).

    The sum over tetrahedra from a point within to every triangle of the surface.
    """
    # tetrahedron 0, a, b, c with D = a · b × c, S = a + b + c:
    #   V = D/6,  ∫x = D/24 S,  ∫x xᵀ = D/120 (S Sᵀ + a aᵀ + b bᵀ + c cᵀ)
    middle = vertices.mean(0)
    corners = (vertices - middle)[outline.triangles.reshape(-1)].reshape(*np.shape(outline.triangles), 3)
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    D, whole = dot(a, cross(b, c)), a + b + c
    volume = D.sum() / 6
    centre = (D[:, None] * whole).sum(0) / 24 / volume
    rows = jnp.concatenate([whole, a, b, c])
    second = matmul(transpose(rows * jnp.tile(D, 4)[:, None]), rows) / 120 / volume - outer(centre, centre)
    inertia = jnp.trace(second) * jnp.eye(3, dtype=second.dtype) - second
    return volume, middle + centre, inertia
