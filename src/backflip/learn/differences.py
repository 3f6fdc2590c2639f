"""Whether a gradient is that of differences: the cost on both sides along it, by steps of many sizes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from backflip.learn.gradients import length

STEPS = tuple(10.0**-k for k in range(1, 8))
"""in parts of the policy's norm, or of 1 if that is less"""
AGREES = 0.1
"""relative difference of slopes that counts as none"""


class Slope(NamedTuple):
    """Of the cost along its gradient, by central differences at the best step."""

    ratio: float
    """to the gradient's norm: 1 where the gradient is right"""
    agreement: float
    """relative difference of two neighbouring steps there"""
    reach: float
    """the largest step, of the policy's norm, with that slope within AGREES; 0: none"""


def slope_along(value: Callable[[Any], Any], policy: Any, gradient: Any) -> Slope | None:
    """None where there is no direction to go: a gradient of 0, or one that is not finite."""
    norm = float(length(gradient)) if jax.tree.leaves(gradient) else 0.0
    if not np.isfinite(norm) or norm == 0:
        return None
    numbers, rest = eqx.partition(policy, eqx.is_inexact_array)
    scale = max(float(length(numbers)), 1.0)
    cost = eqx.filter_jit(value)

    def at(h: float) -> float:
        moved = jax.tree.map(lambda x, g: x + (h * scale / norm * g).astype(x.dtype), numbers, gradient)
        return float(cost(eqx.combine(moved, rest)))

    slopes = np.array([(at(h) - at(-h)) / (2 * h * scale) for h in STEPS])
    apart = np.abs(np.diff(slopes)) / np.maximum(np.abs(slopes[1:]), np.finfo(float).tiny)
    if not np.isfinite(apart).any():
        return None
    best = int(np.nanargmin(np.where(np.isfinite(apart), apart, np.nan)))
    near = np.abs(slopes - slopes[best + 1]) <= AGREES * np.abs(slopes[best + 1])
    return Slope(float(slopes[best + 1] / norm), float(apart[best]), max(np.where(near, STEPS, 0)))
