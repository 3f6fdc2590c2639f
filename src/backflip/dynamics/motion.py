"""Bodies in free flight: twists, momenta, and drifting with the angular momentum carried over."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import (
    cayley_stretch,
    cross,
    matmul,
    matvec,
    rotate,
    rotation_about,
    skew,
    solve3,
    turned,
    vecmat,
)
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


def drift(bodies: Bodies, start: Motion, L: Array, time: float, planar: bool) -> Drift:
    """Fly freely for `time` [s] with angular momenta L (n, 3) in W, which stay exactly what they were.

    Second order, and symmetric: a flight back by −time ends where this one began. The spin of a flight is the
    one that belongs to the mean momentum as the body sees it: exact where a body spins steadily.
    In a planar scene the plane takes what would tilt a body out of it, and the spin about y stays.
    """
    p = start.p + time * start.v
    if planar:
        R = rotate(time * start.w, start.R)
        return Drift(start._replace(p=p, R=R), angular_momenta(bodies, R, start.w), jnp.zeros_like(L))
    turn = rotation_about(
        time * matvec(bodies.inverse_inertia, _mean_momentum(bodies, vecmat(L, start.R), time))
    )
    R = matmul(start.R, turn)
    L_B = vecmat(L, R)
    w_B = matvec(bodies.inverse_inertia, L_B)
    return Drift(Motion(p, R, start.v, matvec(R, w_B)), L, matvec(R, _precession(bodies, w_B, L_B)))


def _mean_momentum(bodies: Bodies, L_B: Array, time: float) -> Array:
    """The mean m (n, 3) of the momenta at both ends of a flight, in B: m + a/2 × m = L_B at the beginning.

    a = time · I⁻¹ m, stretched, is Cayley's vector of the turn (`rotation_about`). By Newton's method.
    """
    inverse = bodies.inverse_inertia
    m = L_B - time / 2 * cross(matvec(inverse, L_B), L_B)
    for _ in range(DRIFT_ITERATIONS[m.dtype.itemsize]):
        turn = time * matvec(inverse, m)
        half = cayley_stretch(turn) / 2
        error = m + half[..., None] * cross(turn, m) - L_B
        slope = half[..., None, None] * (skew(turn) - time * matmul(skew(m), inverse))
        m = m - solve3(jnp.eye(3, dtype=m.dtype) + slope, error)
    return m


DRIFT_ITERATIONS = {4: 1, 8: 2}
"""Newton steps, by the bytes of a number; at a tenth of a radian two leave 1e-13 of the momentum"""


def _precession(bodies: Bodies, w_B: Array, L_B: Array) -> Array:
    """Angular acceleration of bodies left alone: Euler's −I⁻¹ (w × L) [rad/s²], in B."""
    return -matvec(bodies.inverse_inertia, cross(w_B, L_B))
