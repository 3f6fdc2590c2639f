"""Rows: scalar constraints on velocities, in the order of a Layout."""

import math
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.solve.layout import Layout


class Rows(eqx.Module):
    """lower <= λ <= upper  ⟂  J V + softness λ = target; for contacts λ_n >= 0 and ‖λ_t‖ <= μ λ_n.

    r rows = s scalar rows + 3 k contact rows. V are the body velocities after the step.
    """

    target: Array
    """(r,) [m/s] or [rad/s] wanted row velocity"""
    lower: Array
    """(s,) [N s] smallest impulse of the scalar rows"""
    upper: Array
    """(s,) [N s] largest impulse of the scalar rows"""
    softness: Array
    """(r,) [1/kg] velocity given up per impulse; 0: rigid"""
    friction: Array
    """(k,) Coulomb's μ of the contacts"""
    min_diagonal: Array
    """(r,) [1/kg] where the diagonal of A is smaller, it is rounding: no impulse can move the row"""
    initial_impulse: Array
    """(r,) [N s] initial guess, from the last step"""
    layout: Layout = eqx.field(static=True)


class Delassus(NamedTuple):
    """The Delassus matrix A = J M⁻¹ Jᵀ = factor · factorᵀ: row velocities per row impulses."""

    factor: Array
    """(r, f) velocities per impulse, of f freedoms in which the mass matrix is the identity"""

    def diagonal(self) -> Array:
        """(r,) [1/kg] of A: every row's own velocity per impulse."""
        return jnp.sum(jnp.square(self.factor), -1)


class Solution(NamedTuple):
    """What a solver found."""

    impulse: Array
    """(r,) [N s]"""
    soft: tuple[Array, ...] = ()
    """(r,) [N s] impulses if every row were softer by `softness`, and after each step from there to rigid
    rows, but for the last: what redundant rows leave open is that of slightly soft ones. Empty: it is an
    accident of the iterations"""
    softness: float = 0.0
    """in parts of a row's own mobility"""


def soften(frequency: Array, damping_ratio: Array, A_diagonal: Array, dt: float) -> tuple[Array, Array]:
    """Softness γ [1/kg] and error rate [1/s] of a spring of `frequency` [Hz] and `damping_ratio`.

    For the effective mass m = 1/A of a row, k = m ω² and c = 2 m ζ ω (Catto 2011):
        J V + γ λ = −rate C,   γ = 1/(dt d),   rate = k/d,   d² = c² + (dt k)²
    C is the error at mid-step, where a spring that is slow compared with dt needs no implicit damping of its
    own: Catto's d = c + dt k, meant for the error at the start, would add ω dt/2 to ζ; this makes it
    √(ζ² + (ω dt/2)²).
    frequency → ∞: γ → 0 and rate → 1/dt, a rigid row that corrects its error in one step.
    """
    omega = 2 * math.pi * frequency
    # d / (m ω), so that no square of ω leaves float32
    d = jnp.sqrt((2 * damping_ratio) ** 2 + (dt * omega) ** 2)
    return A_diagonal / (dt * omega * d), omega / d
