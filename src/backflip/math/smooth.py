"""Functions whose gradient is finite where the textbook form does not."""

import jax.numpy as jnp
from jax import Array

from backflip.math.linalg import dot


def norm(x: Array) -> Array:
    """|x| over the last axis; at x = 0 the value and the gradient are 0."""
    return root(dot(x, x))


def root(x: Array) -> Array:
    """√x of x >= 0; at 0 the gradient is 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def unit(x: Array, fallback: Array) -> Array:
    """x / |x|; where x is too short to have a direction, `fallback` with gradient 0."""
    square = dot(x, x)[..., None]
    long = square > jnp.finfo(x.dtype).tiny * 1e6
    return jnp.where(long, x * (1 / jnp.sqrt(jnp.where(long, square, 1))), fallback)


def safe_divide(a: Array, b: Array, threshold: float, otherwise: float = 0.0) -> Array:
    """a / b where |b| > threshold, else `otherwise`; no NaN in value or gradient."""
    big = jnp.abs(b) > threshold
    return jnp.where(big, a / jnp.where(big, b, 1), otherwise)


def smallest(x: Array) -> float:
    """3e-10 in float32: less is nothing, and the powers of it that derivatives divide by underflow."""
    return float(jnp.finfo(x.dtype).tiny ** 0.25)


def saturate(x: Array, limit: Array) -> Array:
    """x / √(1 + (x/limit)²): x for |x| ≪ limit, ±limit far out, and a gradient that never dies.

    limit → ∞: x itself.
    """
    return x / jnp.sqrt(1 + (x / limit) ** 2)


def at_most(x: Array, bound: float) -> Array:
    """x (..., n), shortened to `bound` where it is longer."""
    square = jnp.sum(x * x, -1, keepdims=True)
    long = square > bound * bound
    return x * jnp.where(long, bound / jnp.sqrt(jnp.where(long, square, 1)), 1)


def clamp(x: Array, lower: Array | float, upper: Array | float) -> Array:
    """x within bounds; at a bound it has the gradient of x, where jnp.clip has half of it."""
    return jnp.where(x < lower, lower, jnp.where(x > upper, upper, x))
