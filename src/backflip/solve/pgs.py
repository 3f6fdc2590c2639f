"""Projected Gauss-Seidel: a fixed number of sweeps over the rows, so the program has no branches."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.solve.friction import Cone, Friction
from backflip.solve.rows import Rows


class Solver(eqx.Module):
    """Finds the impulses that make rows hold."""

    def solve(self, rows: Rows, A: Array, velocity: Array) -> Array:
        """Impulses λ (r,) [N s]; A (r, r) = J M⁻¹ Jᵀ, velocity (r,) is J V before them."""
        raise NotImplementedError


class PGS(Solver):
    """Sweep over scalar rows, then patches of contacts, each taking what the others have at that moment.

    `warm_start` is the part of the last step's impulses to begin with: 1 all, 0 from nothing.
    """

    sweeps: int = eqx.field(static=True, default=20)
    friction: Friction = eqx.field(default=Cone(), static=True)
    warm_start: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        if not isinstance(self.sweeps, int) or self.sweeps < 1:
            raise ValueError(f"PGS: sweeps is {self.sweeps!r}; give a whole number of at least 1")
        if not isinstance(self.friction, Friction):
            raise ValueError(f"PGS: friction is {self.friction!r}; give Cone() or Pyramid()")
        if not 0 <= self.warm_start <= 1:
            raise ValueError(f"PGS: warm_start is {self.warm_start}; give a number from 0 to 1")

    def solve(self, rows: Rows, A: Array, velocity: Array) -> Array:
        """Impulses after `sweeps` sweeps."""
        if not rows.target.shape[0]:
            return jnp.zeros_like(rows.target)
        problem = _arrange(rows, A, velocity)

        def sweep(at: _Momentum, _) -> tuple[_Momentum, None]:
            impulse = _sweep_scalars(problem, at.ahead)
            for patches in problem.patches:
                impulse = _sweep_patch(patches, impulse, self.friction)
            return _gain(at, impulse), None

        # a sweep is recomputed in the backward pass from the impulses it started with
        body = jax.checkpoint(sweep, prevent_cse=False)
        start = self.warm_start * rows.start
        begin = _Momentum(start, start, jnp.ones((), start.dtype))
        return jax.lax.scan(body, begin, None, length=self.sweeps)[0].impulse


class _Momentum(NamedTuple):
    """Nesterov's: a sweep begins some way ahead, in the direction the last one went."""

    impulse: Array
    ahead: Array
    weight: Array


MOMENTUM = 0.85
"""Most of it: beyond, many sweeps overshoot and swing back. Never started afresh where it leads uphill, as
is usual: that would make the impulses jump wherever the sweeps have not converged."""


def _gain(at: _Momentum, new: Array) -> _Momentum:
    """Go on from the `new` impulses with more momentum."""
    weight = (1 + jnp.sqrt(1 + 4 * at.weight**2)) / 2
    part = jnp.minimum((at.weight - 1) / weight, MOMENTUM)
    return _Momentum(new, new + part * (new - at.impulse), weight)


class _Patches(NamedTuple):
    """A λ + b of m patches of c contacts each, whose rows begin at `first`."""

    first: Array
    """(m,)"""
    A: Array
    """(m, c, 3, r)"""
    b: Array
    movable: Array
    """(m, c, 3)"""
    friction: Array
    """(m, c)"""


class _Problem(NamedTuple):
    """A λ + b laid out by scalar rows and by patches of contacts."""

    A_scalar: Array
    b_scalar: Array
    step_scalar: Array
    lower: Array
    upper: Array
    patches: tuple[_Patches, ...]


def _arrange(rows: Rows, A: Array, velocity: Array) -> _Problem:
    A = A + jnp.diag(rows.softness)
    b = velocity - rows.target
    diagonal = jnp.diagonal(A)
    # a row that only moves what joints hold already (out-of-plane rows of a four-bar loop) has A = 0 up
    # to rounding and to small misalignments: it keeps its impulse instead of dividing by nothing
    movable = diagonal > rows.least
    s = at = rows.lower.shape[0]
    step = jnp.where(movable[:s], 1 / jnp.where(movable[:s], diagonal[:s], 1), 0)
    patches = []
    for friction in rows.friction:
        m, c = friction.shape
        end = at + 3 * m * c
        first = at + 3 * c * jnp.arange(m)
        shape = (m, c, 3)
        own = A[at:end].reshape(*shape, -1), b[at:end].reshape(shape), movable[at:end].reshape(shape)
        patches.append(_Patches(first, *own, friction))
        at = end
    return _Problem(A[:s], b[:s], step, rows.lower, rows.upper, tuple(patches))


UNROLL = 8
"""Rows written out per loop turn: loop turns cost XLA more than rows do."""


def _sweep_scalars(problem: _Problem, impulse: Array) -> Array:
    """λᵢ ← clip(λᵢ − (Aᵢ λ + bᵢ)/Aᵢᵢ), one scalar row after the other."""
    count = problem.b_scalar.shape[0]
    if not count:
        return impulse

    def update(impulse: Array, row) -> tuple[Array, None]:
        i, A, b, step, lower, upper = row
        new = jnp.clip(impulse[i] - (_inner(A, impulse) + b) * step, lower, upper)
        return impulse.at[i].set(new), None

    rows = (
        jnp.arange(count),
        problem.A_scalar,
        problem.b_scalar,
        problem.step_scalar,
        problem.lower,
        problem.upper,
    )
    return jax.lax.scan(update, impulse, rows, unroll=min(count, UNROLL))[0]


def _sweep_patch(patches: _Patches, impulse: Array, friction: Friction) -> Array:
    """One patch after the other, the contacts of each all at once: symmetric things stay symmetric.

    Contacts that move together would overshoot if each took its full step 1/Aᵢᵢ; 1/Σⱼ|Aᵢⱼ| over those
    that act does not.
    """
    m, c = patches.friction.shape

    def update(impulse: Array, patch: _Patches) -> tuple[Array, None]:
        own = jax.lax.dynamic_slice(impulse, (patch.first,), (3 * c,)).reshape(c, 3)
        A = jax.lax.dynamic_slice_in_dim(patch.A, patch.first, 3 * c, 2).reshape(c, 3, c, 3)
        residual = _inner(patch.A, impulse) + patch.b
        acts = (own[:, 0] > 0) | (residual[:, 0] < 0)
        step = _steps(A[:, 0, :, 0], acts, patch.movable[:, 0])
        normal = jnp.maximum(own[:, 0] - residual[:, 0] * step, 0)
        sliding = residual[:, 1:] + _inner(A[:, 1:, :, 0], normal - own[:, 0])
        coupled = A[:, 1:, :, 1:].reshape(2 * c, 2 * c)
        step = _steps(coupled, jnp.repeat(normal > 0, 2), patch.movable[:, 1:].reshape(-1)).reshape(c, 2)
        tangent = friction.update(own[:, 1:], sliding, step, patch.friction * normal)
        new = jnp.concatenate([normal[:, None], tangent], -1).reshape(-1)
        return jax.lax.dynamic_update_slice(impulse, new, (patch.first,)), None

    return jax.lax.scan(update, impulse, patches, unroll=min(m, max(1, UNROLL // c)))[0]


def _steps(A: Array, acts: Array, movable: Array) -> Array:
    """1/Σⱼ|Aᵢⱼ| over the columns that act, the row's own always; 0 for rows that move nothing."""
    size = _inner(jnp.abs(A), jnp.where(acts | jnp.eye(len(A), dtype=bool), 1.0, 0.0).astype(A.dtype))
    return jnp.where(movable, 1 / jnp.where(movable, size, 1), 0)


def _inner(A: Array, x: Array) -> Array:
    return jnp.sum(A * x, -1)
