"""Rotation matrices: turning, repairing and comparing them, without trigonometry where it can be had."""

import math

import jax.numpy as jnp
from jax import Array

from backflip.math.linalg import cross, dot, matmul, outer, skew


def rotation_about(turn: Array) -> Array:
    """The rotation by |turn| [rad] about the direction of `turn` (..., 3).

    Cayley's map of a vector stretched so that its angle is right: tan(θ/2)/(θ/2) = 1 + θ²/12 + θ⁴/120 + …
    Exactly orthogonal; the angle is right to 9e-4 θ⁷. Beyond half a turn it is some rotation, and finite.
    """
    a = turn * cayley_stretch(turn)[..., None]
    # cay(a) = I + (â + â²/2) / (1 + |a|²/4),  â² = a aᵀ − |a|² I
    a2 = dot(a, a)[..., None, None]
    eye = jnp.eye(3, dtype=turn.dtype)
    return eye + (skew(a) + (outer(a, a) - a2 * eye) / 2) * (1 / (1 + a2 / 4))


def cayley_stretch(turn: Array) -> Array:
    """Length of Cayley's vector of `turn` (..., 3) [rad], as a multiple of its own."""
    theta2 = jnp.minimum(dot(turn, turn), math.pi**2)
    return 1 + theta2 * (1 / 12 + theta2 * (1 / 120))


def rotate(turn: Array, R: Array) -> Array:
    """R turned by the world-frame rotation vector `turn` [rad]; as orthogonal as R."""
    return matmul(rotation_about(turn), R)


def orthonormal(R: Array) -> Array:
    """A rotation near R, which is nearly one: the error squares. The third column is made of the others."""
    x, y = R[..., :, 0], R[..., :, 1]
    x = _nearly_unit(x)
    y = _nearly_unit(y - x * dot(x, y)[..., None])
    return jnp.stack([x, y, cross(x, y)], -1)


def _nearly_unit(x: Array) -> Array:
    """x / |x| by one Newton step from 1."""
    return x * (1.5 - 0.5 * dot(x, x))[..., None]


def relative_rotation_vector(R_WA: Array, R_WB: Array) -> Array:
    """Small turn [rad], in W, that takes frame A to frame B: sin θ · axis, free of branches.

    ½ Σ aᵢ × bᵢ over the columns. It vanishes at θ = π too: meant for frames that nearly agree.
    """
    total = cross(R_WA[..., :, 0], R_WB[..., :, 0])
    for k in (1, 2):
        total = total + cross(R_WA[..., :, k], R_WB[..., :, k])
    return total / 2
