"""Guesses around a first guess, for a search that may end in a local minimum."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.parameters import Layout

SPREAD = 1.0
"""standard deviation of guesses: of the logarithm of a positive parameter, or in units of a plain one's"""


def spread_starts(layout: Layout, free: Array, count: int) -> list[Array]:
    """`count` guesses as free numbers (p,): the first guess, then points spread evenly, always the same.

    Two of three guesses of a positive parameter are within a factor of e^±SPREAD; intervals are covered
    evenly.
    """
    if count == 1:
        return [free]
    from scipy.stats import norm, qmc

    bounded = np.array([leaf.kind == "interval" for leaf in layout.leaves for _ in range(leaf.numbers)])
    points = np.clip(qmc.Halton(free.size, seed=0).random(count - 1), 1e-3, 1 - 1e-3)
    around = np.asarray(free, float) + SPREAD * norm.ppf(points)
    evenly = np.log(points / (1 - points))
    guesses = np.where(bounded, evenly, around)
    return [free, *(jnp.asarray(guess, free.dtype) for guess in guesses)]
