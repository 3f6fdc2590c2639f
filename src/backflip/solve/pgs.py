"""Projected Gauss-Seidel: a fixed number of sweeps over the rows, so the program has no branches."""

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
from backflip.solve.rows import Mobility, Rows
from backflip.solve.solver import Solver, check_solver


class PGS(Solver):
    """Sweep over scalar rows, then patches of contacts, each taking what the others have at that moment.

    `warm_start` is the part of the last step's impulses to begin with: 1 all, 0 from nothing.
    """

    sweeps: int = eqx.field(static=True, default=20)
    friction: Friction = eqx.field(default=Cone(), static=True)
    warm_start: float = eqx.field(static=True, default=1.0)
    gradient: Gradient = eqx.field(default=Unrolled(), static=True)

    def __check_init__(self):
        check_solver(self, "sweeps", self.sweeps)
        if not 0 <= self.warm_start <= 1:
            raise ValueError(f"PGS: warm_start is {self.warm_start}; give a number from 0 to 1")

    def solve(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        """Impulses after `sweeps` sweeps."""
        if not rows.target.shape[0]:
            return jnp.zeros_like(rows.target)
        return self.gradient.through(self._find, self.friction, 0.0, rows, mobility, velocity)

    def _find(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        scalars, patches = _arrange(rows, mobility, velocity)

        def sweep(at: _Progress, x: tuple[Array, Array]) -> tuple[_Progress, None]:
            part, later = x
            moved, impulses = _go_ahead(at, scalars, patches, part)
            moved, scalar = _sweep_scalars(scalars, moved, impulses[0])
            new = [scalar]
            for group, own in zip(patches, impulses[1:], strict=True):
                moved, found = _sweep_patches(group, moved, own, self.friction, later)
                new.append(found)
            return _Progress(moved, new, at.impulses), None

        # a sweep is recomputed in the backward pass from the impulses it started with
        body = jax.checkpoint(sweep, prevent_cse=False)
        start = self.warm_start * rows.start
        impulses = _by_group(rows, start)
        begin = _Progress(start @ mobility.share, impulses, impulses)
        end, _ = jax.lax.scan(
            body, begin, (_momenta(self.sweeps).astype(start.dtype), np.arange(self.sweeps) > 0)
        )
        return jnp.concatenate([x.reshape(-1) for x in end.impulses])


class _Progress(NamedTuple):
    """Between two sweeps."""

    moved: Array
    """(f,) what the impulses move"""
    impulses: list[Array]
    """by group"""
    before: list[Array]
    """those a sweep earlier"""


MOMENTUM = 0.85
"""Most of it: beyond, many sweeps overshoot and swing back. Never started afresh where it leads uphill, as
is usual: that would make the impulses jump wherever the sweeps have not converged."""


def _momenta(sweeps: int) -> np.ndarray:
    """(sweeps,) Nesterov's: how far a sweep begins ahead, in the direction the last one went."""
    weight, found = 1.0, []
    for _ in range(sweeps):
        last, weight = weight, (1 + math.sqrt(1 + 4 * weight**2)) / 2
        found.append(min((last - 1) / weight, MOMENTUM))
    return np.array([0.0, *found[:-1]])


def _go_ahead(
    at: _Progress, scalars: "_Scalars", patches: list["_Patches"], part: Array
) -> tuple[Array, list[Array]]:
    """Where a sweep begins: what is moved, and the impulses by group.

    Momentum is for problems that minimise something, and friction that slides does not: with it, sliding
    feet swing up from sweep to sweep, and their gradients with them. So a contact's fades as it uses up its
    friction.
    """
    leads = [part * (x - old) for x, old in zip(at.impulses, at.before, strict=True)]
    leads[1:] = [
        lead * _steadiness(own, group.friction)[..., None]
        for lead, own, group in zip(leads[1:], at.impulses[1:], patches, strict=True)
    ]
    moved = at.moved
    for lead, share in zip(leads, [scalars.share, *(group.share for group in patches)], strict=True):
        moved = moved + lead.reshape(-1) @ share.reshape(-1, len(moved))
    return moved, [x + lead for x, lead in zip(at.impulses, leads, strict=True)]


def _steadiness(impulses: Array, mu: Array) -> Array:
    """(m, c) of contacts (m, c, 3): 0 where they slide or bear nothing, 1 well inside the cone."""
    bound, tangent = mu * impulses[..., 0], impulses[..., 1:]
    bears = bound > smallest(bound)
    used = jnp.where(bears, _inner(tangent, tangent) / jnp.where(bears, bound * bound, 1), 1)
    return jnp.clip(2 - 2 * used, 0, 1)


class _Scalars(NamedTuple):
    """Scalar rows, s of them."""

    share: Array
    """(s, f)"""
    back: Array
    """(s,) how the row before moves this one"""
    offset: Array
    softness: Array
    step: Array
    lower: Array
    upper: Array
    """(s,)"""


class _Patches(NamedTuple):
    """m patches of c contacts each."""

    share: Array
    """(m, c, 3, f)"""
    A: Array
    """(m, c, 3, c, 3) how the rows of a patch move each other"""
    back: Array
    """(m, c, 3, c, 3) how those of the patch before move them"""
    offset: Array
    softness: Array
    held: Array
    """(m, c, 3); ∞ for rows that move nothing, else 0"""
    friction: Array
    """(m, c)"""


def _by_group(rows: Rows, x: Array) -> list[Array]:
    """Something of every row (r, ...): that of the scalar rows (s, ...), of patches (m, c, 3, ...), ..."""
    at = rows.lower.shape[0]
    groups = [x[:at]]
    for friction in rows.friction:
        end = at + 3 * friction.size
        groups.append(x[at:end].reshape(*friction.shape, 3, *x.shape[1:]))
        at = end
    return groups


def _arrange(rows: Rows, mobility: Mobility, velocity: Array) -> tuple[_Scalars, list[_Patches]]:
    # a row that only moves what joints hold already (out-of-plane rows of a four-bar loop) has A = 0 up
    # to rounding and to small misalignments: it keeps its impulse instead of dividing by nothing
    diagonal = mobility.diagonal() + rows.softness
    movable = diagonal > rows.least
    step = jnp.where(movable, 1 / jnp.where(movable, diagonal, 1), 0)
    held = jnp.where(movable, 0, jnp.inf).astype(step.dtype)
    share, offset, softness, holds, steps = (
        _by_group(rows, x) for x in (mobility.share, velocity - rows.target, rows.softness, held, step)
    )
    back = _inner(share[0], _before(share[0]))
    scalars = _Scalars(share[0], back, offset[0], softness[0], steps[0], rows.lower, rows.upper)
    patches = []
    for i, friction in enumerate(rows.friction, 1):
        m, c, _, f = share[i].shape
        A = gram(share[i].reshape(m, 3 * c, f)).reshape(m, c, 3, c, 3)
        back = jnp.einsum("mcif,mdjf->mcidj", share[i], _before(share[i]))
        patches.append(_Patches(share[i], A, back, offset[i], softness[i], holds[i], friction))
    return scalars, patches


def _before(x: Array) -> Array:
    """What stands before each along the first axis; nothing before the first."""
    return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])


UNROLL = 8
"""Rows written out per loop turn: loop turns cost XLA more than rows do."""


def _sweep(update: Callable, rows: _Scalars | _Patches, moved: Array, impulses: Array, unroll: int) -> Any:
    """`update(row, moved, last, own)` one after the other; returns what is moved, and the new impulses.

    What a row sees in `moved` is all but the change of the row before, `last`: that it gets straight, so
    that a row waits for one product of the row before it, and not until that has moved every freedom.
    """
    shape = impulses.shape[1:]

    def one(at: tuple[Array, Array, Array], x: tuple) -> tuple[tuple[Array, Array, Array], Array]:
        moved, share, last = at
        row, own = x
        new = update(row, moved, last, own)
        return (moved + last.reshape(-1) @ share, row.share.reshape(share.shape), new - own), new

    share = jnp.zeros((math.prod(shape), *moved.shape), moved.dtype)
    begin = moved, share, jnp.zeros(shape, moved.dtype)
    (moved, share, last), new = jax.lax.scan(one, begin, (rows, impulses), unroll=unroll)
    return moved + last.reshape(-1) @ share, new


def _sweep_scalars(rows: _Scalars, moved: Array, impulses: Array) -> tuple[Array, Array]:
    """λᵢ ← clip(λᵢ − (Aᵢ λ + bᵢ)/Aᵢᵢ), one scalar row after the other."""

    def update(row: _Scalars, moved: Array, last: Array, own: Array) -> Array:
        residual = _inner(row.share, moved) + row.softness * own + row.offset + row.back * last
        new = own - residual * row.step
        return jnp.where(new < row.lower, row.lower, jnp.where(new > row.upper, row.upper, new))

    count = impulses.shape[0]
    return _sweep(update, rows, moved, impulses, min(count, UNROLL)) if count else (moved, impulses)


def _sweep_patches(
    patches: _Patches, moved: Array, impulses: Array, friction: Friction, later: Array
) -> tuple[Array, Array]:
    """One patch after the other, the contacts of each all at once: symmetric things stay symmetric.

    Contacts that move together would overshoot if each took its full step 1/Aᵢᵢ; 1/Σⱼ|Aᵢⱼ| over those
    that act does not.
    """
    m, c = patches.friction.shape
    same = jnp.eye(c, dtype=bool)

    def update(patch: _Patches, moved: Array, last: Array, own: Array) -> Array:
        A = patch.A
        residual = _inner(patch.share, moved) + patch.softness * own + patch.offset
        residual += _inner(patch.back.reshape(c, 3, 3 * c), last.reshape(-1))
        # a unit of normal impulse takes its friction along
        unit = jnp.concatenate([jnp.ones((c, 1), own.dtype), _follows(own, patch.friction)], -1)
        drags = jnp.einsum("cidj,dj->cid", A, unit)
        normals, drawn = jnp.abs(A[:, 0, :, 0]), jnp.diagonal(drags[:, 0] - A[:, 0, :, 0])
        acts = (own[:, 0] > 0) | (residual[:, 0] < 0)
        size = _inner(normals, _one(acts | same, A.dtype))
        size = jnp.where(2 * drawn < -size, size / 2, size + drawn) + patch.held[:, 0]
        normal = jnp.maximum(own[:, 0] - residual[:, 0] * (1 / size), 0)
        change = normal - own[:, 0]
        along = own[:, 1:] + unit[:, 1:] * change[:, None]
        sliding = residual[:, 1:] + _inner(drags[:, 1:], change)
        size = _inner(jnp.sum(jnp.abs(A[:, 1:, :, 1:]), -1), _one((normal > 0) | same, A.dtype)[:, None])
        tangent = friction.update(along, sliding, size + patch.held[:, 1:], patch.friction * normal)
        new = jnp.concatenate([normal[:, None], tangent], -1)
        # a contact may slide in every second sweep, for ever: from the second on it takes half the way
        turns = later & (_slides(own, patch.friction) != _slides(new, patch.friction))
        return jnp.where(turns, (own + new) / 2, new)

    return _sweep(update, patches, moved, impulses, min(m, max(1, UNROLL // c)))


def _one(where: Array, dtype: Any) -> Array:
    return jnp.where(where, 1, 0).astype(dtype)


def _follows(own: Array, mu: Array) -> Array:
    """(c, 2) how friction goes with the normal impulse: in proportion where it slides.

    Otherwise a sliding contact whose normal and tangents move each other swings up from sweep to sweep.
    """
    normal, slides = own[:, :1], _slides(own, mu)
    return own[:, 1:] * jnp.where(slides, 1 / jnp.where(slides, normal, 1), 0)


def _slides(own: Array, mu: Array) -> Array:
    """(c, 1) whether a contact that bears something uses up its friction."""
    normal, tangent = own[:, :1], own[:, 1:]
    all_used = jnp.sum(tangent * tangent, -1, keepdims=True) >= (0.999 * mu[:, None] * normal) ** 2
    return all_used & (normal > smallest(own))


def _inner(A: Array, x: Array) -> Array:
    return jnp.sum(A * x, -1)
