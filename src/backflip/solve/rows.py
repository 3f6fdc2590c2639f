"""Rows: what must hold. Scalar rows first, then contacts, three rows each: normal and two tangents.

Contacts of one pair of shapes form a patch.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
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
    friction: tuple[Array, ...]
    """Coulomb's μ of the contacts, an array (m, c) for every m patches of c contacts"""
    least: Array
    """(r,) [1/kg] a smaller A on the diagonal means that the row moves nothing that is free to move"""
    early: Array
    """(r,) [s] how long before mid-step the impulse acts"""
    start: Array
    """(r,) [N s] impulses to start from"""


class Mobility(NamedTuple):
    """How impulses move rows: A = J M⁻¹ Jᵀ = share · shareᵀ."""

    share: Array
    """(r, f) how a unit of each impulse moves f freedoms that do not feel each other"""

    def diagonal(self) -> Array:
        """(r,) [1/kg] how every row moves itself."""
        return jnp.sum(jnp.square(self.share), -1)


def soften(frequency: Array, damping_ratio: Array, A_diagonal: Array, dt: float) -> tuple[Array, Array]:
    """Softness γ [1/kg] and error rate [1/s] of a spring of `frequency` [Hz] and `damping_ratio`.

    For the mass m = 1/A a row feels, k = m ω² and c = 2 m ζ ω (Catto 2011):
        J V + γ λ = −rate C,   γ = 1/(dt d),   rate = k/d,   d² = c² + (dt k)²
    C is the error at mid-step, where a spring that is slow beside dt needs no implicit damping of its own:
    Catto's d = c + dt k, meant for the error at the start, would add ω dt/2 to ζ; this makes it
    √(ζ² + (ω dt/2)²).
    frequency → ∞: γ → 0 and rate → 1/dt, a rigid row that mends its error in one step.
    """
    omega = 2 * math.pi * frequency
    # all divided by m
    denominator = jnp.sqrt((2 * damping_ratio * omega) ** 2 + (dt * omega * omega) ** 2)
    return A_diagonal / (dt * denominator), omega * omega / denominator
