"""Where a gradient that is not finite came from."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.learn.probe import is_finite, look_into, value_of


class NonFinite(NamedTuple):
    """An update that was not done."""

    update: int
    robot: int
    """-1 where every robot is finite by itself"""
    step: int
    """the first step that left a state that is not finite, or else the last one whose gradient is not;
    -1 where no rollout was seen"""
    where: str
    """"state", "gradient" or "cost" """

    def __str__(self) -> str:
        robot = "the sum over robots" if self.robot < 0 else f"robot {self.robot}"
        step = "" if self.step < 0 else f" at step {self.step}"
        return f"{self.where} of {robot} is not finite{step}"


def locate_nonfinite(cost: Callable, policy: Any, keys: Array, update: int) -> NonFinite:
    """Go through the robots of an update one by one, and through the first bad one step by step."""
    value = value_of(cost)

    @eqx.filter_jit
    def are_finite(policy: Any, keys: Array) -> Array:
        return jax.lax.map(lambda key: is_finite(eqx.filter_value_and_grad(value)(policy, key)), keys)

    good = are_finite(policy, keys)
    if good.all():
        return NonFinite(update, -1, -1, "gradient")
    robot = int(jnp.argmin(good))
    records = look_into(cost, policy, keys[robot]).records
    if states := [t for t, record in records.items() if not record.finite]:
        return NonFinite(update, robot, min(states), "state")
    if slopes := [t for t, record in records.items() if not math.isfinite(record.gradient or 0)]:
        return NonFinite(update, robot, max(slopes), "gradient")
    return NonFinite(update, robot, -1, "cost")
