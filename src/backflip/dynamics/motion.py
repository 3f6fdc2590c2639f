"""Bodies in free flight: twists, momenta, and drifting with the angular momentum carried over."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import cross, matmul, matvec, rotate, rotation_about, turned, vecmat
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
    return turned(R, bodies.inertia)


def angular_momenta(bodies: Bodies, R: Array, w: Array) -> Array:
    """L = R I Rᵀ w about the centres of mass (n, 3) [kg m²/s], in W."""
    return matvec(R, matvec(bodies.inertia, vecmat(w, R)))


class Drift(NamedTuple):
    """Where free flight leads."""

    end: Motion
    L: Array
    """(n, 3) [kg m²/s] angular momenta about the centres of mass, in W"""
    precession: Array
    """(n, 3) [rad/s²] angular acceleration at the end, in W"""


def drift(bodies: Bodies, start: Motion, time: float, planar: bool) -> Drift:
    """Fly freely for `time` [s], second order in rotation; momenta stay exactly what they were.

    In a planar scene the plane takes what would tilt a body out of it, and the spin about y stays.
    """
    p = start.p + time * start.v
    if planar:
        R = rotate(time * start.w, start.R)
        L = angular_momenta(bodies, R, start.w)
        return Drift(start._replace(p=p, R=R), L, jnp.zeros_like(L))
    w_B = vecmat(start.w, start.R)
    L_B = matvec(bodies.inertia, w_B)
    turn = rotation_about(time * (w_B + time / 2 * _precession(bodies, w_B, L_B)))
    R = matmul(start.R, turn)
    # the body has turned under its momentum
    L_B = vecmat(L_B, turn)
    w_B = matvec(bodies.inverse_inertia, L_B)
    end = Motion(p, R, start.v, matvec(R, w_B))
    return Drift(end, matvec(R, L_B), matvec(R, _precession(bodies, w_B, L_B)))


def _precession(bodies: Bodies, w_B: Array, L_B: Array) -> Array:
    """Angular acceleration of bodies left alone: Euler's −I⁻¹ (w × L) [rad/s²], in B."""
    return -matvec(bodies.inverse_inertia, cross(w_B, L_B))
