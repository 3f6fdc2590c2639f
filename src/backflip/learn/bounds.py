"""Bounds of parameters: marks on a first guess that say which values are allowed."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["Interval", "Positive", "interval", "positive"]


class Positive(eqx.Module):
    """A number or array that stays above 0; searched for by its logarithm."""

    value: Array


class Interval(eqx.Module):
    """A number or array that stays between two bounds; searched for by its logit."""

    value: Array
    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)


def positive(value: Any) -> Positive:
    """Mark a first guess as positive: `theta0 = {"mass": bf.bounds.positive(1.0)}`."""
    value = finite_floats("bounds.positive", value)
    if not np.all(np.asarray(value) > 0):
        raise ValueError(f"bounds.positive: the first guess is {value}; give numbers above 0")
    return Positive(value)


def interval(value: Any, low: float, high: float) -> Interval:
    """Mark a first guess as bounded: `theta0 = {"restitution": bf.bounds.interval(0.5, 0, 1)}`."""
    value = finite_floats("bounds.interval", value)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"bounds.interval: the bounds are {low} and {high}; give two finite ones, the lower first"
        )
    if not np.all((np.asarray(value) > low) & (np.asarray(value) < high)):
        raise ValueError(
            f"bounds.interval: the first guess is {value}; give numbers between {low} and {high}"
        )
    return Interval(value, float(low), float(high))


def finite_floats(who: str, value: Any) -> Array:
    """The value as an array of floats, or an error that begins with `who`."""
    try:
        kind = jnp.result_type(jnp.asarray(value))
    except (TypeError, ValueError):  # a string, or what jax takes for none of its numbers
        kind = None
    if kind is None or not (jnp.issubdtype(kind, jnp.floating) or jnp.issubdtype(kind, jnp.integer)):
        raise ValueError(f"{who}: the first guess is {value!r}, a {type(value).__name__}; give numbers")
    array = jnp.asarray(value, jnp.result_type(float))
    if not np.all(np.isfinite(np.asarray(array))):
        raise ValueError(f"{who}: the first guess is {value}; give finite numbers")
    return array
