"""Rows scaled to unit diagonal, in dimensionless form: bounded rows first, then tangents."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.solve.rows import Delassus, Rows, Solution


class Problem(NamedTuple):
    """w = factor · factorᵀ λ + softness λ + offset; r rows = b bounded rows + 2 k tangents of k contacts.

    Bounded rows are the scalar rows and then the normals. The diagonal of factor · factorᵀ is about 1.
    """

    factor: Array
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
        """The normals (k,) of an array over bounded rows (b,)."""
        return x[x.shape[0] - self.friction.shape[0] :]

    def split(self, x: Array) -> tuple[Array, Array]:
        """An array over rows (r, ...) as bounded rows (b, ...) and tangents (k, 2, ...)."""
        b = self.lower.shape[0]
        return x[:b], x[b:].reshape(-1, 2, *x.shape[1:])

    def friction_bound(self, bounded: Array) -> Array:
        """μ λ_n (k,) of the bounded impulses (b,)."""
        return self.friction * self.normals(bounded)

    def has_bound(self) -> Array:
        """(b, 2) 1 where the lower or upper bound is finite, else 0."""
        bounds = jnp.stack([self.lower, self.upper], -1)
        return jnp.where(jnp.isfinite(bounds), 1, 0).astype(self.offset.dtype)

    def slack(self, bounded: Array) -> Array:
        """(b, 2) λ − lower and upper − λ of the bounded impulses (b,); 1 for an infinite bound."""
        ends = zip((self.lower, self.upper), (1, -1), strict=True)
        return jnp.stack([jnp.where(jnp.isfinite(x), sign * (bounded - x), 1) for x, sign in ends], -1)

    def response(self, impulse: Array) -> Array:
        """The change of w (r,) by impulses (r,)."""
        return self.factor @ (impulse @ self.factor) + self.softness * impulse

    def velocity(self, impulse: Array) -> Array:
        """w (r,)."""
        return self.response(impulse) + self.offset

    def softened(self, softness: float) -> "Problem":
        """The same with at least this softness in every row."""
        return self._replace(softness=jnp.maximum(self.softness, softness))

    def rescaled(self, size: np.ndarray) -> "Problem":
        """The same problem for impulses divided and velocities multiplied by sizes (r,)."""
        b, k = self.lower.shape[0], self.friction.shape[0]
        return Problem(
            self.factor * size[:, None],
            self.offset * size,
            self.softness * size * size,
            self.lower / size[:b],
            self.upper / size[:b],
            self.friction * (size[b - k : b] / size[b::2]),
        )


class ScaledProblem(NamedTuple):
    """A dimensionless problem with its units."""

    problem: Problem
    scale: Array
    """(r,) [N s] unit of impulse, in the order of the problem"""
    energy: Array
    """[J] unit of impulse times velocity"""
    position: np.ndarray
    """(r,) position of each row in the problem"""

    def physical(self, impulse: Array) -> Array:
        """Impulses (r,) [N s] in the order of the rows, from dimensionless ones."""
        return (self.scale * impulse)[self.position]

    def solution(self, found: Solution) -> Solution:
        """`physical` of all that was found."""
        soft = tuple(self.physical(x) for x in found.soft)
        return found._replace(impulse=self.physical(found.impulse), soft=soft)

    def dimensionless(self, impulse: Array) -> Array:
        """The inverse of `physical`."""
        return impulse[np.argsort(self.position)] / self.scale


REACH = 1e3
"""times the impulse scale: no impulses change a velocity by more, so that a row which is further from acting,
such as a contact of bodies far apart, may as well be this far"""
SMOOTH_REACH = {4: REACH, 8: 1e8}
"""the same on the central path, by the bytes of a number: there a row presses with κ over how far it is"""
MIN_SIZE = 1e-9
"""[√J] smallest impulse scale: where no row asks for an impulse, none is divided by 0"""


def scale_problem(rows: Rows, delassus: Delassus, velocity: Array, smoothness: float = 0.0) -> ScaledProblem:
    """Rows scaled to unit diagonal and impulses of about 1; `smoothness` [J] bounds the unit of energy.

    With λ = λ̂ σ/√A and w = ŵ σ √A, A the diagonal, λ w is λ̂ ŵ σ² for every row: the scale changes no point
    of the central path, and a solution only where redundant rows leave it undetermined (see `regularise`).
    σ never does, and no derivative is taken of it.
    """
    order, s, k = rows.layout.bounded_first, rows.layout.scalars, rows.layout.contacts
    A = (delassus.diagonal() + rows.softness)[order]
    movable = _with_normals(rows.min_diagonal[order] < A, s, k)
    A = jnp.where(movable, A, 0)
    A = jnp.concatenate([A[: s + k], jnp.repeat(jnp.sum(A[s + k :].reshape(-1, 2), -1), 2)])
    root = jnp.sqrt(jnp.where(A > 0, A, 1))
    reach = SMOOTH_REACH[velocity.dtype.itemsize] if smoothness else REACH
    # an immovable row is decoupled with zero impulse: w = λ, and a normal separates: w = λ + 1, or reach
    decoupled = jnp.zeros(order.size, velocity.dtype).at[s : s + k].set(reach if smoothness else 1)
    offset = jnp.where(movable, (velocity - rows.target)[order] / root, decoupled)
    infinite = jnp.full(k, jnp.inf, velocity.dtype)
    lower = jnp.concatenate([_scale_bound(rows.lower, root[:s]), jnp.zeros_like(infinite)])
    upper = jnp.concatenate([_scale_bound(rows.upper, root[:s]), infinite])
    size = jax.lax.stop_gradient(_impulse_size(jnp.where(movable, offset, 0)[: s + k], lower, upper))
    size = jnp.maximum(size, math.sqrt(smoothness))
    problem = Problem(
        # times 1/√A, not divided by √A: what is known to be 0 stays known
        factor=delassus.factor[order] * jnp.where(movable, 1 / root, 0)[:, None],
        offset=jnp.where(movable, _within_reach(offset / size, lower, upper, k, reach), decoupled),
        softness=jnp.where(movable, rows.softness[order] / (root * root), 1),
        lower=lower / size,
        upper=upper / size,
        friction=rows.friction * root[s + k :: 2] / root[s : s + k],
    )
    return ScaledProblem(problem, size / root, size * size, np.argsort(order))


def _with_normals(movable: Array, s: int, k: int) -> Array:
    """Tangents count as immovable where their normal is."""
    return jnp.concatenate([movable[: s + k], movable[s + k :] & jnp.repeat(movable[s : s + k], 2)])


def _scale_bound(bound: Array, root: Array) -> Array:
    """Bounds (s,) times root (s,); infinite ones stay, with derivative 0."""
    finite = jnp.isfinite(bound)
    return jnp.where(finite, jnp.where(finite, bound, 0) * root, bound)


def _within_reach(offset: Array, lower: Array, upper: Array, contacts: int, reach: float) -> Array:
    """Offsets (r,) of bounded rows (b,) no further than `reach` from acting; contacts beyond do not slide."""
    b = len(lower)
    bounded, tangents = offset[:b], offset[b:].reshape(-1, 2)
    far = bounded[b - contacts :] > reach
    bounded = jnp.where(jnp.isfinite(lower), jnp.minimum(bounded, reach), bounded)
    bounded = jnp.where(jnp.isfinite(upper), jnp.maximum(bounded, -reach), bounded)
    return jnp.concatenate([bounded, jnp.where(far[:, None], 0, tangents).reshape(-1)])


def _impulse_size(offset: Array, lower: Array, upper: Array) -> Array:
    """The largest impulse of a bounded row, each solved without the others."""
    uncoupled = jnp.clip(-offset, lower, upper)
    return jnp.maximum(jnp.max(jnp.abs(uncoupled), initial=0), MIN_SIZE)
