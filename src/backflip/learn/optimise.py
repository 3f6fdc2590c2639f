"""Pieces for optax that know about physics."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array


class ErrorScale(NamedTuple):
    """Since when, and by how much, updates are scaled."""

    updates: Array
    error: Array


def scale_by_error(every: int = 1, name: str = "cost") -> optax.GradientTransformationExtraArgs:
    """Scale updates by the last error: coarse steps while it is far off, fine ones near the goal.

    The error is read after every `every` updates, from the figure `name` that train() passes on: the cost
    itself, or one that the cost function returns beside it. The first updates are scaled by the first error.
    """

    def init(params: Any) -> ErrorScale:
        return ErrorScale(jnp.zeros((), jnp.int32), jnp.ones(()))

    def update(updates: Any, state: ErrorScale, params: Any = None, *, figures: Any, **others: Any):
        if name not in figures:
            raise ValueError(f"scale_by_error: there is no figure {name!r}; known: {', '.join(figures)}")
        error = jnp.where(state.updates % every == 0, figures[name], state.error)
        return jax.tree.map(lambda g: error.astype(g.dtype) * g, updates), ErrorScale(
            state.updates + 1, error
        )

    return optax.GradientTransformationExtraArgs(init, update)
