"""Hooks that change the gradient on its way back through a rollout; values pass unchanged.

A hook is a function `hook(t, carry) -> carry`, given as `rollout(..., hooks=(hook, ...))`; t counts steps,
carry is the state and the policy's memory.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

__all__ = ["Hook", "clip", "clip_per_robot", "fade", "truncate"]

Hook = Callable[[Array, Any], Any]


def fade(alpha: float) -> Hook:
    """Multiply the gradient by `alpha` for every step it goes back in time (Degrave et al., section 3.2).

    alpha = 1: the gradient as it is; 0: every step learns for itself.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"gradients.fade: alpha is {alpha!r}; give a factor between 0 and 1")
    return lambda t, carry: scale_gradient(carry, jnp.asarray(alpha))


def truncate(every: int) -> Hook:
    """Stop the gradient after every `every` steps: truncated backpropagation through time."""
    if every < 1:
        raise ValueError(f"gradients.truncate: every is {every!r}; give a number of steps from 1 up")
    return lambda t, carry: scale_gradient(carry, jnp.where((t + 1) % every == 0, 0.0, 1.0))


def clip(norm: float) -> Hook:
    """Clip the gradient that a step passes back to the one before, of state and memory together, to `norm`.

    What explodes step by step is stopped at every step; shorter ones pass as they are. Reverse mode only.
    """
    _check_norm("clip", norm)

    @jax.custom_vjp
    def identity(carry: Any) -> Any:
        return carry

    def backward(_: None, slope: Any) -> tuple[Any]:
        long = length(slope)
        factor = jnp.where(long > norm, norm / jnp.where(long > norm, long, 1), 1)
        return (jax.tree.map(lambda x: factor * x if jnp.issubdtype(x.dtype, jnp.floating) else x, slope),)

    identity.defvjp(lambda carry: (carry, None), backward)
    return lambda t, carry: identity(carry)


def clip_per_robot(policy: Any, norm: float, key: Array) -> Any:
    """The policy itself, with the gradient that this robot adds to it clipped to `norm`.

    For the cost given to train(): a robot about to fall, whose gradient explodes, does not outvote the
    others. `key` is the robot's own. The mean over robots has divided its gradient already: of 16 robots,
    1/16 is what a gradient of length one adds. Reverse mode only.
    """
    _check_norm("clip_per_robot", norm)
    arrays, rest = eqx.partition(policy, eqx.is_inexact_array)
    # makes the weights this robot's own: vmap would add up the gradients of all robots first
    zero = 0 * jax.random.uniform(key)
    own = jax.tree.map(lambda x: x + zero.astype(x.dtype), arrays)
    return eqx.combine(clip(norm)(jnp.zeros(()), own), rest)


def check_hooks(hooks: Any) -> None:
    """Raise ValueError where `hooks` is no sequence of hooks."""
    if callable(hooks) or not isinstance(hooks, Sequence):
        given = "one function" if callable(hooks) else repr(hooks)
        raise ValueError(f"rollout: hooks is {given}; give a sequence, such as hooks=(gradients.clip(1.0),)")
    for hook in hooks:
        if hook is clip_per_robot:
            remedy = "policy = gradients.clip_per_robot(policy, norm, key)"
            raise ValueError(f"rollout: gradients.clip_per_robot is no hook; call it in the cost: {remedy}")
        for made, example in ((clip, "clip(1.0)"), (fade, "fade(0.95)"), (truncate, "truncate(100)")):
            if hook is made:
                name = made.__name__
                raise ValueError(f"rollout: hooks has gradients.{name} itself; call it: gradients.{example}")
        if not callable(hook):
            raise ValueError(f"rollout: hooks has {hook!r}; a hook is a function hook(t, carry) -> carry")


def _check_norm(hook: str, norm: float) -> None:
    if not 0 < norm < math.inf:
        raise ValueError(f"gradients.{hook}: norm is {norm!r}; give a positive number")


def scale_gradient(tree: Any, factor: Array) -> Any:
    """The tree itself, with `factor` times its gradient."""
    return jax.tree.map(lambda x: _scaled(x, factor) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree)


@jax.custom_jvp
def _scaled(x: Array, factor: Array) -> Array:
    return x


@_scaled.defjvp
def _(primals, tangents):
    (x, factor), (dx, _) = primals, tangents
    return x, factor.astype(x.dtype) * dx


def length(tree: Any) -> Array:
    """√Σx² over the floats of a tree, divided by the largest on the way: squares of large ones overflow."""
    floats = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating) and x.size]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in floats]))
    scale = jnp.where(largest > 0, largest, 1)
    return scale * jnp.sqrt(sum(jnp.sum(jnp.square(x / scale)) for x in floats))
