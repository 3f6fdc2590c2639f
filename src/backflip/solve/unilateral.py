"""One-sided rows, contacts and joint limits alike: when within the step they strike, and how they rebound.

A step drifts half a step, kicks, and drifts half a step more. An impulse that really acts `early` before
mid-step has that much more time to move things, so the move adds early · M⁻¹ Jᵀ λ to the positions.
With that, positions and velocities after an impact, and their gradients, are those of the true instant.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import safe_divide

SLOP = 1e-3
"""[m] or [rad] overlap that is left to the strike time to mend and not pushed out"""
PUSH = 0.2
"""part of a deeper overlap that is pushed out in one step"""
PUSH_MAX = 1.0
"""[m/s] fastest push-out, so that a bad start does not explode"""
STILL = 1e-9
"""[m/s] slower than this nothing strikes"""


class Strike(NamedTuple):
    """What a one-sided row wants."""

    target: Array
    """[m/s] least row velocity after the step"""
    early: Array
    """[s] how long before mid-step it strikes, within ± dt/2"""
    near: Array
    """whether last step's impulse is a good start"""


def strike(gap: Array, rate: Array, rate_before: Array, restitution: Array, weak: Array, dt: float) -> Strike:
    """Strike of a row with `gap` [m] at mid-step and gap `rate` [m/s] before any row has acted.

    rate_before is the rate at the start. With ℓ the time left after touching and a the free acceleration:
        gap + (dt/2) rate = gap at the end if nothing struck = rate ℓ − a ℓ²/2
        approach = rate − a ℓ,     rebound = −e · approach + a ℓ
    A rebound that would fall back within the step comes to rest instead, and gap and rate both end at 0.
    Rows that bear a load press all the time and strike at no instant: about `weak` [m/s], what gravity
    adds in a step, `early` fades to 0, and so does the rebound: bounces that short would only be a
    staircase of the grid, each multiplying the gradient by 1/dt.
    Not smooth where a row begins to strike and where a rebound begins to leave.
    """
    h = dt / 2
    a = (rate - rate_before) / dt
    closing = rate < -STILL
    rate_safe = jnp.where(closing, rate, -1)
    hits = closing & (gap + h * rate < 0)
    # to first order ℓ = end gap / rate: what a row at rest needs, where a ℓ²/2 is half of it all
    left = jnp.where(closing, jnp.clip(gap / rate_safe, -h, h), 0) + h
    before = jnp.minimum(rate_before, 0)
    sharp = safe_divide(before * before, before * before + weak * weak, STILL * STILL)
    restitution = restitution * _rise(-before, weak)
    bounces = hits & (a * left - restitution * (rate - a * left) > 0)
    # to second order where it bounces, and a ℓ is small beside the rate
    mean = jnp.where(bounces, rate_safe - a * left / 2, -1)
    left_bounce = jnp.clip((gap + h * rate) / mean, 0, dt)
    rebound = a * left_bounce - restitution * (rate - a * left_bounce)
    # overlap there was before this step: what a strike makes by mid-step is mended by its `early`
    overlap = jnp.maximum(h * rate_before - gap - SLOP, 0)
    push = jnp.minimum(PUSH / dt * overlap, PUSH_MAX)
    at_rest = jnp.where(hits, 0, -jnp.maximum(gap, 0) / h) + push
    return Strike(
        target=jnp.where(bounces, rebound, at_rest),
        early=jnp.where(hits, sharp * (jnp.where(bounces, left_bounce, left) - h), 0),
        near=gap + h * rate_before < SLOP,
    )


def _rise(speed: Array, weak: Array) -> Array:
    """0 up to `weak`, 1 from twice that on, smooth between; 1 everywhere if nothing is weak."""
    x = jnp.clip(safe_divide(speed, weak, 0.0, otherwise=2.0) - 1, 0, 1)
    return x * x * (3 - 2 * x)
