"""Bodies in free flight: twists, momenta, and drifting with the angular momentum carried over."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import cross, matmul, matvec, rotate, transpose, vecmat
from backflip.model import Bodies


class Motion(NamedTuple):
    """Poses and velocities of all bodies, at their centres of mass, in W."""

    p: Array
    """(n, 3) [m]"""
    R: Array
    """(n, 3, 3)"""
    v: Array
    """(n, 3) [m/s]"""
    w: Array
    """(n, 3) [rad/s]"""

    @property
    def twist(self) -> Array:
        """(n, 6) [m/s, rad/s]"""
        return jnp.concatenate([self.v, self.w], -1)


def inertias(bodies: Bodies, R: Array) -> Array:
    """R I Rᵀ (n, 3, 3) [kg m²] about the centres of mass, in W."""
    return matmul(matmul(R, bodies.inertia), transpose(R))


def angular_momenta(bodies: Bodies, R: Array, w: Array) -> Array:
    """L = R I Rᵀ w about the centres of mass (n, 3) [kg m²/s], in W."""
    return matvec(R, matvec(bodies.inertia, vecmat(w, R)))


def spins(bodies: Bodies, R: Array, L: Array) -> Array:
    """w = R I⁻¹ Rᵀ L (n, 3) [rad/s], in W."""
    return matvec(R, matvec(bodies.inverse_inertia, vecmat(L, R)))


def precession(bodies: Bodies, R: Array, w: Array, L: Array) -> Array:
    """Angular acceleration of bodies left alone: Euler's −I⁻¹ (w × L) [rad/s²]."""
    return -spins(bodies, R, cross(w, L))


def drift(bodies: Bodies, here: Motion, time: float, planar: bool) -> Motion:
    """Fly freely for `time` [s], second order in rotation; momenta stay exactly what they were.

    In a planar scene the plane takes what would tilt a body out of it, and the spin about y stays.
    """
    if planar:
        return Motion(here.p + time * here.v, rotate(time * here.w, here.R), here.v, here.w)
    L = angular_momenta(bodies, here.R, here.w)
    turn = time * (here.w + time / 2 * precession(bodies, here.R, here.w, L))
    R = rotate(turn, here.R)
    # carry L over when R moves
    return Motion(here.p + time * here.v, R, here.v, spins(bodies, R, L))
