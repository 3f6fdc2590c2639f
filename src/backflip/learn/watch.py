"""A seam for looking into a rollout that somebody else's cost calls.

While a Watcher is set, every rollout that is traced counts its steps; one that looks is told, when the
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

from backflip.learn.between import length
from backflip.model import State


@dataclass
class Moment:
    """What was seen of one step."""

    arrays: Any = None
    """of (model, state before, u)"""
    finite: bool = True
    """whether the state after the step is"""
    gradient: float | None = None
    """norm of the cost's gradient with respect to the state after the step; None: none came back"""


@dataclass
class Watcher:
    """`steps` that were traced in all rollouts; one that looks has the `moments` of the first, by step."""

    look: bool = False
    steps: int = 0
    rollouts: int = 0
    scheme: Any = None
    facts: Any = None
    """what is static of (model, state, u)"""
    moments: dict[int, Moment] = field(default_factory=dict)

    def moment(self, t: Any) -> Moment:
        """What is known of step t."""
        return self.moments.setdefault(int(t), Moment())

    def saw(self, t: Any, arrays: Any, finite: Any) -> None:
        """The forward pass came by."""
        now = self.moment(t)
        now.arrays, now.finite = jax.tree.map(np.array, arrays), bool(finite)

    def felt(self, t: Any, gradient: Any) -> None:
        """The backward pass came by."""
        self.moment(t).gradient = float(gradient)


_current: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[Watcher]:
    """Tell `watcher` about every rollout traced in this block."""
    token = _current.set(watcher)
    try:
        yield watcher
    finally:
        _current.reset(token)


def begin(scheme: Any, steps: int) -> Watcher | None:
    """A rollout starts; returns the Watcher that wants to see its steps, if any."""
    watcher = _current.get()
    if watcher is None:
        return None
    watcher.steps += steps
    watcher.rollouts += 1
    watcher.scheme = watcher.scheme or scheme
    return watcher if watcher.look and watcher.rollouts == 1 else None


def show(watcher: Watcher, t: Any, before: Any, after: State) -> State:
    """The state after step t, itself; `before` is (model, state, u)."""
    arrays, watcher.facts = eqx.partition(before, eqx.is_array)
    jax.debug.callback(watcher.saw, t, arrays, _is_finite(after))

    @jax.custom_vjp
    def tap(state: State, t: Any) -> State:
        return state

    def forward(state: State, t: Any) -> tuple[State, Any]:
        return state, t

    def backward(t: Any, gradient: State) -> tuple[State, None]:
        jax.debug.callback(watcher.felt, t, length(gradient))
        return gradient, None

    tap.defvjp(forward, backward)
    return tap(after, t)


def _is_finite(tree: Any) -> Any:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))


def bare(cost: Callable) -> Callable:
    """A cost function without its jit: a compiled one may not be traced anew, and then nothing is seen."""
    return getattr(cost, "__wrapped__", cost)


def value_of(cost: Callable) -> Callable:
    """A cost function, bare, that returns its number alone."""

    def value(policy: Any, key: Any) -> Any:
        answer = bare(cost)(policy, key)
        return answer[0] if isinstance(answer, tuple) else answer

    return value
