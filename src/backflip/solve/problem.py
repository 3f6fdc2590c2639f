"""Rows made alike: bounded rows first, then friction, all without units."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.solve.rows import Mobility, Rows


class Problem(NamedTuple):
    """w = share · shareᵀ λ + softness λ + offset; r rows = b bounded rows + 2 k tangents of k contacts.

    Bounded rows are the scalar rows and then the normals. Every row moves itself by about 1.
    """

    share: Array
    """(r, f)"""
    offset: Array
    softness: Array
    """(r,)"""
    lower: Array
    upper: Array
    """(b,)"""
    friction: Array
    """(k,) Coulomb's μ"""

    def normals(self, x: Array) -> Array:
        """(k,) of something of the bounded rows (b,)."""
        return x[x.shape[0] - self.friction.shape[0] :]

    def split(self, x: Array) -> tuple[Array, Array]:
        """Of something of every row (r, ...): the bounded rows (b, ...) and the tangents (k, 2, ...)."""
        b = self.lower.shape[0]
        return x[:b], x[b:].reshape(-1, 2, *x.shape[1:])

    def bound(self, bounded: Array) -> Array:
        """μ λ_n (k,) of the bounded impulses (b,)."""
        return self.friction * self.normals(bounded)

    def there(self) -> Array:
        """(b, 2) 1 for bounds that are finite, else 0."""
        bounds = jnp.stack([self.lower, self.upper], -1)
        return jnp.where(jnp.isfinite(bounds), 1, 0).astype(self.offset.dtype)

    def room(self, bounded: Array) -> Array:
        """(b, 2) from the bounded impulses (b,) to their bounds; 1 where there is none."""
        ends = zip((self.lower, self.upper), (1, -1), strict=True)
        return jnp.stack([jnp.where(jnp.isfinite(x), sign * (bounded - x), 1) for x, sign in ends], -1)

    def response(self, impulse: Array) -> Array:
        """What impulses (r,) change in w (r,)."""
        return self.share @ (impulse @ self.share) + self.softness * impulse

    def velocity(self, impulse: Array) -> Array:
        """w (r,)."""
        return self.response(impulse) + self.offset


class Posed(NamedTuple):
    """A problem, and the way back from it."""

    problem: Problem
    scale: Array
    """(r,) [N s] of a unit of impulse, in the order of the problem"""
    energy: Array
    """[J] of a unit of impulse times velocity"""
    place: np.ndarray
    """(r,) where each row is found in the problem"""

    def impulses(self, found: Array) -> Array:
        """Impulses (r,) [N s] in the order of the rows."""
        return (self.scale * found)[self.place]

    def unscaled(self, impulse: Array) -> Array:
        """The other way."""
        return impulse[np.argsort(self.place)] / self.scale


SMALLEST = 1e-9
"""[√J] below this nothing is asked of the rows, and nothing is divided by it"""


def pose(rows: Rows, mobility: Mobility, velocity: Array, smoothness: float = 0.0) -> Posed:
    """Rows made alike, and no smaller than a smoothness [J] that they are solved with.

    With λ = λ̂ σ/√A and w = ŵ σ √A, A the diagonal, λ w is λ̂ ŵ σ² for every row: the scale changes no point
    of the central path, and a solution only where redundant rows leave it open (see `soften`). σ never does,
    and no derivative is taken of it.
    """
    order, s = _order(rows), rows.lower.shape[0]
    k = (order.size - s) // 3
    mu = jnp.concatenate([x.reshape(-1) for x in rows.friction]) if k else jnp.zeros(0, velocity.dtype)
    A = (mobility.diagonal() + rows.softness)[order]
    moves = _with_normals(rows.least[order] < A, s, k)
    A = jnp.where(moves, A, 0)
    A = jnp.concatenate([A[: s + k], jnp.repeat(jnp.sum(A[s + k :].reshape(-1, 2), -1), 2)])
    root = jnp.sqrt(jnp.where(A > 0, A, 1))
    # a row that moves nothing stands alone and wants nothing; as a normal it parts
    alone = jnp.zeros(order.size, velocity.dtype).at[s : s + k].set(1)
    offset = jnp.where(moves, (velocity - rows.target)[order] / root, alone)
    free = jnp.full(k, jnp.inf, velocity.dtype)
    lower = jnp.concatenate([_stretch(rows.lower, root[:s]), jnp.zeros_like(free)])
    upper = jnp.concatenate([_stretch(rows.upper, root[:s]), free])
    size = jax.lax.stop_gradient(_size(jnp.where(moves, offset, 0)[: s + k], lower, upper))
    size = jnp.maximum(size, math.sqrt(smoothness))
    problem = Problem(
        share=jnp.where(moves[:, None], mobility.share[order] / root[:, None], 0),
        offset=jnp.where(moves, offset / size, alone),
        softness=jnp.where(moves, rows.softness[order] / (root * root), 1),
        lower=lower / size,
        upper=upper / size,
        friction=mu * root[s + k :: 2] / root[s : s + k],
    )
    return Posed(problem, size / root, size * size, np.argsort(order))


def _order(rows: Rows) -> np.ndarray:
    """(r,) scalar rows, normals, tangents."""
    s, r = rows.lower.shape[0], rows.target.shape[0]
    contact = np.arange(s, r).reshape(-1, 3)
    return np.concatenate([np.arange(s), contact[:, 0], contact[:, 1:].reshape(-1)])


def _with_normals(moves: Array, s: int, k: int) -> Array:
    """Tangents move nothing where their normal does not."""
    return jnp.concatenate([moves[: s + k], moves[s + k :] & jnp.repeat(moves[s : s + k], 2)])


def _stretch(bound: Array, by: Array) -> Array:
    """Bounds (s,) times something; those that are not there stay away, and have no derivative."""
    there = jnp.isfinite(bound)
    return jnp.where(there, jnp.where(there, bound, 0) * by, bound)


def _size(offset: Array, lower: Array, upper: Array) -> Array:
    """The largest impulse that a bounded row would give if it were alone."""
    alone = jnp.clip(-offset, lower, upper)
    return jnp.maximum(jnp.max(jnp.abs(alone), initial=0), SMALLEST)
