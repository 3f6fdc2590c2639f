"""Signals over time, for policies that need no observation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def clock(steps: int, dt: float, frequency: float, ahead: Array | float = 0.0) -> Array:
    """(steps, 2) sine and cosine at `frequency` [Hz], every `dt` [s], `ahead` by a part of a period."""
    phase = 2 * jnp.pi * (frequency * dt * jnp.arange(steps) + ahead)
    return jnp.stack([jnp.sin(phase), jnp.cos(phase)], -1)


def open_loop(policy: Callable[[Array, Any], tuple[Array, Any]], signal: Array) -> Array:
    """(steps, controls) what a policy without memory answers to a signal (steps, inputs), all at once.

    The result does not depend on the simulation; give it to `rollout` in place of a policy.
    """
    return jax.vmap(lambda now: policy(now, None)[0])(signal)
