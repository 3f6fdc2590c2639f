"""Many steps: observe, ask the policy, step; states are stored, steps recomputed backwards."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from backflip import control
from backflip.dynamics import Scheme, step, warn_of_speed
from backflip.learn.gradients import Hook, check_hooks
from backflip.learn.probe import begin, show
from backflip.math import keeping
from backflip.model import Model, State, expect_state
from backflip.sense import observe


class Trajectory(NamedTuple):
    """What happened: entry t of `state` is after step t + 1, entry t of `u` before it."""

    state: State
    """every array with a leading axis (steps,)"""
    u: Array
    """(steps, controls) what was asked before each step"""
    memory: Any
    """the policy's memory after the last step"""
    dt: float
    """[s] between states"""
    start: State | None = None
    """before the first step; rollout() always says it"""

    @property
    def last(self) -> State:
        """The final state; after no steps at all, the start."""
        if self.u.shape[0] == 0:
            return self._known_start()
        return jax.tree.map(lambda x: x[-1], self.state)

    @property
    def from_start(self) -> State:
        """The start, then every state: arrays with a leading axis (steps + 1,), entry t after t steps."""
        return jax.tree.map(
            lambda first, later: jnp.concatenate([jnp.asarray(first, later.dtype)[None], later]),
            self._known_start(),
            self.state,
        )

    def _known_start(self) -> State:
        if self.start is None:
            raise ValueError("Trajectory: its start is not known; give start=...")
        return self.start


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
    _check_arguments(scheme, model, state, policy)
    check_hooks(hooks)
    warn_of_speed(scheme, model, state)
    if policy is None or callable(policy):
        steps, controls = _check_steps(steps), None
    else:
        controls = _check_controls(model, jnp.asarray(policy), steps)
        steps = controls.shape[0]
    if memory is None:
        memory = getattr(policy, "blank", lambda: None)()
    if callable(policy):
        _check_policy(policy, model, state, memory)
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
    return Trajectory(states, us, memory, scheme.dt, state)


def _check_arguments(scheme: Any, model: Any, state: Any, policy: Any) -> None:
    """Arguments that are swapped, and states that are batched or of another model."""
    if not isinstance(scheme, Scheme):
        given = type(scheme).__name__
        raise TypeError(f"rollout: a {given} was given where a Scheme belongs; mind the order")
    expect_state("rollout", model, state)
    if isinstance(policy, Scheme | Model | State):
        given = type(policy).__name__
        raise TypeError(f"rollout: a {given} was given where a policy belongs; mind the order")


def _check_steps(steps: Any) -> int:
    if steps is None:
        raise ValueError("rollout: steps is missing; say how many steps to simulate")
    try:
        count = operator.index(steps)
    except TypeError:
        count = -1
    if count < 0:
        raise ValueError(f"rollout: steps is {steps!r}; give a whole number of steps")
    return count


def _check_controls(model: Model, controls: Array, steps: int | None) -> Array:
    want = f"({'steps' if steps is None else steps}, {model.controls})"
    short = controls.ndim != 2 or controls.shape[1] != model.controls
    if short or (steps is not None and controls.shape[0] != steps):
        raise ValueError(f"rollout: controls have shape {controls.shape}; this model needs {want}")
    return controls


def _check_policy(policy: Policy, model: Model, state: State, memory: Any) -> None:
    """Ask once, by shapes only: whether a policy takes what it will be given, and answers what is needed."""
    observation = jax.eval_shape(observe, model, state)
    given = f"an observation of shape {observation.shape} and {_describe(memory)}"
    try:
        answer = jax.eval_shape(lambda o, m: policy(o, m), observation, memory)
    except (TypeError, ValueError, AttributeError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[0].rstrip(".") if lines else type(error).__name__
        raise ValueError(
            f"rollout: the policy fails on {given}: {reason}; "
            "a policy is policy(observation, memory) -> (u, memory), and its memory starts as memory=..., "
            f"or as its method blank() says{_remedy(policy, model)}"
        ) from error
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise ValueError(f"rollout: the policy returned {_describe(answer)}; return (u, memory)")
    u, after = answer
    if jnp.shape(u) != (model.controls,):
        raise ValueError(
            f"rollout: the policy returned u of shape {jnp.shape(u)}; this model has {model.controls} "
            f"actuators: ({model.controls},){_remedy(policy, model)}"
        )
    if jax.tree.map(jnp.shape, after) != jax.tree.map(jnp.shape, memory):
        raise ValueError(
            f"rollout: the policy was given {_describe(memory)} and returned {_describe(after)}; return one "
            "of the same shapes, and start it by memory=... or a method blank()"
        )


def _remedy(policy: Any, model: Model) -> str:
    """How to make a network of the right size."""
    if not isinstance(policy, control.Policy):
        return ""
    sizes = f"{model.observation_size} and {model.controls}"
    return f"; the sizes that fit are MLP(model.observation_size, model.controls, ...): {sizes}"


def _describe(memory: Any) -> str:
    shapes = [str(jnp.shape(x)) for x in jax.tree.leaves(memory)]
    return f"a memory of shape {', '.join(shapes)}" if shapes else "no memory"


STRETCH = 1000
"""Steps whose states are all stored; beyond, those of one stretch at a time"""


def _scan(advance, carry, xs, length: int):
    """lax.scan in which a step is recomputed backwards from what it started with and the impulses it found.

    A long one goes in stretches, at least √length steps each, of which only the start is stored.
    """
    one = jax.checkpoint(advance, prevent_cse=False, policy=keeping)
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
