"""Unilateral rows, contacts and joint limits: time of impact within a step, and restitution.

A step drifts half a step, applies impulses, and drifts half a step more. An impulse that acts at an impact
`lead_time` before mid-step has that much more time to move things: lead_time · M⁻¹ Jᵀ λ is added to the
positions. With that, positions and velocities after an impact, and their gradients, are those of the true
time of impact.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import clamp, safe_divide

SLOP = 1e-3
"""[m] or [rad] penetration that is left to the lead time and not corrected by velocity"""
BAUMGARTE = 0.2
"""part of a deeper penetration that is corrected in one step"""
MAX_CORRECTION_SPEED = 1.0
"""[m/s] of that correction, so that a deeply penetrating initial state does not explode"""
MIN_APPROACH_SPEED = 1e-9
"""[m/s] slower approaches are no impact"""


class Impact(NamedTuple):
    """Target velocity and time of impact of a unilateral row."""

    target: Array
    """[m/s] smallest row velocity after the step"""
    lead_time: Array
    """[s] mid-step less time of impact, within ± dt/2; 0 without an impact"""
    warm: Array
    """whether last step's impulse is a good initial guess: the row was closed"""


def impact(
    gap: Array, rate: Array, rate_before: Array, restitution: Array, threshold: Array, dt: float
) -> Impact:
    """Impact of a row with `gap` [m] at mid-step and gap `rate` [m/s] before any row has acted.

    rate_before is the rate at the start. With ℓ the time left after the impact and a the free acceleration:
        gap + (dt/2) rate = gap at the end without an impact = rate ℓ − a ℓ²/2
        approach velocity = rate − a ℓ,     target = −restitution · approach velocity + a ℓ
    A rebound that would fall back within the step comes to rest instead, and gap and rate both end at 0.
    A resting row presses all the time and has no time of impact: where the approach speed is about
    `threshold` [m/s], what gravity adds in a step, lead_time fades to 0, and so does restitution. Shorter
    bounces would depend on the time grid, each multiplying the gradient by 1/dt.
    Not smooth where an impact begins to be in the step and where a rebound begins to leave.
    """
    h = dt / 2
    a = (rate - rate_before) / dt
    closing = rate < -MIN_APPROACH_SPEED
    rate_safe = jnp.where(closing, rate, -1)
    hits = closing & (gap + h * rate < 0)
    # to first order ℓ = end gap / rate: right for a row at rest, where a ℓ²/2 is half of the end gap
    time_left = jnp.where(closing, clamp(gap / rate_safe, -h, h), 0) + h
    approach = jnp.minimum(rate_before, 0)
    restitution = restitution * _fade_in(-approach, threshold)
    bounces = hits & (a * time_left - restitution * (rate - a * time_left) > 0)
    # to second order where it bounces, and a ℓ is small compared with the rate
    mean_rate = jnp.where(bounces, rate_safe - a * time_left / 2, -1)
    time_left_bounce = clamp((gap + h * rate) / mean_rate, 0, dt)
    rebound = a * time_left_bounce - restitution * (rate - a * time_left_bounce)
    # penetration at the start of the step: what an impact adds by mid-step is undone by its lead time
    penetration = jnp.maximum(h * rate_before - gap - SLOP, 0)
    correction = jnp.minimum(BAUMGARTE / dt * penetration, MAX_CORRECTION_SPEED)
    resting = jnp.where(hits, 0, -jnp.maximum(gap, 0) / h) + correction
    return Impact(
        target=jnp.where(bounces, rebound, resting),
        lead_time=jnp.where(
            hits,
            impact_part(rate_before, threshold) * (jnp.where(bounces, time_left_bounce, time_left) - h),
            0,
        ),
        warm=gap + h * rate_before < SLOP,
    )


CASCADE_ROUNDS = 4
"""Impacts one after the other within a step that are followed along a chain of bodies"""


class Cascade(NamedTuple):
    """What impacts that follow from others in the same step ask for, by row."""

    target: Array
    """[m/s]"""
    lead_time: Array
    """[s] mean over the row's impacts"""
    impulse: Array
    """[N s] of all its impacts"""


def cascade(
    gap: Array, rate: Array, restitution: Array, first: Impact, A: Array, threshold: Array, dt: float
) -> Cascade:
    """Impacts (k,) that come one after the other, each given its approach by those before it.

    Gaps and rates at mid-step are linear in the impulses: A (k, k) changes rates, and gaps by its lead time.
    In every round each row hits that no row coupled to it precedes. Rows that hit in the first round keep the
    target and lead time that `impact` gave them, changed by what the later rounds change.
    """
    h = dt / 2
    coupled = jnp.abs(A) > 0
    diagonal = jnp.diagonal(A)
    movable = diagonal > 0
    impulse, moment, late = (jnp.zeros_like(gap) for _ in range(3))
    rate_first = rate
    for i in range(CASCADE_ROUNDS):
        hits = movable & (rate < -MIN_APPROACH_SPEED) & (gap + h * rate < 0)
        lead_time = jnp.where(hits, clamp(gap / jnp.where(hits, rate, -1), -h, h), -dt)
        earliest = hits & (lead_time >= jnp.max(jnp.where(coupled, lead_time, -dt), -1))
        # what gravity adds in a step is no impact
        approach = rate + threshold
        bounce = 1 + restitution * _fade_in(-approach, threshold)
        given = jnp.where(earliest, -bounce * rate / jnp.where(movable, diagonal, 1), 0)
        lead_time = jnp.where(earliest, lead_time * impact_part(approach, threshold), 0)
        impulse, moment = impulse + given, moment + lead_time * given
        late = late if i == 0 else late + given
        rate, gap = rate + A @ given, gap + A @ (lead_time * given)
        rate_first = rate if i == 0 else rate_first
    later = late > 0
    target = jnp.where(late == impulse, rate, first.target + rate - rate_first)
    target = jnp.maximum(target, jnp.minimum(first.target, 0))
    # what others have thrown off its way hits nothing, and what they struck closes no more of a gap than it
    # has time for
    misses = (impulse == 0) & ((rate >= -MIN_APPROACH_SPEED) | (gap + h * rate >= 0))
    untouched = jnp.where(misses | (first.target < 0), jnp.minimum(first.target, -gap / h), first.target)
    lead_time = jnp.where(misses, 0, first.lead_time)
    return Cascade(
        target=jnp.where(impulse > 0, target, untouched),
        lead_time=jnp.where(later, moment / jnp.where(later, impulse, 1), lead_time),
        impulse=impulse,
    )


def impact_part(rate: Array, threshold: Array) -> Array:
    """1 where a row closes fast compared with `threshold` [m/s], 0 where it rests or opens."""
    approach = jnp.minimum(rate, 0)
    square = approach * approach
    return safe_divide(square, square + threshold * threshold, MIN_APPROACH_SPEED * MIN_APPROACH_SPEED)


def _fade_in(speed: Array, threshold: Array) -> Array:
    """0 up to `threshold`, 1 from twice that on, smooth between; 1 everywhere if the threshold is 0."""
    x = jnp.clip(safe_divide(speed, threshold, 0.0, otherwise=2.0) - 1, 0, 1)
    return x * x * (3 - 2 * x)
