"""Pieces for optax that know about physics."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

if TYPE_CHECKING:
    import optax


class ErrorScale(NamedTuple):
    """Since when, and by how much, updates are scaled."""

    updates: Array
    error: Array


def scale_by_error(every: int = 1, name: str = "cost") -> "optax.GradientTransformationExtraArgs":
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

    import optax

    return optax.GradientTransformationExtraArgs(init, update)


class Best(NamedTuple):
    """The best weights so far, their cost, and how long steps are now."""

    params: Any
    cost: Array
    scale: Array


def return_to_best(
    margin: float, *, shrink: float = 0.5, grow: float = 1.05
) -> "optax.GradientTransformationExtraArgs":
    """Go back to the best weights where the cost is `margin` above theirs, and on with shorter steps.

    So a step over a cliff, such as a fall, does not cost what was learned. Last in a chain; steps grow again
    with every update that is no such step. The cost is that of the update's own robots: the margin must be
    larger than their luck.
    """

    def init(params: Any) -> Best:
        return Best(params, jnp.asarray(jnp.inf), jnp.ones(()))

    def update(updates: Any, state: Best, params: Any, *, value: Array, **others: Any):
        better = value < state.cost
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), params, state.params)
        cost = jnp.minimum(value, state.cost)
        lost = value > cost + margin
        scale = jnp.where(lost, state.scale * shrink, jnp.minimum(state.scale * grow, 1.0))
        moves = jax.tree.map(lambda b, p, u: jnp.where(lost, b - p, scale * u), best, params, updates)
        return moves, Best(best, cost, scale)

    import optax

    return optax.GradientTransformationExtraArgs(init, update)
