"""Where a gradient that is not finite came from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.learn.probe import Probe, probing, value_of


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
        def is_finite(key: Array) -> Array:
            answer = eqx.filter_value_and_grad(value)(policy, key)
            return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(answer)]))

        return jax.lax.map(is_finite, keys)

    good = are_finite(policy, keys)
    if good.all():
        return NonFinite(update, -1, -1, "gradient")
    robot = int(jnp.argmin(good))
    with probing(Probe(look=True)) as probe:
        jax.block_until_ready(eqx.filter_jit(eqx.filter_grad(value))(policy, keys[robot]))
        jax.effects_barrier()
    fallen = [t for t, record in sorted(probe.records.items()) if not record.finite]
    if fallen:
        return NonFinite(update, robot, fallen[0], "state")
    bad = [t for t, m in probe.records.items() if m.gradient is not None and not jnp.isfinite(m.gradient)]
    return NonFinite(update, robot, max(bad), "gradient") if bad else NonFinite(update, robot, -1, "cost")
