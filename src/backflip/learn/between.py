"""What happens to gradients between one step and the next: values pass unchanged, gradients are scaled.

A piece is a function `piece(t, carry) -> carry`, handed to `rollout(..., between=(piece, ...))`; t counts
steps, carry is the state and the policy's memory.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

Piece = Callable[[Array, Any], Any]


def fade(alpha: float) -> Piece:
    """Multiply the gradient by `alpha` for every step it goes back in time (Degrave et al., section 3.2).

    alpha = 1: the gradient as it is; 0: every step learns for itself.
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"fade: alpha is {alpha!r}; give a factor between 0 and 1")
    return lambda t, carry: scale_gradient(carry, jnp.asarray(alpha))


def cut(every: int) -> Piece:
    """Stop the gradient after every `every` steps: truncated windows."""
    if every < 1:
        raise ValueError(f"cut: every is {every!r}; give a number of steps from 1 up")
    return lambda t, carry: scale_gradient(carry, jnp.where((t + 1) % every == 0, 0.0, 1.0))


def clip(norm: float) -> Piece:
    """Shorten the gradient that a step hands back to the one before, of state and memory together, to `norm`.

    What explodes step by step is stopped at every step; shorter ones pass as they are. Reverse mode only.
    """
    _check_norm("clip", norm)

    @jax.custom_vjp
    def passed(carry: Any) -> Any:
        return carry

    def backward(_: None, slope: Any) -> tuple[Any]:
        long = length(slope)
        factor = jnp.where(long > norm, norm / jnp.where(long > norm, long, 1), 1)
        return (jax.tree.map(lambda x: factor * x if jnp.issubdtype(x.dtype, jnp.floating) else x, slope),)

    passed.defvjp(lambda carry: (carry, None), backward)
    return lambda t, carry: passed(carry)


def limit(policy: Any, norm: float, key: Array) -> Any:
    """The policy itself, with the gradient that this robot adds to it shortened to `norm`.

    For the cost given to train(): a robot about to fall, whose gradient explodes, does not outvote the
    others. `key` is the robot's own. The mean over robots has divided its gradient already: of 16 robots,
    1/16 is what a gradient of length one adds. Reverse mode only.
    """
    _check_norm("limit", norm)
    arrays, rest = eqx.partition(policy, eqx.is_inexact_array)
    nothing = 0 * jax.random.uniform(key)  # makes the weights this robot's: vmap would add up gradients first
    own = jax.tree.map(lambda x: x + nothing.astype(x.dtype), arrays)
    return eqx.combine(clip(norm)(jnp.zeros(()), own), rest)


def _check_norm(piece: str, norm: float) -> None:
    if not 0 < norm < math.inf:
        raise ValueError(f"{piece}: norm is {norm!r}; give a positive number")


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
    most = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in floats]))
    scale = jnp.where(most > 0, most, 1)
    return scale * jnp.sqrt(sum(jnp.sum(jnp.square(x / scale)) for x in floats))
