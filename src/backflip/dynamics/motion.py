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


class Flight(NamedTuple):
    """Where bodies left alone get to."""

    end: Motion
    L: Array
    """(n, 3) [kg m²/s] angular momenta about the centres of mass, in W"""
    precession: Array
    """(n, 3) [rad/s²] angular acceleration at the end, in W"""


def fly(bodies: Bodies, start: Motion, time: float, planar: bool) -> Flight:
    """Free flight for `time` [s], second order in rotation; momenta stay exactly what they were.

    In a planar scene the plane takes what would tilt a body out of it, and the spin about y stays.
    """
    p = start.p + time * start.v
    if planar:
        R = rotate(time * start.w, start.R)
        L = angular_momenta(bodies, R, start.w)
        return Flight(start._replace(p=p, R=R), L, jnp.zeros_like(L))
    # spin and momentum as the body sees them
    w = vecmat(start.w, start.R)
    L = matvec(bodies.inertia, w)
    turn = rotation_about(time * (w + time / 2 * _precession(bodies, w, L)))
    R = matmul(start.R, turn)
    # the body has turned under its momentum
    L = vecmat(L, turn)
    w = matvec(bodies.inverse_inertia, L)
    return Flight(Motion(p, R, start.v, matvec(R, w)), matvec(R, L), matvec(R, _precession(bodies, w, L)))


def _precession(bodies: Bodies, w: Array, L: Array) -> Array:
    """Angular acceleration of bodies left alone: Euler's −I⁻¹ (w × L) [rad/s²], all in B."""
    return -matvec(bodies.inverse_inertia, cross(w, L))
