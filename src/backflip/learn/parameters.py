"""Physical parameters as a vector that may take any value: positive ones by their logarithm."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.bounds import Interval, Positive, finite_floats


class Leaf(NamedTuple):
    """What is known of one array of theta."""

    name: str
    shape: tuple[int, ...]
    kind: str
    """plain, positive or interval"""
    low: float
    high: float
    unit: tuple[float, ...]
    """plain parameters are counted in these: |first guess|, or 1 where that is 0"""

    @property
    def numbers(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


class Layout(NamedTuple):
    """How a vector of free numbers becomes theta; hashable."""

    leaves: tuple[Leaf, ...]
    tree: Any

    @property
    def names(self) -> tuple[str, ...]:
        """One for every number: "mass", or "mass[3]" where it is one of several."""
        return tuple(name for leaf in self.leaves for name in _names(leaf))

    def theta(self, free: Array) -> Any:
        """The parameters themselves, as plain arrays."""
        values, at = [], 0
        for leaf in self.leaves:
            count = leaf.numbers
            values.append(_bound(leaf, free[at : at + count]).reshape(leaf.shape))
            at += count
        return jax.tree.unflatten(self.tree, values)

    def flat(self, theta: Any) -> Array:
        """(p,) all numbers of a theta, in the order of the names."""
        return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(theta)])


def lay_out(theta0: Any) -> tuple[Layout, Array]:
    """The layout of a first guess, and its free numbers (p,)."""
    marks = lambda x: isinstance(x, Positive | Interval)  # noqa: E731
    placed = jax.tree_util.tree_leaves_with_path(theta0, is_leaf=marks)
    if not placed:
        raise ValueError('identify: theta0 is empty; give what is searched for, such as {"mass": 1.0}')
    leaves, free = [], []
    for place, x in placed:
        leaf, numbers = _free(_name(place), x)
        leaves.append(leaf)
        free.append(numbers)
    return Layout(tuple(leaves), jax.tree.structure(theta0, is_leaf=marks)), jnp.concatenate(free)


def _name(place: Any) -> str:
    """The place of a leaf in words: keys and attributes by dots, or "theta" where it is the whole."""
    parts = [str(getattr(p, "key", getattr(p, "name", getattr(p, "idx", p)))) for p in place]
    return ".".join(parts) or "theta"


def _names(leaf: Leaf) -> list[str]:
    if not leaf.shape:
        return [leaf.name]
    return [f"{leaf.name}[{','.join(map(str, i))}]" for i in np.ndindex(leaf.shape)]


def _free(name: str, x: Any) -> tuple[Leaf, Array]:
    """Free numbers of one leaf: ln x, logit, or x in units of its first guess."""
    if isinstance(x, Positive):
        return Leaf(name, x.value.shape, "positive", 0.0, math.inf, ()), jnp.log(x.value).reshape(-1)
    if isinstance(x, Interval):
        part = ((x.value - x.low) / (x.high - x.low)).reshape(-1)
        return Leaf(name, x.value.shape, "interval", x.low, x.high, ()), jnp.log(part / (1 - part))
    value = finite_floats(f'identify: parameter "{name}"', x)
    unit = np.abs(np.asarray(value, float)).reshape(-1)
    unit = np.where(unit > 0, unit, 1.0)
    plain = Leaf(name, value.shape, "plain", -math.inf, math.inf, tuple(unit.tolist()))
    return plain, value.reshape(-1) / jnp.asarray(unit, value.dtype)


def _bound(leaf: Leaf, free: Array) -> Array:
    if leaf.kind == "positive":
        return jnp.exp(free)
    if leaf.kind == "interval":
        return leaf.low + (leaf.high - leaf.low) * jax.nn.sigmoid(free)
    return free * jnp.asarray(leaf.unit, free.dtype)
