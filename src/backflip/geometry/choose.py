"""Discrete choices without branches or gathers."""

import jax.numpy as jnp
from jax import Array


def pick(score: Array, rows: Array) -> tuple[Array, Array]:
    """The best of n scores (n,), and the row of `rows` (n, m) that goes with it; the first of equals.

    Gradients reach the winning row. Rows must be finite, scores need not be. The one sum here that is not
    written out: XLA then keeps choices apart, and box against box compiles in a third of the time.
    """
    wins = jnp.arange(score.shape[0]) == jnp.argmax(score)
    return score.max(), (wins.astype(rows.dtype)[:, None] * rows).sum(0)


def sign(x: Array) -> Array:
    """±1, and +1 at zero: a side is always chosen; gradient 0."""
    one = jnp.ones_like(x)
    return jnp.where(x >= 0, one, -one)
