"""A seam for looking into a rollout that somebody else's cost calls.

While a Probe is set, every rollout that is traced counts its steps; one that looks receives, when the
program runs, what each step starts from and what gradient comes back to it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.gradients import length
from backflip.model import State


@dataclass
class StepRecord:
    """What was seen of one step."""

    arrays: Any = None
    """of (model, state before, u)"""
    finite: bool = True
    """whether the state after the step is"""
    gradient: float | None = None
    """norm of the cost's gradient with respect to the state after the step; None: none came back"""


@dataclass
class Probe:
    """`steps` that were traced in all rollouts; one that looks has the `records` of the first, by step."""

    look: bool = False
    steps: int = 0
    rollouts: int = 0
    scheme: Any = None
    facts: Any = None
    """what is static of (model, state, u)"""
    records: dict[int, StepRecord] = field(default_factory=dict)
    cost: float = np.nan
    policy_norm: float = np.nan
    """norm of the cost's gradient with respect to the policy"""
    gradient: Any = None
    """that gradient"""

    def record(self, t: Any) -> StepRecord:
        """What is known of step t."""
        return self.records.setdefault(int(t), StepRecord())

    def record_forward(self, t: Any, arrays: Any, finite: Any) -> None:
        """The forward pass came by."""
        now = self.record(t)
        now.arrays, now.finite = jax.tree.map(np.array, arrays), bool(finite)

    def record_backward(self, t: Any, gradient: Any) -> None:
        """The backward pass came by."""
        self.record(t).gradient = float(gradient)


_current: ContextVar[Probe | None] = ContextVar("probe", default=None)


@contextmanager
def probing(probe: Probe) -> Iterator[Probe]:
    """Tell `probe` about every rollout traced in this block."""
    token = _current.set(probe)
    try:
        yield probe
    finally:
        _current.reset(token)


def begin(scheme: Any, steps: int) -> Probe | None:
    """A rollout starts; returns the Probe that wants to see its steps, if any."""
    probe = _current.get()
    if probe is None:
        return None
    probe.steps += steps
    probe.rollouts += 1
    probe.scheme = probe.scheme or scheme
    return probe if probe.look and probe.rollouts == 1 else None


def show(probe: Probe, t: Any, before: Any, after: State) -> State:
    """The state after step t, itself; `before` is (model, state, u)."""
    arrays, probe.facts = eqx.partition(before, eqx.is_array)
    jax.debug.callback(probe.record_forward, t, arrays, is_finite(after))

    @jax.custom_vjp
    def tap(state: State, t: Any) -> State:
        return state

    def forward(state: State, t: Any) -> tuple[State, Any]:
        return state, t

    def backward(t: Any, gradient: State) -> tuple[State, None]:
        jax.debug.callback(probe.record_backward, t, length(gradient))
        return gradient, None

    tap.defvjp(forward, backward)
    return tap(after, t)


def is_finite(tree: Any) -> Array:
    """() whether every number of a tree is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def bare(cost: Callable) -> Callable:
    """A cost function without its jit: a compiled one may not be traced anew, and then nothing is seen."""
    return getattr(cost, "__wrapped__", cost)


def value_of(cost: Callable) -> Callable:
    """A cost function, bare, that returns its number only."""

    def value(policy: Any, key: Any) -> Any:
        answer = bare(cost)(policy, key)
        return answer[0] if isinstance(answer, tuple) else answer

    return value


def look_into(cost: Callable, policy: Any, key: Any) -> Probe:
    """What is seen of the first rollout of `cost(policy, key)`, and of its gradient."""
    with probing(Probe(look=True)) as probe:
        value, slope = eqx.filter_jit(eqx.filter_value_and_grad(value_of(cost)))(policy, key)
        jax.block_until_ready((value, slope))
        jax.effects_barrier()
    probe.cost, probe.gradient = float(value), slope
    probe.policy_norm = float(length(slope)) if jax.tree.leaves(slope) else 0.0
    return probe
