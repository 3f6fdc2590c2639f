"""Coulomb's friction cone.

The cone slack (k, 3) is (μ λ_n, λ_t), the cone dual (k, 3) is (γ, w_t); both lie in the second-order cone
x₀ >= |x_t|, and their Jordan product is (κ, 0, 0) on the central path. At κ = 0 a contact sticks, w_t = 0, or
slides, λ_t = −μ λ_n w_t / |w_t| with γ = |w_t|, the sliding speed.
"""

import jax.numpy as jnp
from jax import Array

from backflip.math import dot, norm, outer, smallest
from backflip.solve.friction import Friction
from backflip.solve.interval import MAX_STEP


class Cone(Friction):
    """‖λ_t‖ <= μ λ_n: isotropic."""

    def update(self, impulse: Array, sliding: Array, row_sum: Array, bound: Array) -> Array:
        """One step length for both tangents, that of the larger row sum; then projected onto the disc."""
        # an immovable tangent, out of the plane of a planar scene, does not count and gets no impulse
        movable = jnp.isfinite(row_sum)
        largest = jnp.max(jnp.where(movable, row_sum, 0), -1, keepdims=True)
        step = jnp.where(movable, 1 / jnp.where(largest > 0, largest, 1), 0)
        return self.project(impulse - sliding * step, bound)

    def project(self, impulse: Array, bound: Array) -> Array:
        """Scaled onto the disc."""
        square = dot(impulse, impulse)
        outside = square > bound * bound
        # an unloaded contact has no friction, not even where it does not slide
        inside = jnp.where(bound > 0, 1.0, 0.0)
        factor = jnp.where(outside, bound / jnp.sqrt(jnp.where(outside, square, 1)), inside)
        return impulse * factor[:, None]

    def slack(self, bound: Array, impulse: Array) -> Array:
        """(k, 3) the bound, then the impulse."""
        return jnp.concatenate([bound[:, None], impulse], -1)

    def product(self, slack: Array, dual: Array) -> Array:
        """Jordan's, x ∘ y = (x · y, x₀ y_t + y₀ x_t)."""
        tangential = slack[:, :1] * dual[:, 1:] + dual[:, :1] * slack[:, 1:]
        return jnp.concatenate([dot(slack, dual)[:, None], tangential], -1)

    def unit(self, bound: Array) -> Array:
        """(1, 0, 0)."""
        return jnp.zeros((*bound.shape, 3), bound.dtype).at[:, 0].set(1)

    def central_dual(self, slack: Array, kappa: Array) -> Array:
        """κ slack⁻¹, for slack within the cone or, by rounding, on it."""
        ratio = _friction_ratio(slack)
        inside = jnp.maximum(1 - dot(ratio, ratio), jnp.finfo(slack.dtype).eps)
        inverse = jnp.concatenate([jnp.ones_like(slack[:, :1]), -ratio], -1) / (slack[:, 0] * inside)[:, None]
        return kappa * inverse

    def sliding(self, dual: Array) -> Array:
        """All but the first."""
        return dual[:, 1:]

    def linearise(self, slack: Array, dual: Array) -> tuple[Array, Array, Array]:
        """dslack ∘ dual + slack ∘ ddual = dproduct: tangential part less λ_t/(μ λ_n) times the first."""
        ratio, eye = _friction_ratio(slack), jnp.eye(2, dtype=slack.dtype)
        C_w = slack[:, :1, None] * eye - outer(slack[:, 1:], ratio)
        C_lam = dual[:, :1, None] * eye - outer(ratio, dual[:, 1:])
        return C_w, C_lam, dual[:, 1:] - ratio * dual[:, :1]

    def right_hand_side(self, slack: Array, dproduct: Array) -> Array:
        """Eliminated in the same way."""
        return dproduct[:, 1:] - _friction_ratio(slack) * dproduct[:, :1]

    def dual_step(
        self, slack: Array, dual: Array, dproduct: Array, dslack: Array, dsliding: Array
    ) -> Array:  # fmt: skip
        """(dγ, dw_t); dγ from the first part of the linearised product."""
        first = dproduct[:, 0] - dot(dual, dslack) - dot(slack[:, 1:], dsliding)
        return jnp.concatenate([(first / slack[:, 0])[:, None], dsliding], -1)

    def step_to_boundary(self, x: Array, dx: Array) -> Array:
        """(k,) the smallest positive root t of y·R y = 0 or y₀ = 0, y = x + t dx, R = diag(1, −1, −1)."""
        sign = jnp.array([1, -1, -1], x.dtype)
        a, b, c = dot(sign * dx, dx), dot(sign * x, dx), dot(sign * x, x)
        root = jnp.sqrt(jnp.maximum(b * b - a * c, 0))
        # 1/t of the roots: the largest positive one is the nearest boundary
        c = jnp.maximum(c, jnp.finfo(x.dtype).eps * x[:, 0] * x[:, 0])
        inverse = jnp.maximum((-b + root) / c, -dx[:, 0] / x[:, 0])
        finite = inverse * MAX_STEP > 1
        return jnp.where(finite, 1 / jnp.where(finite, inverse, 1), MAX_STEP)

    def active_set(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Sticking: the dual is 0. Sliding: slack and dual lie on the cone's surface."""
        zero = smallest(bound)
        trial = impulse - sliding
        length = norm(trial)
        loaded = bound > zero
        slides = (length > bound) & (length > zero)
        direction = jnp.where(slides, 1 / jnp.where(slides, length, 1), 0)[:, None] * trial
        radius = jnp.where(loaded, bound, 0)
        gamma = jnp.where(slides, length - bound, jnp.where(loaded, 0, 1))
        slack = jnp.concatenate([radius[:, None], radius[:, None] * direction], -1)
        dual = jnp.concatenate([gamma[:, None], -gamma[:, None] * direction], -1)
        return slack, dual


def _friction_ratio(slack: Array) -> Array:
    """(k, 2) λ_t / (μ λ_n), within the unit disc; 0 where the contact is unloaded."""
    loaded = slack[:, :1] > 0
    return jnp.where(loaded, slack[:, 1:] / jnp.where(loaded, slack[:, :1], 1), 0)
