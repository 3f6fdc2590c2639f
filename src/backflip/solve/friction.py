"""Coulomb's law as a projection: what friction impulse a normal impulse allows."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from backflip.math import norm


class Friction(eqx.Module):
    """How tangential impulses (2,) are held within a bound, μ times the normal impulse."""

    def update(self, A: Array, step: Array, sliding: Array, impulse: Array, bound: Array) -> Array:
        """Better impulse (2,) against `sliding` (2,) [m/s]; A (2, 2) is the tangents' own block,
        `step` (2,) its inverted diagonal."""
        raise NotImplementedError


class Cone(Friction):
    """‖λ_t‖ <= μ λ_n: the same in every direction."""

    def update(self, A: Array, step: Array, sliding: Array, impulse: Array, bound: Array) -> Array:
        """One step against the sliding by the larger eigenvalue of A, then radially onto the disc."""
        mean, half = (A[0, 0] + A[1, 1]) / 2, (A[0, 0] - A[1, 1]) / 2
        largest = mean + norm(jnp.stack([half, A[0, 1]]))
        movable = (step[0] > 0) | (step[1] > 0)
        wanted = impulse - sliding * jnp.where(movable, 1 / jnp.where(movable, largest, 1), 0)
        length = norm(wanted)
        outside = length > bound
        return wanted * jnp.where(outside, bound / jnp.where(outside, length, 1), 1)


class Pyramid(Friction):
    """−μ λ_n <= λ_t <= μ λ_n: each tangent by itself, as Degrave et al. have it."""

    def update(self, A: Array, step: Array, sliding: Array, impulse: Array, bound: Array) -> Array:
        """One tangent after the other."""
        first = jnp.clip(impulse[0] - sliding[0] * step[0], -bound, bound)
        rest = sliding[1] + A[1, 0] * (first - impulse[0])
        second = jnp.clip(impulse[1] - rest * step[1], -bound, bound)
        return jnp.stack([first, second])
