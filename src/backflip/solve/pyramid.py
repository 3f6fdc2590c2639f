"""Friction pyramid: each tangent between two bounds of its own."""

import jax.numpy as jnp
from jax import Array

from backflip.math import smallest
from backflip.solve import interval
from backflip.solve.friction import Friction


class Pyramid(Friction):
    """−μ λ_n <= λ_t <= μ λ_n for each tangent, as in Degrave et al."""

    def update(self, impulse: Array, sliding: Array, row_sum: Array, bound: Array) -> Array:
        """Each tangent with its own row sum."""
        return self.project(impulse - sliding * (1 / row_sum), bound)

    def project(self, impulse: Array, bound: Array) -> Array:
        """Each tangent clipped."""
        bound = bound[:, None]
        return jnp.where(bound > 0, jnp.clip(impulse, -bound, bound), 0)

    def slack(self, bound: Array, impulse: Array) -> Array:
        """(k, 2, 2) to either bound of each tangent."""
        return bound[:, None, None] + jnp.stack([impulse, -impulse], -1)

    def product(self, slack: Array, dual: Array) -> Array:
        """Of each bound."""
        return slack * dual

    def unit(self, bound: Array) -> Array:
        """Ones."""
        return jnp.ones((*bound.shape, 2, 2), bound.dtype)

    def central_dual(self, slack: Array, kappa: Array) -> Array:
        """κ / slack; slack is kept above rounding."""
        rounding = jnp.finfo(slack.dtype).eps * jnp.sum(slack, -1, keepdims=True)
        return kappa / jnp.maximum(slack, rounding)

    def sliding(self, dual: Array) -> Array:
        """The difference of the two duals of each tangent."""
        return dual[..., 0] - dual[..., 1]

    def linearise(self, slack: Array, dual: Array) -> tuple[Array, Array, Array]:
        """As in `interval`; both slacks of a tangent grow with the bound."""
        C_w, C_lam = interval.linearise(slack, dual, jnp.ones_like(slack))
        eye = jnp.eye(2, dtype=slack.dtype)
        return C_w[..., None] * eye, C_lam[..., None] * eye, self.right_hand_side(slack, dual)

    def right_hand_side(self, slack: Array, dproduct: Array) -> Array:
        """As in `interval`."""
        return interval.right_hand_side(slack, jnp.ones_like(slack), dproduct)

    def dual_step(
        self, slack: Array, dual: Array, dproduct: Array, dslack: Array, dsliding: Array
    ) -> Array:  # fmt: skip
        """As in `interval`."""
        return interval.dual_step(slack, dual, jnp.ones_like(slack), dproduct, dslack)

    def step_to_boundary(self, x: Array, dx: Array) -> Array:
        """(k, 2, 2)"""
        return interval.step_to_boundary(x, dx)

    def active_set(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Each tangent sticks or slides; where bound and sliding are 0 both slacks are 0 and both duals 1."""
        slack = self.slack(bound, jnp.clip(impulse, -bound[:, None], bound[:, None]))
        slack, dual = interval.active_set(slack, sliding, jnp.ones_like(slack))
        zero = smallest(bound)
        unloaded = ((bound <= zero)[:, None] & (jnp.abs(sliding) <= zero))[..., None]
        return jnp.where(unloaded, 0, slack), jnp.where(unloaded, 1, dual)
