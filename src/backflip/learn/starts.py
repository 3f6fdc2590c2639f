"""Guesses around a first guess, for a search that may end in a local minimum."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.parameters import Layout


def spread_starts(layout: Layout, free: Array, count: int, spread: float = 1.0) -> list[Array]:
    """`count` guesses as free numbers (p,): the first guess, then points spread evenly, always the same.

    `spread` is the standard deviation of the guesses: of the logarithm of a positive parameter, so that two
    of three are within a factor of e^±spread; of a plain one in units of its first guess. Intervals are
    covered evenly.
    """
    if isinstance(spread, bool) or not isinstance(spread, int | float) or not 0 < spread < np.inf:
        raise ValueError(f"identify: spread is {spread!r}; give a positive number, such as 1.0")
    if count == 1:
        return [free]
    from scipy.stats import norm, qmc

    bounded = np.array([leaf.kind == "interval" for leaf in layout.leaves for _ in range(leaf.numbers)])
    points = np.clip(qmc.Halton(free.size, seed=0).random(count - 1), 1e-3, 1 - 1e-3)
    around = np.asarray(free, float) + spread * norm.ppf(points)
    evenly = np.log(points / (1 - points))
    guesses = np.where(bounded, evenly, around)
    return [free, *(jnp.asarray(guess, free.dtype) for guess in guesses)]
