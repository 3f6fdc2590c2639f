"""Planes, spheres, capsules, boxes and cylinders: each one class that owns everything about itself."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry.choose import sign
from backflip.geometry.hits import hit_box, hit_cylinder, hit_round
from backflip.geometry.outline import BOX, BOX_SIGNS
from backflip.geometry.shape import (
    Block,
    Bulk,
    Features,
    Form,
    Hit,
    Shape,
    Size,
    check_lengths,
    core_corners,
    polytope_features,
)
from backflip.math import unit


@dataclass(frozen=True)
class Plane(Shape):
    """The half-space below its own origin: local z points out of the ground."""

    endless: ClassVar[bool] = True
    measures: ClassVar[int] = 0
    drawn_as: ClassVar[str] = "plane"

    def pack(self) -> Size:
        """(0, 0, 0): a plane has no size."""
        return (0.0, 0.0, 0.0)

    @classmethod
    def block(cls, form: Form) -> Block:
        """Its origin."""
        return np.zeros(3), np.zeros(3)

    @classmethod
    def reach(cls, form: Form) -> float:
        """0: it is endless."""
        return 0.0


@dataclass(frozen=True)
class Sphere(Shape):
    """A ball about its origin; radius [m]."""

    radius: float
    measures: ClassVar[int] = 1
    drawn_as: ClassVar[str] = "sphere"
    two_tone: ClassVar[bool] = True

    def pack(self) -> Size:
        """(radius, 0, 0) [m]."""
        return (self.radius, 0.0, 0.0)

    @classmethod
    def bulk(cls, form: Form) -> Bulk:
        """4/3 π r³, and 2/5 r² about every axis."""
        r = form[0]
        return _centred(4 / 3 * math.pi * r**3, jnp.stack([2 / 5 * r**2] * 3))

    @classmethod
    def support(cls, form: Form, n: Array) -> Array:
        """r n."""
        return form[0] * n

    @classmethod
    def features(cls, form: Form) -> Features:
        """A point, rounded."""
        none = jnp.zeros((0, 3), form.dtype)
        return Features(none, none.reshape(0, 2, 3), jnp.zeros((1, 3), none.dtype), form[0], True)

    @classmethod
    def core(cls, form: Form) -> tuple[np.ndarray, np.ndarray, float]:
        """A point, rounded."""
        return np.zeros(3), np.zeros(3), float(form[0])

    @classmethod
    def block(cls, form: Form) -> Block:
        """A cube."""
        return _rounded(*cls.core(form))

    @classmethod
    def frame(cls, form: Form) -> tuple[np.ndarray, float]:
        """The corners of its core, rounded."""
        return core_corners(*cls.core(form))

    @classmethod
    def reach(cls, form: Form) -> float:
        """Its radius [m]."""
        return float(form[0])

    @classmethod
    def hit(cls, form: Form, o: np.ndarray, d: np.ndarray) -> Hit:
        """As a capsule without length."""
        return hit_round(form[0], 0.0, o, d)


@dataclass(frozen=True)
class Capsule(Shape):
    """A cylinder of `length` along local z and a half-ball on either end: length + 2 radius overall [m]."""

    radius: float
    length: float
    measures: ClassVar[int] = 2
    drawn_as: ClassVar[str] = "capsule"

    def pack(self) -> Size:
        """(radius, length, 0) [m]."""
        return (self.radius, self.length, 0.0)

    @classmethod
    def bulk(cls, form: Form) -> Bulk:
        """That of the cylinder and of the two half-balls together."""
        # the two half-balls share the mass with the cylinder as 4r/3 : L;
        # each has its centre of mass 3r/8 beyond the cylinder's end
        #   Izz = m_c r²/2 + m_s 2r²/5
        #   Ixx = m_c (r²/4 + L²/12) + m_s (2r²/5 + L²/4 + 3rL/8)
        r, L = form[0], form[1]
        balls = 4 / 3 * r / (L + 4 / 3 * r)
        tube = 1 - balls
        along = tube * r**2 / 2 + balls * 2 / 5 * r**2
        across = tube * (r**2 / 4 + L**2 / 12) + balls * (2 / 5 * r**2 + L**2 / 4 + 3 / 8 * r * L)
        return _centred(math.pi * r**2 * (L + 4 / 3 * r), jnp.stack([across, across, along]))

    @classmethod
    def support(cls, form: Form, n: Array) -> Array:
        """The end that is farther along n, and r n."""
        return form[0] * n + _up(form[1] / 2 * sign(n[2]))

    @classmethod
    def features(cls, form: Form) -> Features:
        """The core's line and its two ends, rounded."""
        ends = jnp.stack([_up(-form[1] / 2), _up(form[1] / 2)])
        return Features(ends[:0], ends[None], ends, form[0], True)

    @classmethod
    def core(cls, form: Form) -> tuple[np.ndarray, np.ndarray, float]:
        """A line, rounded."""
        end = np.array([0, 0, form[1] / 2], float)
        return -end, end, float(form[0])

    @classmethod
    def block(cls, form: Form) -> Block:
        """(r, r, r + L/2) about its origin."""
        return _rounded(*cls.core(form))

    @classmethod
    def frame(cls, form: Form) -> tuple[np.ndarray, float]:
        """The corners of its core, rounded."""
        return core_corners(*cls.core(form))

    @classmethod
    def reach(cls, form: Form) -> float:
        """r + L/2 [m]."""
        return float(form[0] + form[1] / 2)

    @classmethod
    def hit(cls, form: Form, o: np.ndarray, d: np.ndarray) -> Hit:
        """A ball that slides along the core."""
        return hit_round(form[0], form[1] / 2, o, d)


@dataclass(frozen=True)
class Box(Shape):
    """A block about its origin; size = full edge lengths (lx, ly, lz) [m]."""

    size: Size
    drawn_as: ClassVar[str] = "box"

    def pack(self) -> Size:
        """(lx, ly, lz) [m]."""
        x, y, z = self.size
        return (x, y, z)

    def check(self) -> None:
        """Three positive lengths."""
        check_lengths("size", self.size)

    @classmethod
    def bulk(cls, form: Form) -> Bulk:
        """lx ly lz, and (ly² + lz²)/12 about x, and so on."""
        x, y, z = form[0], form[1], form[2]
        return _centred(x * y * z, jnp.stack([y**2 + z**2, z**2 + x**2, x**2 + y**2]) / 12)

    @classmethod
    def support(cls, form: Form, n: Array) -> Array:
        """The corner on the side of n."""
        return form / 2 * sign(n)

    @classmethod
    def features(cls, form: Form) -> Features:
        """Six faces, twelve edges, eight corners."""
        return polytope_features(jnp.array(BOX_SIGNS, form.dtype) * (form / 2), BOX)

    @classmethod
    def block(cls, form: Form) -> Block:
        """Itself."""
        half = np.asarray(form) / 2
        return -half, half

    @classmethod
    def frame(cls, form: Form) -> tuple[np.ndarray, float]:
        """The corners of its core, rounded."""
        return core_corners(*cls.core(form))

    @classmethod
    def reach(cls, form: Form) -> float:
        """Half its diagonal [m]."""
        a, b, c = np.asarray(form, float)
        return float(np.hypot(np.hypot(a, b), c)) / 2

    @classmethod
    def hit(cls, form: Form, o: np.ndarray, d: np.ndarray) -> Hit:
        """Three pairs of planes."""
        return hit_box(np.asarray(form, np.float32) / 2, o, d)


@dataclass(frozen=True)
class Cylinder(Shape):
    """A round rod about its origin, of `radius` and `length` along local z, with flat ends [m]."""

    radius: float
    length: float
    measures: ClassVar[int] = 2
    drawn_as: ClassVar[str] = "cylinder"

    def pack(self) -> Size:
        """(radius, length, 0) [m]."""
        return (self.radius, self.length, 0.0)

    @classmethod
    def bulk(cls, form: Form) -> Bulk:
        """π r² L; r²/4 + L²/12 across and r²/2 along."""
        r, L = form[0], form[1]
        across = r**2 / 4 + L**2 / 12
        return _centred(math.pi * r**2 * L, jnp.stack([across, across, r**2 / 2]))

    @classmethod
    def support(cls, form: Form, n: Array) -> Array:
        """The point of a rim on the side of n; of a cap that n is square to, the one along x."""
        flat = n * jnp.array([1.0, 1.0, 0.0], n.dtype)
        return form[0] * unit(flat, jnp.eye(3, dtype=n.dtype)[0]) + _up(form[1] / 2 * sign(n[2]))

    @classmethod
    def features(cls, form: Form) -> Features:
        """Two caps, and its side: the axis, rounded."""
        top = _up(jnp.ones_like(form[0]))
        ends = top * (form[1] / 2)
        caps, axis = jnp.stack([top, -top]), jnp.stack([-ends, ends])[None]
        return Features(caps, axis, caps[:0], form[0], False)

    @classmethod
    def block(cls, form: Form) -> Block:
        """(r, r, L/2) about its origin."""
        r, L, _ = np.asarray(form, float)
        return -np.array([r, r, L / 2]), np.array([r, r, L / 2])

    @classmethod
    def reach(cls, form: Form) -> float:
        """To a rim [m]."""
        return float(np.hypot(form[0], form[1] / 2))

    @classmethod
    def hit(cls, form: Form, o: np.ndarray, d: np.ndarray) -> Hit:
        """Two caps and an endless side."""
        return hit_cylinder(form[0], form[1] / 2, o, d)


def _centred(volume: Array, inertia: Array) -> Bulk:
    """The Bulk of a solid about its origin with principal inertia (3,) per mass."""
    return Bulk(volume, jnp.zeros(3, inertia.dtype), jnp.diag(inertia))


def _up(z: Array) -> Array:
    """(0, 0, z)."""
    return jnp.stack([jnp.zeros_like(z), jnp.zeros_like(z), z])


def _rounded(low: np.ndarray, high: np.ndarray, radius: float) -> Block:
    return low - radius, high + radius
