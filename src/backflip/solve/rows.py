"""Rows: what must hold. Scalar rows first, then contacts, three rows each: normal and two tangents."""

import math
from typing import NamedTuple

from jax import Array


class Rows(NamedTuple):
    """lo <= λ <= hi  ⟂  J V + softness λ = target, and for contacts |λ_t| <= μ λ_n with λ_n >= 0.

    r rows = s scalar rows + 3 k contact rows.
    """

    J: Array
    """(r, n, 6) row velocity per body velocity"""
    target: Array
    """(r,) [m/s] or [rad/s] wanted row velocity"""
    lower: Array
    """(s,) [N s] least impulse of the scalar rows"""
    upper: Array
    """(s,) [N s] greatest impulse of the scalar rows"""
    softness: Array
    """(r,) [1/kg] velocity given up per impulse; 0: rigid"""
    friction: Array
    """(k,) Coulomb's μ of the contacts"""
    bare: Array
    """(r,) [1/kg] what A's diagonal would be if no joint held the bodies"""
    early: Array
    """(r,) [s] how long before mid-step the impulse acts"""
    start: Array
    """(r,) [N s] impulses to start from"""


def soften(frequency: Array, damping_ratio: Array, A_diagonal: Array, dt: float) -> tuple[Array, Array]:
    """Softness γ [1/kg] and error rate [1/s] of a spring of `frequency` [Hz] and `damping_ratio`.

    For the mass m = 1/A a row feels, k = m ω², c = 2 m ζ ω, stepped implicitly (Catto 2011):
        J V + γ λ = −rate C,   γ = 1/(dt (c + dt k)),   rate = k/(c + dt k)
    frequency → ∞: γ → 0 and rate → 1/dt, a rigid row that mends its error in one step.
    """
    omega = 2 * math.pi * frequency
    # both formulas divided by m: γ = A / (dt (2ζω + dt ω²))
    denominator = 2 * damping_ratio * omega + dt * omega * omega
    return A_diagonal / (dt * denominator), omega * omega / denominator
