"""Projected Gauss-Seidel: a fixed number of sweeps over the rows, so the program has no branches.

Scalar rows one after the other, then block Gauss-Seidel over patches of contacts, Jacobi within a patch, with
Nesterov momentum between sweeps.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.math import gram, smallest
from backflip.solve.cone import Cone
from backflip.solve.friction import Friction
from backflip.solve.implicit import Gradient, Unrolled
from backflip.solve.rows import Delassus, Rows, Solution
from backflip.solve.solver import Solver, check_solver


class PGS(Solver):
    """Gauss-Seidel over scalar rows, then patches of contacts; each sees the newest impulses of the others.

    `warm_start` is the part of the last step's impulses to start from: 1 all, 0 none.
    """

    sweeps: int = eqx.field(static=True, default=20)
    friction: Friction = eqx.field(default=Cone(), static=True)
    warm_start: float = eqx.field(static=True, default=1.0)
    gradient: Gradient = eqx.field(default=Unrolled(), static=True)

    def __check_init__(self):
        check_solver(self, "sweeps", self.sweeps)
        if not 0 <= self.warm_start <= 1:
            raise ValueError(f"PGS: warm_start is {self.warm_start}; give a number from 0 to 1")

    def solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Array:
        """Impulses after `sweeps` sweeps."""
        if not rows.layout.rows:
            return jnp.zeros_like(rows.target)
        return self.gradient.differentiate(self._solve, self.friction, 0.0, rows, delassus, velocity)

    def _solve(self, rows: Rows, delassus: Delassus, velocity: Array) -> Solution:
        scalars, patches = _prepare(rows, delassus, velocity)

        def sweep(at: _Iterate, x: tuple[Array, Array]) -> tuple[_Iterate, None]:
            momentum, after_first = x
            response, impulses = _extrapolate(at, scalars, patches, momentum)
            response, scalar = _sweep_scalars(scalars, response, impulses[0])
            new = [scalar]
            for group, own in zip(patches, impulses[1:], strict=True):
                response, updated = _sweep_patches(group, response, own, self.friction, after_first)
                new.append(updated)
            return _Iterate(response, new, at.impulses), None

        # a sweep is recomputed in the backward pass from the impulses it started with
        body = jax.checkpoint(sweep, prevent_cse=False)
        initial = self.warm_start * rows.initial_impulse
        impulses = rows.layout.by_group(initial)
        start = _Iterate(initial @ delassus.factor, impulses, impulses)
        momenta = _momentum_schedule(self.sweeps).astype(initial.dtype)
        end, _ = jax.lax.scan(body, start, (momenta, np.arange(self.sweeps) > 0))
        return Solution(jnp.concatenate([x.reshape(-1) for x in end.impulses]))


class _Iterate(NamedTuple):
    """Between two sweeps."""

    response: Array
    """(f,) factorᵀ λ, the velocities that the impulses give the freedoms"""
    impulses: list[Array]
    """by group"""
    previous: list[Array]
    """those one sweep ago"""


MAX_MOMENTUM = 0.85
"""With more, many sweeps overshoot and oscillate. There is no adaptive restart, as is usual with Nesterov's
method: it would make the impulses discontinuous wherever the sweeps have not converged."""


def _momentum_schedule(sweeps: int) -> np.ndarray:
    """(sweeps,) Nesterov's momentum: how far a sweep's start is extrapolated along the last change."""
    t, momenta = 1.0, []
    for _ in range(sweeps):
        last, t = t, (1 + math.sqrt(1 + 4 * t**2)) / 2
        momenta.append(min((last - 1) / t, MAX_MOMENTUM))
    return np.array([0.0, *momenta[:-1]])


def _extrapolate(
    at: _Iterate, scalars: "_Scalars", patches: list["_Patches"], momentum: Array
) -> tuple[Array, list[Array]]:
    """Response and impulses by group from which a sweep starts.

    Momentum is for problems that minimise something, and sliding friction does not: with momentum, sliding
    contacts oscillate with growing amplitude, and so do their gradients. So a contact's momentum fades as its
    friction reaches the bound.
    """
    changes = [momentum * (x - old) for x, old in zip(at.impulses, at.previous, strict=True)]
    changes[1:] = [
        change * _sticking(own, group.friction)[..., None]
        for change, own, group in zip(changes[1:], at.impulses[1:], patches, strict=True)
    ]
    response = at.response
    for change, factor in zip(changes, [scalars.factor, *(group.factor for group in patches)], strict=True):
        response = response + change.reshape(-1) @ factor.reshape(-1, len(response))
    return response, [x + change for x, change in zip(at.impulses, changes, strict=True)]


def _sticking(impulses: Array, mu: Array) -> Array:
    """(m, c) of contacts (m, c, 3): 0 where they slide or are unloaded, 1 well inside the friction cone."""
    bound, tangent = mu * impulses[..., 0], impulses[..., 1:]
    loaded = bound > smallest(bound)
    used = jnp.where(loaded, _inner(tangent, tangent) / jnp.where(loaded, bound * bound, 1), 1)
    return jnp.clip(2 - 2 * used, 0, 1)


class _Scalars(NamedTuple):
    """Scalar rows, s of them."""

    factor: Array
    """(s, f)"""
    coupling: Array
    """(s,) A between each row and the one before it"""
    offset: Array
    softness: Array
    inverse_diagonal: Array
    """(s,); the last is 0 for immovable rows"""
    lower: Array
    upper: Array
    """(s,)"""


class _Patches(NamedTuple):
    """m patches of c contacts each."""

    factor: Array
    """(m, c, 3, f)"""
    A: Array
    """(m, c, 3, c, 3) within a patch"""
    coupling: Array
    """(m, c, 3, c, 3) A between each patch and the one before it"""
    offset: Array
    softness: Array
    immovable: Array
    """(m, c, 3); the last is ∞ for immovable rows, else 0: added to the row sum, it makes their step 0"""
    friction: Array
    """(m, c)"""


def _prepare(rows: Rows, delassus: Delassus, velocity: Array) -> tuple[_Scalars, list[_Patches]]:
    # a row that only moves what joints hold already (out-of-plane rows of a four-bar loop) has A = 0 up
    # to rounding and to small misalignments: it keeps its impulse, and there is no division by zero
    diagonal = delassus.diagonal() + rows.softness
    movable = diagonal > rows.min_diagonal
    inverse = jnp.where(movable, 1 / jnp.where(movable, diagonal, 1), 0)
    immovable = jnp.where(movable, 0, jnp.inf).astype(inverse.dtype)
    factor, offset, softness, immovables, inverses = (
        rows.layout.by_group(x)
        for x in (delassus.factor, velocity - rows.target, rows.softness, immovable, inverse)
    )
    coupling = _inner(factor[0], _preceding(factor[0]))
    scalars = _Scalars(factor[0], coupling, offset[0], softness[0], inverses[0], rows.lower, rows.upper)
    patches = []
    for i, friction in enumerate(rows.layout.by_patch(rows.friction), 1):
        m, c, _, f = factor[i].shape
        A = gram(factor[i].reshape(m, 3 * c, f)).reshape(m, c, 3, c, 3)
        coupling = jnp.einsum("mcif,mdjf->mcidj", factor[i], _preceding(factor[i]))
        patches.append(_Patches(factor[i], A, coupling, offset[i], softness[i], immovables[i], friction))
    return scalars, patches


def _preceding(x: Array) -> Array:
    """x shifted by one along the first axis; 0 before the first."""
    return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])


UNROLL = 8
"""Rows written out per loop turn: loop turns cost XLA more than rows do."""


def _sweep(update: Callable, rows: _Scalars | _Patches, response: Array, impulses: Array, unroll: int) -> Any:
    """`update(row, response, last_change, own)` for one row or patch after the other; returns both updated.

    The `response` that a row gets lacks only the change of the row just before, `last_change`; `coupling`
    accounts for that. So a row waits for one product with the row before it, and not until that has changed
    the velocity of every freedom.
    """
    shape = impulses.shape[1:]

    def one(at: tuple[Array, Array, Array], x: tuple) -> tuple[tuple[Array, Array, Array], Array]:
        response, factor, last_change = at
        row, own = x
        new = update(row, response, last_change, own)
        response = response + last_change.reshape(-1) @ factor
        return (response, row.factor.reshape(factor.shape), new - own), new

    factor = jnp.zeros((math.prod(shape), *response.shape), response.dtype)
    start = response, factor, jnp.zeros(shape, response.dtype)
    (response, factor, last_change), new = jax.lax.scan(one, start, (rows, impulses), unroll=unroll)
    return response + last_change.reshape(-1) @ factor, new


def _sweep_scalars(rows: _Scalars, response: Array, impulses: Array) -> tuple[Array, Array]:
    """λᵢ ← clip(λᵢ − (Aᵢ λ + bᵢ)/Aᵢᵢ), one scalar row after the other."""

    def update(row: _Scalars, response: Array, last_change: Array, own: Array) -> Array:
        w = _inner(row.factor, response) + row.softness * own + row.offset + row.coupling * last_change
        new = own - w * row.inverse_diagonal
        return jnp.where(new < row.lower, row.lower, jnp.where(new > row.upper, row.upper, new))

    count = impulses.shape[0]
    return _sweep(update, rows, response, impulses, min(count, UNROLL)) if count else (response, impulses)


def _sweep_patches(
    patches: _Patches, response: Array, impulses: Array, friction: Friction, after_first: Array
) -> tuple[Array, Array]:
    """Gauss-Seidel over patches, Jacobi within a patch: symmetric scenes stay symmetric.

    Jacobi steps of 1/Aᵢᵢ would overshoot where the contacts of a patch move each other; steps of 1/Σⱼ|Aᵢⱼ|
    over the active contacts do not.
    """
    m, c = patches.friction.shape
    same = jnp.eye(c, dtype=bool)

    def update(patch: _Patches, response: Array, last_change: Array, own: Array) -> Array:
        A = patch.A
        w = _inner(patch.factor, response) + patch.softness * own + patch.offset
        w += _inner(patch.coupling.reshape(c, 3, 3 * c), last_change.reshape(-1))
        # direction of a normal step: friction follows where the contact slides
        direction = jnp.concatenate([jnp.ones((c, 1), own.dtype), _friction_ratio(own, patch.friction)], -1)
        A_direction = jnp.einsum("cidj,dj->cid", A, direction)
        A_normal, of_friction = jnp.abs(A[:, 0, :, 0]), jnp.diagonal(A_direction[:, 0] - A[:, 0, :, 0])
        active = (own[:, 0] > 0) | (w[:, 0] < 0)
        row_sum = _inner(A_normal, _indicator(active | same, A.dtype))
        row_sum = jnp.where(2 * of_friction < -row_sum, row_sum / 2, row_sum + of_friction)
        row_sum = row_sum + patch.immovable[:, 0]
        normal = jnp.maximum(own[:, 0] - w[:, 0] * (1 / row_sum), 0)
        change = normal - own[:, 0]
        tangent = own[:, 1:] + direction[:, 1:] * change[:, None]
        sliding = w[:, 1:] + _inner(A_direction[:, 1:], change)
        A_tangent = jnp.sum(jnp.abs(A[:, 1:, :, 1:]), -1)
        loaded = _indicator((normal > 0) | same, A.dtype)
        row_sum = _inner(A_tangent, loaded[:, None]) + patch.immovable[:, 1:]
        tangent = friction.update(tangent, sliding, row_sum, patch.friction * normal)
        new = jnp.concatenate([normal[:, None], tangent], -1)
        # a contact may alternate between sticking and sliding for ever: damp that from the second sweep on
        switches = after_first & (_slides(own, patch.friction) != _slides(new, patch.friction))
        return jnp.where(switches, (own + new) / 2, new)

    return _sweep(update, patches, response, impulses, min(m, max(1, UNROLL // c)))


def _indicator(where: Array, dtype: Any) -> Array:
    return jnp.where(where, 1, 0).astype(dtype)


def _friction_ratio(own: Array, mu: Array) -> Array:
    """(c, 2) λ_t/λ_n where a contact slides, else 0: how friction changes with the normal impulse.

    Without it, a sliding contact whose normal and tangents are coupled oscillates with growing amplitude.
    """
    normal, slides = own[:, :1], _slides(own, mu)
    return own[:, 1:] * jnp.where(slides, 1 / jnp.where(slides, normal, 1), 0)


def _slides(own: Array, mu: Array) -> Array:
    """(c, 1) whether a loaded contact has friction at its bound."""
    normal, tangent = own[:, :1], own[:, 1:]
    at_bound = jnp.sum(tangent * tangent, -1, keepdims=True) >= (0.999 * mu[:, None] * normal) ** 2
    return at_bound & (normal > smallest(own))


def _inner(A: Array, x: Array) -> Array:
    return jnp.sum(A * x, -1)
