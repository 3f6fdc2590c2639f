"""Coulomb's law: the tangential impulses that a normal impulse allows.

PGS needs a projection onto them. The interior point needs a cone: a cone slack, linear in bound and impulse,
and a cone dual, whose tangential part is the sliding velocity w_t. Their product is κ times a unit on the
central path, and 0 at its end.
"""

from abc import abstractmethod

import equinox as eqx
from jax import Array


class Friction(eqx.Module):
    """Bounds tangential impulses (k, 2) by a bound (k,), μ times the normal impulse."""

    @abstractmethod
    def update(self, impulse: Array, sliding: Array, row_sum: Array, bound: Array) -> Array:
        """A projected step (k, 2): impulse − sliding/row_sum, made admissible.

        `sliding` (k, 2) [m/s]; `row_sum` (k, 2) [1/kg]: Σ|A| of each tangent, ∞ where nothing moves.
        """

    @abstractmethod
    def project(self, impulse: Array, bound: Array) -> Array:
        """The nearest admissible impulses (k, 2)."""

    @abstractmethod
    def slack(self, bound: Array, impulse: Array) -> Array:
        """Cone slack (k, m), linear in both; it lies in a cone where the bound admits the impulse."""

    @abstractmethod
    def product(self, slack: Array, dual: Array) -> Array:
        """(k, m) complementarity product: κ times `unit` on the central path."""

    @abstractmethod
    def unit(self, bound: Array) -> Array:
        """(k, m) the unit of the product."""

    @abstractmethod
    def central_dual(self, slack: Array, kappa: Array) -> Array:
        """The cone dual (k, m) with which `product` is κ times `unit`."""

    @abstractmethod
    def sliding(self, dual: Array) -> Array:
        """w_t (k, 2) of a cone dual."""

    @abstractmethod
    def linearise(self, slack: Array, dual: Array) -> tuple[Array, Array, Array]:
        """C_w (k, 2, 2), C_lam (k, 2, 2), C_bound (k, 2) of the linearised complementarity.

        C_w dw_t + C_lam dλ_t + C_bound dbound = right-hand side, the dual eliminated.
        """

    @abstractmethod
    def right_hand_side(self, slack: Array, dproduct: Array) -> Array:
        """Of that equation (k, 2), for wanted changes (k, m) of the product."""

    @abstractmethod
    def dual_step(
        self, slack: Array, dual: Array, dproduct: Array, dslack: Array, dsliding: Array
    ) -> Array:  # fmt: skip
        """Back-substitution: the change (k, m) of the dual, given those of slack and w_t (k, 2)."""

    @abstractmethod
    def step_to_boundary(self, x: Array, dx: Array) -> Array:
        """The longest step (k, ...) along dx that leaves a slack or dual in the cone."""

    @abstractmethod
    def active_set(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Cone slack and dual (k, m) at κ = 0: sticking, sliding or separated contacts."""
