"""Projected Gauss-Seidel: a fixed number of sweeps over the rows, so the program has no branches."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.solve.friction import Cone, Friction
from backflip.solve.rows import Mobility, Rows


class Solver(eqx.Module):
    """Finds the impulses that make rows hold."""

    def solve(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        """Impulses λ (r,) [N s]; velocity (r,) is J V before them."""
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

    def solve(self, rows: Rows, mobility: Mobility, velocity: Array) -> Array:
        """Impulses after `sweeps` sweeps."""
        if not rows.target.shape[0]:
            return jnp.zeros_like(rows.target)
        scalars, patches = _arrange(rows, mobility, velocity)

        def sweep(at: _Momentum, _) -> tuple[_Momentum, None]:
            moved, impulses = at.ahead
            moved, scalar = _sweep_scalars(scalars, moved, impulses[0])
            new = [scalar]
            for group, own in zip(patches, impulses[1:], strict=True):
                moved, found = _sweep_patches(group, moved, own, self.friction)
                new.append(found)
            return _gain(at, (moved, new)), None

        # a sweep is recomputed in the backward pass from the impulses it started with
        body = jax.checkpoint(sweep, prevent_cse=False)
        start = self.warm_start * rows.start
        first = start @ mobility.given, _by_group(rows, start)
        begin = _Momentum(first, first, jnp.ones((), start.dtype))
        _, impulses = jax.lax.scan(body, begin, None, length=self.sweeps)[0].now
        return jnp.concatenate([x.reshape(-1) for x in impulses])


class _Momentum(NamedTuple):
    """Nesterov's: a sweep begins some way ahead, in the direction the last one went."""

    now: tuple[Array, list[Array]]
    """what the impulses move (f,), and the impulses by group"""
    ahead: tuple[Array, list[Array]]
    weight: Array


MOMENTUM = 0.85
"""Most of it: beyond, many sweeps overshoot and swing back. Never started afresh where it leads uphill, as
is usual: that would make the impulses jump wherever the sweeps have not converged."""


def _gain(at: _Momentum, new: tuple[Array, list[Array]]) -> _Momentum:
    """Go on from the `new` impulses with more momentum."""
    weight = (1 + jnp.sqrt(1 + 4 * at.weight**2)) / 2
    part = jnp.minimum((at.weight - 1) / weight, MOMENTUM)
    return _Momentum(new, jax.tree.map(lambda x, old: x + part * (x - old), new, at.now), weight)


class _Scalars(NamedTuple):
    """Scalar rows, s of them."""

    felt: Array
    given: Array
    """(s, f)"""
    offset: Array
    softness: Array
    step: Array
    lower: Array
    upper: Array
    """(s,)"""


class _Patches(NamedTuple):
    """m patches of c contacts each."""

    felt: Array
    given: Array
    """(m, c, 3, f)"""
    A: Array
    """(m, c, 3, c, 3) how the rows of a patch move each other"""
    offset: Array
    softness: Array
    movable: Array
    """(m, c, 3)"""
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
    felt, given, offset, softness, moves, steps = (
        _by_group(rows, x)
        for x in (mobility.felt, mobility.given, velocity - rows.target, rows.softness, movable, step)
    )
    scalars = _Scalars(felt[0], given[0], offset[0], softness[0], steps[0], rows.lower, rows.upper)
    patches = []
    for i, friction in enumerate(rows.friction, 1):
        A = jnp.einsum("mcif,mdjf->mcidj", felt[i], given[i])
        patches.append(_Patches(felt[i], given[i], A, offset[i], softness[i], moves[i], friction))
    return scalars, patches


UNROLL = 8
"""Rows written out per loop turn: loop turns cost XLA more than rows do."""


def _sweep_scalars(rows: _Scalars, moved: Array, impulses: Array) -> tuple[Array, Array]:
    """λᵢ ← clip(λᵢ − (Aᵢ λ + bᵢ)/Aᵢᵢ), one scalar row after the other."""

    def update(moved: Array, at: tuple[_Scalars, Array]) -> tuple[Array, Array]:
        row, own = at
        residual = _inner(row.felt, moved) + row.softness * own + row.offset
        new = jnp.clip(own - residual * row.step, row.lower, row.upper)
        return moved + row.given * (new - own), new

    count = impulses.shape[0]
    if not count:
        return moved, impulses
    return jax.lax.scan(update, moved, (rows, impulses), unroll=min(count, UNROLL))


def _sweep_patches(
    patches: _Patches, moved: Array, impulses: Array, friction: Friction
) -> tuple[Array, Array]:
    """One patch after the other, the contacts of each all at once: symmetric things stay symmetric.

    Contacts that move together would overshoot if each took its full step 1/Aᵢᵢ; 1/Σⱼ|Aᵢⱼ| over those
    that act does not.
    """
    m, c = patches.friction.shape

    def update(moved: Array, at: tuple[_Patches, Array]) -> tuple[Array, Array]:
        patch, own = at
        A = patch.A
        residual = _inner(patch.felt, moved) + patch.softness * own + patch.offset
        acts = (own[:, 0] > 0) | (residual[:, 0] < 0)
        follows = _follows(own, patch.friction)
        each = jnp.arange(c)
        drawn = jnp.sum(A[each, 0, each, 1:] * follows, -1)
        step = _steps(A[:, 0, :, 0], acts, patch.movable[:, 0], drawn)
        normal = jnp.maximum(own[:, 0] - residual[:, 0] * step, 0)
        change = normal - own[:, 0]
        along = own[:, 1:] + follows * change[:, None]
        moves = jnp.concatenate([change[:, None], along - own[:, 1:]], -1).reshape(-1)
        sliding = residual[:, 1:] + _inner(A[:, 1:].reshape(c, 2, 3 * c), moves)
        coupled = A[:, 1:, :, 1:].reshape(2 * c, 2 * c)
        step = _steps(coupled, jnp.repeat(normal > 0, 2), patch.movable[:, 1:].reshape(-1)).reshape(c, 2)
        tangent = friction.update(along, sliding, step, patch.friction * normal)
        new = jnp.concatenate([normal[:, None], tangent], -1)
        return moved + (new - own).reshape(-1) @ patch.given.reshape(3 * c, -1), new

    return jax.lax.scan(update, moved, (patches, impulses), unroll=min(m, max(1, UNROLL // c)))


def _follows(own: Array, mu: Array) -> Array:
    """(c, 2) how friction goes with the normal impulse: in proportion where it slides.

    Otherwise a sliding contact whose normal and tangents move each other swings up from sweep to sweep.
    """
    normal, tangent = own[:, :1], own[:, 1:]
    slides = jnp.sum(tangent * tangent, -1, keepdims=True) >= (0.999 * mu[:, None] * normal) ** 2
    # an impulse so small that its reciprocal would not be a number carries no friction worth following
    slides = slides & (normal > jnp.finfo(own.dtype).tiny ** 0.5)
    return jnp.where(slides, tangent / jnp.where(slides, normal, 1), 0)


def _steps(A: Array, acts: Array, movable: Array, drawn: Array | float = 0.0) -> Array:
    """1/Σⱼ|Aᵢⱼ| over the columns that act, the row's own always; 0 for rows that move nothing.

    `drawn` is what friction that follows adds to a row's own A.
    """
    size = _inner(jnp.abs(A), jnp.where(acts | jnp.eye(len(A), dtype=bool), 1.0, 0.0).astype(A.dtype))
    size = jnp.maximum(size + drawn, size / 2)
    return jnp.where(movable, 1 / jnp.where(movable, size, 1), 0)


def _inner(A: Array, x: Array) -> Array:
    return jnp.sum(A * x, -1)
