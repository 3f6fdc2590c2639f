"""Many steps: observe, ask the policy, step; states are stored, steps recomputed backwards."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from backflip.dynamics import Scheme, step
from backflip.learn.gradients import Hook
from backflip.learn.probe import begin, show
from backflip.model import Model, State
from backflip.sense import observe


class Trajectory(NamedTuple):
    """What happened: entry t is after step t + 1; the start state is not repeated."""

    state: State
    """every array with a leading axis (steps,)"""
    u: Array
    """(steps, controls) what was asked before each step"""
    memory: Any
    """the policy's memory after the last step"""
    dt: float
    """[s] between states"""

    @property
    def last(self) -> State:
        """The final state."""
        return jax.tree.map(lambda x: x[-1], self.state)


Policy = Callable[[Array, Any], tuple[Array, Any]]


def rollout(
    scheme: Scheme,
    model: Model,
    state: State,
    policy: Policy | Array | None = None,
    *,
    steps: int | None = None,
    memory: Any = None,
    hooks: Sequence[Hook] = (),
) -> Trajectory:
    """Simulate `steps` steps from `state`.

    `policy(observation, memory) -> (u, memory)` closes the loop; an array (steps, controls) is played
    as it is; None is u = 0. Memory starts as given, or as `policy.blank()` where the policy has that.
    `hooks` such as gradients.fade(0.95) act on what each step passes on, the memory returned included.
    Gradients need memory for the states of 1,000 steps, and for the trajectory where it is used: a step's
    inner workings are recomputed, and so are the states of steps beyond.
    """
    if policy is None or callable(policy):
        if steps is None:
            raise ValueError("rollout: steps is missing; say how many steps to simulate")
        controls = None
    else:
        controls = _check_controls(model, jnp.asarray(policy), steps)
        steps = controls.shape[0]
    if memory is None:
        memory = getattr(policy, "blank", lambda: None)()
    probe = begin(scheme, steps)

    def advance(carry: tuple[State, Any], x: tuple[Array, Array | None]) -> tuple[Any, tuple[State, Array]]:
        (now, memory), (t, u) = carry, x
        if callable(policy):
            u, memory = policy(observe(model, now), memory)
        elif u is None:
            u = jnp.zeros(model.controls, model.gravity.dtype)
        after = step(scheme, model, now, u)
        if probe is not None:
            after = show(probe, t, (model, now, u), after)
        carry = after, memory
        for hook in hooks:
            carry = hook(t, carry)
        return carry, (after, u)

    (_, memory), (states, us) = _scan(advance, (state, memory), (jnp.arange(steps), controls), steps)
    return Trajectory(states, us, memory, scheme.dt)


def _check_controls(model: Model, controls: Array, steps: int | None) -> Array:
    want = ("steps" if steps is None else steps, model.controls)
    short = controls.ndim != 2 or controls.shape[1] != model.controls
    if short or (steps is not None and controls.shape[0] != steps):
        raise ValueError(f"rollout: controls have shape {controls.shape}; this model needs {want}")
    return controls


STRETCH = 1000
"""Steps whose states are all kept; beyond, those of one stretch at a time"""


def _scan(advance, carry, xs, length: int):
    """lax.scan in which a step is recomputed backwards from what it started with.

    A long one goes in stretches, at least √length steps each, of which the start alone is kept.
    """
    one = jax.checkpoint(advance, prevent_cse=False)
    if length <= STRETCH:
        return jax.lax.scan(one, carry, xs, length=length)
    stretch = max(STRETCH, math.isqrt(length))
    whole = length // stretch * stretch

    def some(carry, xs):
        return jax.lax.scan(one, carry, xs, length=stretch)

    def fold(x: Array) -> Array:
        return x[:whole].reshape(whole // stretch, stretch, *x.shape[1:])

    folded = jax.tree.map(fold, xs)
    carry, ys = jax.lax.scan(jax.checkpoint(some), carry, folded, length=whole // stretch)
    ys = jax.tree.map(lambda y: y.reshape(whole, *y.shape[2:]), ys)
    if whole == length:
        return carry, ys
    rest = jax.tree.map(lambda x: x[whole:], xs)
    carry, more = jax.lax.scan(one, carry, rest, length=length - whole)
    return carry, jax.tree.map(lambda y, m: jnp.concatenate([y, m]), ys, more)
