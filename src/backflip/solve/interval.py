"""Complementarity of an impulse between two bounds.

An impulse has a slack (..., 2), λ − lower and upper − λ, and a dual (..., 2) of each bound, with
w = dual₀ − dual₁. On the central path slack times dual is κ; the path ends at κ = 0. An infinite bound
(`has_bound` 0) has slack 1 and dual 0.
"""

import jax.numpy as jnp
from jax import Array

from backflip.math import dot, smallest

MAX_STEP = 1e3
"""longer steps to the boundary count as this long"""


def _elimination(slack: Array, has_bound: Array) -> tuple[Array, Array]:
    """The factor h = p q / (p + q) (...,) of slacks p and q, and h/p, −h/q (..., 2)."""
    p, q = slack[..., 0], slack[..., 1]
    total = jnp.where(has_bound[..., 0] * has_bound[..., 1] > 0, p + q, 1)
    positive = total > 0
    total = jnp.where(positive, total, 1)
    ratios = jnp.stack([jnp.where(positive, q / total, 0.5), jnp.where(positive, -p / total, -0.5)], -1)
    return p * q / total, has_bound * ratios


def linearise(slack: Array, dual: Array, has_bound: Array) -> tuple[Array, Array]:
    """C_w and C_lam (...,) of each row's linearised complementarity, C_w dw + C_lam dλ = right-hand side.

    From dw = ddual₀ − ddual₁ and dual · (dλ, −dλ) + slack · ddual = dproduct, times h.
    """
    C_w, ratios = _elimination(slack, has_bound)
    return C_w, ratios[..., 0] * dual[..., 0] - ratios[..., 1] * dual[..., 1]


def right_hand_side(slack: Array, has_bound: Array, dproduct: Array) -> Array:
    """(...,) for wanted changes dproduct (..., 2) of slack times dual."""
    return dot(_elimination(slack, has_bound)[1], dproduct)


def dual_step(slack: Array, dual: Array, has_bound: Array, dproduct: Array, dslack: Array) -> Array:
    """Back-substitution: ddual (..., 2)."""
    return has_bound * (dproduct - dual * dslack) / slack


def step_to_boundary(x: Array, dx: Array) -> Array:
    """The longest steps (..., 2) along dx that leave x >= 0."""
    shrinks = -dx * MAX_STEP > x
    return jnp.where(shrinks, -x / jnp.where(shrinks, dx, -1), MAX_STEP)


def active_set(slack: Array, w: Array, has_bound: Array) -> tuple[Array, Array]:
    """Slack and dual (..., 2) at κ = 0: a bound is active, with slack 0, where its dual is the larger one."""
    dual = has_bound * jnp.maximum(jnp.stack([w, -w], -1), 0)
    smallest_slack = smallest(slack)
    active = dual > slack
    return jnp.where(active, 0, jnp.maximum(slack, smallest_slack)), jnp.where(active, dual, 0)
