"""Coulomb's law: what friction impulse a normal impulse allows.

For sweeps it is a projection. For Newton's method it is a `room` within the bound, a `slip` that belongs to
it, and a product of the two that is κ on the central path and 0 at its end.
"""

from abc import abstractmethod

import equinox as eqx
from jax import Array


class Friction(eqx.Module):
    """How tangential impulses (k, 2) are held within a bound (k,), μ times the normal impulse."""

    @abstractmethod
    def update(self, impulse: Array, sliding: Array, size: Array, bound: Array) -> Array:
        """Better impulses (k, 2) against `sliding` (k, 2) [m/s]; `size` (k, 2) [1/kg]: how they give way."""

    @abstractmethod
    def nearest(self, impulse: Array, bound: Array) -> Array:
        """The allowed impulses (k, 2) nearest to some."""

    @abstractmethod
    def room(self, bound: Array, impulse: Array) -> Array:
        """(k, m) linear in both; where the bound allows the impulse it lies in a cone."""

    @abstractmethod
    def product(self, room: Array, slip: Array) -> Array:
        """(k, m) κ times `one` on the central path."""

    @abstractmethod
    def one(self, bound: Array) -> Array:
        """(k, m) the unit of the product."""

    @abstractmethod
    def slip(self, room: Array, kappa: Array) -> Array:
        """The slip (k, m) that goes with a room on the central path."""

    @abstractmethod
    def sliding(self, slip: Array) -> Array:
        """w_t (k, 2)."""

    @abstractmethod
    def linear(self, room: Array, slip: Array) -> tuple[Array, Array, Array]:
        """weight (k, 2, 2), stay (k, 2, 2), lean (k, 2): weight dw_t + stay dλ_t + lean dbound = load."""

    @abstractmethod
    def load(self, room: Array, c: Array) -> Array:
        """The right side (k, 2) for wanted changes c (k, m) of the product."""

    @abstractmethod
    def reply(self, room: Array, slip: Array, c: Array, droom: Array, dslide: Array) -> Array:
        """The change (k, m) of slip that goes with one of room and one of w_t (k, 2)."""

    @abstractmethod
    def longest(self, x: Array, dx: Array) -> Array:
        """How far (k, ...) room or slip may go along dx without leaving the cone."""

    @abstractmethod
    def sharp(self, bound: Array, impulse: Array, sliding: Array) -> tuple[Array, Array]:
        """Room and slip (k, m) at the end of the path."""
