"""Shapes as descriptions, and what follows from their size: volume and inertia.

A description is plain floats, all in metres. `pack()` gives the three numbers that the model keeps as a
differentiable leaf; from then on a shape is its `kind` and its `size (3,)`. Of a hull the model keeps the
corners (v, 3) instead. Either is called its form. A new solid is one dataclass and one line in `SOLIDS`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry.bulk import hull_bulk
from backflip.geometry.outline import Outline, outline_of

Size = tuple[float, float, float]


@dataclass(frozen=True)
class Plane:
    """The half-space below its own origin: local z points out of the ground."""

    kind: ClassVar[str] = "plane"

    def pack(self) -> Size:
        """(0, 0, 0): a plane has no size."""
        return (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Sphere:
    """A ball about its origin; radius [m]."""

    radius: float
    kind: ClassVar[str] = "sphere"

    def pack(self) -> Size:
        """(radius, 0, 0) [m]."""
        return (self.radius, 0.0, 0.0)


@dataclass(frozen=True)
class Capsule:
    """A cylinder of `length` along local z and a half-ball on either end: length + 2 radius overall [m]."""

    radius: float
    length: float
    kind: ClassVar[str] = "capsule"

    def pack(self) -> Size:
        """(radius, length, 0) [m]."""
        return (self.radius, self.length, 0.0)


@dataclass(frozen=True)
class Box:
    """A block about its origin; size = full edge lengths (lx, ly, lz) [m]."""

    size: Size
    kind: ClassVar[str] = "box"

    def pack(self) -> Size:
        """(lx, ly, lz) [m]."""
        x, y, z = self.size
        return (x, y, z)


@dataclass(frozen=True)
class Cylinder:
    """A round rod about its origin, of `radius` and `length` along local z, with flat ends [m]."""

    radius: float
    length: float
    kind: ClassVar[str] = "cylinder"

    def pack(self) -> Size:
        """(radius, length, 0) [m]."""
        return (self.radius, self.length, 0.0)


@dataclass(frozen=True, eq=False)
class Hull:
    """The convex hull of points (n, 3) [m], which say where it is; points inside it are left out."""

    points: Sequence[Sequence[float]] | np.ndarray
    kind: ClassVar[str] = "hull"

    def pack(self) -> Size:
        """(0, 0, 0): a hull has corners instead of a size."""
        return (0.0, 0.0, 0.0)

    @cached_property
    def vertices(self) -> np.ndarray:
        """(v, 3) [m] its corners."""
        return self._found[0]

    @cached_property
    def outline(self) -> Outline:
        """Its faces and edges."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[np.ndarray, Outline]:
        return outline_of(np.asarray(self.points, float))


Shape = Plane | Sphere | Capsule | Box | Cylinder | Hull


class Bulk(NamedTuple):
    """What a solid weighs and where, in its own frame."""

    volume: Array
    """[m³]"""
    centre: Array
    """(3,) [m] of mass"""
    inertia: Array
    """(3, 3) [m²] per mass, about the centre of mass"""


class Solid(NamedTuple):
    """What a kind of solid knows of itself, as functions of its size (3,)."""

    volume: Callable[[Array], Array]
    unit_inertia: Callable[[Array], Array]


def bulk(kind: str, form: Array, outline: Outline | None = None) -> Bulk:
    """The bulk of a solid: of a hull from its corners (v, 3) and outline, of others from their size (3,)."""
    if outline is not None:
        return Bulk(*hull_bulk(outline, form))
    return Bulk(volume(kind, form), jnp.zeros(3, form.dtype), jnp.diag(unit_inertia(kind, form)))


def volume(kind: str, size: Array) -> Array:
    """Volume [m³] of a solid of `kind` and size (3,) [m]."""
    return _solid(kind).volume(size)


def unit_inertia(kind: str, size: Array) -> Array:
    """Principal inertia per unit mass (3,) [m²] of the solid about its own centre, along its own axes."""
    return _solid(kind).unit_inertia(size)


def _solid(kind: str) -> Solid:
    if kind not in SOLIDS:
        raise ValueError(f'shape "{kind}" has no volume or inertia; solids are {", ".join(sorted(SOLIDS))}')
    return SOLIDS[kind]


def _volume_sphere(size: Array) -> Array:
    return 4 / 3 * math.pi * size[0] ** 3


def _inertia_sphere(size: Array) -> Array:
    return jnp.stack([2 / 5 * size[0] ** 2] * 3)


def _volume_capsule(size: Array) -> Array:
    radius, length = size[0], size[1]
    return math.pi * radius**2 * (length + 4 / 3 * radius)


def _inertia_capsule(size: Array) -> Array:
    # the two half-balls share the mass with the cylinder as 4r/3 : L;
    # each has its centre of mass 3r/8 beyond the cylinder's end
    #   Izz = m_c r²/2 + m_s 2r²/5
    #   Ixx = m_c (r²/4 + L²/12) + m_s (2r²/5 + L²/4 + 3rL/8)
    r, L = size[0], size[1]
    balls = 4 / 3 * r / (L + 4 / 3 * r)
    tube = 1 - balls
    along = tube * r**2 / 2 + balls * 2 / 5 * r**2
    across = tube * (r**2 / 4 + L**2 / 12) + balls * (2 / 5 * r**2 + L**2 / 4 + 3 / 8 * r * L)
    return jnp.stack([across, across, along])


def _volume_cylinder(size: Array) -> Array:
    return math.pi * size[0] ** 2 * size[1]


def _inertia_cylinder(size: Array) -> Array:
    across = size[0] ** 2 / 4 + size[1] ** 2 / 12
    return jnp.stack([across, across, size[0] ** 2 / 2])


def _volume_box(size: Array) -> Array:
    return size[0] * size[1] * size[2]


def _inertia_box(size: Array) -> Array:
    x2, y2, z2 = size[0] ** 2, size[1] ** 2, size[2] ** 2
    return jnp.stack([y2 + z2, z2 + x2, x2 + y2]) / 12


SOLIDS: dict[str, Solid] = {
    "sphere": Solid(_volume_sphere, _inertia_sphere),
    "capsule": Solid(_volume_capsule, _inertia_capsule),
    "box": Solid(_volume_box, _inertia_box),
    "cylinder": Solid(_volume_cylinder, _inertia_cylinder),
}
