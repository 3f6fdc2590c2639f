"""Projected Gauss-Seidel: a fixed number of sweeps over the rows, so the program has no branches."""

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
    """Sweep over scalar rows, then contacts, each taking what the others have at that moment.

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

        def sweep(impulse: Array, _) -> tuple[Array, None]:
            impulse = _sweep_scalars(problem, impulse)
            return _sweep_contacts(problem, impulse, self.friction), None

        # a sweep is recomputed in the backward pass from the impulses it started with
        body = jax.checkpoint(sweep, prevent_cse=False)
        return jax.lax.scan(body, self.warm_start * rows.start, None, length=self.sweeps)[0]


class _Problem(eqx.Module):
    """A λ + b laid out by scalar rows and by contacts."""

    A_scalar: Array
    b_scalar: Array
    step_scalar: Array
    lower: Array
    upper: Array
    A_contact: Array
    b_contact: Array
    step_contact: Array
    friction: Array


def _arrange(rows: Rows, A: Array, velocity: Array) -> _Problem:
    s, k = rows.lower.shape[0], rows.friction.shape[0]
    A = A + jnp.diag(rows.softness)
    b = velocity - rows.target
    diagonal = jnp.diagonal(A)
    # a row that only moves what joints hold already (out-of-plane rows of a four-bar loop) has A = 0 up
    # to rounding and to small misalignments: it keeps its impulse instead of dividing by nothing
    free = diagonal > rows.least
    step = jnp.where(free, 1 / jnp.where(free, diagonal, 1), 0)
    return _Problem(
        A_scalar=A[:s],
        b_scalar=b[:s],
        step_scalar=step[:s],
        lower=rows.lower,
        upper=rows.upper,
        A_contact=A[s:].reshape(k, 3, s + 3 * k),
        b_contact=b[s:].reshape(k, 3),
        step_contact=step[s:].reshape(k, 3),
        friction=rows.friction,
    )


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


def _sweep_contacts(problem: _Problem, impulse: Array, friction: Friction) -> Array:
    """One contact after the other: the normal impulse, then the friction it allows."""
    count = problem.b_contact.shape[0]
    if not count:
        return impulse
    first = problem.b_scalar.shape[0]

    def update(impulse: Array, row) -> tuple[Array, None]:
        i, A, b, step, mu = row
        at = first + 3 * i
        own = jax.lax.dynamic_slice(impulse, (at,), (3,))
        A_own = jax.lax.dynamic_slice(A, (0, at), (3, 3))
        residual = _inner(A, impulse) + b
        normal = jnp.maximum(own[0] - residual[0] * step[0], 0)
        sliding = residual[1:] + A_own[1:, 0] * (normal - own[0])
        tangent = friction.update(A_own[1:, 1:], step[1:], sliding, own[1:], mu * normal)
        new = jnp.concatenate([normal[None], tangent])
        return jax.lax.dynamic_update_slice(impulse, new, (at,)), None

    rows = (
        jnp.arange(count),
        problem.A_contact,
        problem.b_contact,
        problem.step_contact,
        problem.friction,
    )
    return jax.lax.scan(update, impulse, rows, unroll=min(count, UNROLL))[0]


def _inner(A: Array, x: Array) -> Array:
    return jnp.sum(A * x, -1)
