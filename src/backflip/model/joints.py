"""Kinds of joints: each owns what it leaves free, what it holds, its coordinates and its checks.

Twists are those of body B (child) relative to body A (parent), (..., 6): velocity of a common pivot point,
then spin, in W. Frames J of the joint ride on both bodies; where they agree every coordinate is 0.

    kind        leaves free                      holds
    hinge       turn about z_A                   point, z_A ∥ z_B
    slider      move along z_A                   orientation, the line along z_A
    universal   turn about z_A and x_B           point, z_A ⟂ x_B
    ball        turn                             point
    fixed       nothing                          everything

A new kind derives from JointKind, outside this package too, and is added by Builder.add_joint().
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.math import cross, dot, matmul, relative_rotation_vector

__all__ = [
    "Ball",
    "Fixed",
    "Frames",
    "Hinge",
    "Slider",
    "Universal",
    "moving",
    "rotation_about_axis",
    "turn_angle",
    "turning",
]

Pose = tuple[Array, Array]
"""p (3,) and R (3, 3)"""
Mistake = tuple[str, str]
"""What is wrong, and the remedy."""


class Frames(NamedTuple):
    """Both ends of k joints of one kind, in W."""

    R_A: Array
    R_B: Array
    """(k, 3, 3) joint frames on A and on B"""
    apart: Array
    """(k, 3) [m] from the joint's origin on A to that on B"""
    w_A: Array
    w_B: Array
    """(k, 3) [rad/s] spins of the bodies"""

    def axis_A(self, i: int) -> Array:
        """(k, 3) axis i of the frame on A."""
        return self.R_A[..., :, i]

    def axis_B(self, i: int) -> Array:
        """(k, 3) axis i of the frame on B."""
        return self.R_B[..., :, i]

    def axis_W(self, i: int) -> Array:
        """(k, 3) axis i of the world."""
        return jnp.broadcast_to(jnp.eye(3, dtype=self.R_A.dtype)[i], self.apart.shape)


class JointKind(ABC):
    """What all joints of a kind have in common: a frozen, hashable value. Arrays have a leading axis k."""

    name: ClassVar[str]
    freedoms: ClassVar[int]
    """independent relative velocities that it leaves"""
    axes: ClassVar[int] = 0
    """axes in its description: the first becomes z of the joint frames, the second x"""
    units: ClassVar[tuple[str, ...]] = ()
    """[rad] or [m] of every coordinate that can be read, limited and driven: one for each freedom, or none"""
    wraps: ClassVar[bool] = True
    """whether angles are read from −π to π; a kind that counts turns says no"""
    slides: ClassVar[bool] = False
    """whether the origins of the two frames part; twists are then taken at that of B"""

    @abstractmethod
    def free(self, at: Frames) -> list[Array]:
        """The `freedoms` twists (k, 6) left free; of kinds with coordinates, at a unit rate of each."""

    @abstractmethod
    def held(self, at: Frames) -> list[Array]:
        """The 6 − `freedoms` twists (k, 6) that are held: orthonormal, at right angles to the free ones."""

    @abstractmethod
    def turn_error(self, at: Frames) -> Array:
        """[rad] the turn (k, 3) by which B is off; its part along free twists does not matter."""

    def error(self, at: Frames) -> Array:
        """(k, 6) [m, rad] how far B is off, as the twist that would have taken it there."""
        return jnp.concatenate([at.apart, self.turn_error(at)], -1)

    def positions(self, at: Frames) -> Array:
        """(k, c) [rad] or [m] coordinates."""
        return jnp.zeros((*at.apart.shape[:-1], 0), at.apart.dtype)

    def measures(self, at: Frames) -> list[Array]:
        """(k, 6) for every coordinate: its rate is this · twist. Orthonormal free twists measure theirs."""
        return self.free(at) if self.units else []

    def motion(self, q: Array) -> Pose:
        """Displacement (3,) and rotation (3, 3) of the frame on B in the frame on A at coordinates q (c,)."""
        return jnp.zeros(3, q.dtype), jnp.eye(3, dtype=q.dtype)

    def velocity_product(self, at: Frames, rates: Array) -> Array:
        """(k, 6) [m/s², rad/s²] relative acceleration at constant `rates` (k, c): axes turn with bodies."""
        return jnp.zeros((*at.apart.shape[:-1], 6), at.apart.dtype)

    def mistake(self, axes: list[np.ndarray], planar: bool) -> Mistake | None:
        """What is wrong with a description that has these axes (3,), in a planar scene or not."""
        if planar:
            return f"a planar model has no {self.name} joints", "use a hinge about (0, 1, 0)"
        return None


def kind_order(kind: JointKind) -> str:
    """Kinds sort by their name, then by whatever else tells them apart."""
    return f"{kind.name} {kind!r}"


def moving(v: Array) -> Array:
    """The twist (k, 6) of a velocity (k, 3)."""
    return jnp.concatenate([v, jnp.zeros_like(v)], -1)


def turning(w: Array) -> Array:
    """The twist (k, 6) of a spin (k, 3)."""
    return jnp.concatenate([jnp.zeros_like(w), w], -1)


def turn_angle(sine: Array, cosine: Array) -> Array:
    """atan2 that is 0, with gradient 0, where both are 0."""
    there = sine * sine + cosine * cosine > 0
    return jnp.arctan2(jnp.where(there, sine, 0), jnp.where(there, cosine, 1))


def rotation_about_axis(angle: Array, axis: int) -> Array:
    """R (3, 3) about axis 0 or 2 of a frame."""
    c, s, o, i = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    entries = [[c, -s, o], [s, c, o], [o, o, i]] if axis == 2 else [[i, o, o], [o, c, -s], [o, s, c]]
    return jnp.stack([jnp.stack(row) for row in entries])


def moves(at: Frames) -> list[Array]:
    """The twists (k, 6) along the three axes of W."""
    return [moving(at.axis_W(i)) for i in range(3)]


def turns(at: Frames) -> list[Array]:
    """The twists (k, 6) about the three axes of W."""
    return [turning(at.axis_W(i)) for i in range(3)]


def _angle_about_z(at: Frames) -> Array:
    """(k,) [rad] by which x_B is turned from x_A about z_A."""
    return turn_angle(dot(at.axis_A(1), at.axis_B(0)), dot(at.axis_A(0), at.axis_B(0)))


@dataclass(frozen=True)
class Hinge(JointKind):
    """Turns about one axis."""

    name = "hinge"
    freedoms = 1
    axes = 1
    units = ("rad",)

    def free(self, at: Frames) -> list[Array]:
        return [turning(at.axis_A(2))]

    def held(self, at: Frames) -> list[Array]:
        return [*moves(at), turning(at.axis_A(0)), turning(at.axis_A(1))]

    def turn_error(self, at: Frames) -> Array:
        return cross(at.axis_A(2), at.axis_B(2))

    def positions(self, at: Frames) -> Array:
        return _angle_about_z(at)[:, None]

    def motion(self, q: Array) -> Pose:
        return jnp.zeros(3, q.dtype), rotation_about_axis(q[0], 2)

    def velocity_product(self, at: Frames, rates: Array) -> Array:
        return turning(rates * cross(at.w_A, at.axis_A(2)))

    def mistake(self, axes: list[np.ndarray], planar: bool) -> Mistake | None:
        if planar and np.hypot(axes[0][0], axes[0][2]) > 1e-6 * np.linalg.norm(axes[0]):
            return f"axis {axes[0]} turns out of the plane of a planar model", "give (0, 1, 0)"
        return None


@dataclass(frozen=True)
class Slider(JointKind):
    """Moves along one axis."""

    name = "slider"
    freedoms = 1
    axes = 1
    units = ("m",)
    slides = True

    def free(self, at: Frames) -> list[Array]:
        return [moving(at.axis_A(2))]

    def held(self, at: Frames) -> list[Array]:
        return [moving(at.axis_A(0)), moving(at.axis_A(1)), *turns(at)]

    def turn_error(self, at: Frames) -> Array:
        return relative_rotation_vector(at.R_A, at.R_B)

    def positions(self, at: Frames) -> Array:
        return dot(at.axis_A(2), at.apart)[:, None]

    def motion(self, q: Array) -> Pose:
        eye = jnp.eye(3, dtype=q.dtype)
        return q[0] * eye[2], eye

    def velocity_product(self, at: Frames, rates: Array) -> Array:
        # Coriolis: the axis turns under the sliding body
        return moving(2 * rates * cross(at.w_A, at.axis_A(2)))

    def mistake(self, axes: list[np.ndarray], planar: bool) -> Mistake | None:
        if planar and abs(axes[0][1]) > 1e-6 * np.linalg.norm(axes[0]):
            return f"axis {axes[0]} leaves the plane of a planar model", "give an axis (x, 0, z)"
        return None


@dataclass(frozen=True)
class Universal(JointKind):
    """Two crossed hinges: the first axis rides on A, the second on B."""

    name = "universal"
    freedoms = 2
    axes = 2
    units = ("rad", "rad")

    def free(self, at: Frames) -> list[Array]:
        return [turning(at.axis_A(2)), turning(at.axis_B(0))]

    def held(self, at: Frames) -> list[Array]:
        return [*moves(at), turning(cross(at.axis_A(2), at.axis_B(0)))]

    def measures(self, at: Frames) -> list[Array]:
        # the dual basis: at mid-step the axes are not quite at right angles
        z_A, x_B = at.axis_A(2), at.axis_B(0)
        cosine = dot(z_A, x_B)[..., None]
        stretch = 1 / (1 - cosine * cosine)
        return [turning((z_A - cosine * x_B) * stretch), turning((x_B - cosine * z_A) * stretch)]

    def turn_error(self, at: Frames) -> Array:
        # d(z_A·x_B)/dt = −(z_A × x_B) · w_AB
        z_A, x_B = at.axis_A(2), at.axis_B(0)
        return -cross(z_A, x_B) * dot(z_A, x_B)[..., None]

    def positions(self, at: Frames) -> Array:
        second = turn_angle(dot(at.axis_A(2), at.axis_B(1)), dot(at.axis_A(2), at.axis_B(2)))
        return jnp.stack([_angle_about_z(at), second], -1)

    def motion(self, q: Array) -> Pose:
        return jnp.zeros(3, q.dtype), matmul(rotation_about_axis(q[0], 2), rotation_about_axis(q[1], 0))

    def velocity_product(self, at: Frames, rates: Array) -> Array:
        first = rates[:, :1] * cross(at.w_A, at.axis_A(2))
        return turning(first + rates[:, 1:] * cross(at.w_B, at.axis_B(0)))


@dataclass(frozen=True)
class Ball(JointKind):
    """Turns freely about a point."""

    name = "ball"
    freedoms = 3

    def free(self, at: Frames) -> list[Array]:
        return turns(at)

    def held(self, at: Frames) -> list[Array]:
        return moves(at)

    def turn_error(self, at: Frames) -> Array:
        return jnp.zeros_like(at.apart)


@dataclass(frozen=True)
class Fixed(JointKind):
    """A weld."""

    name = "fixed"
    freedoms = 0

    def free(self, at: Frames) -> list[Array]:
        return []

    def held(self, at: Frames) -> list[Array]:
        return moves(at) + turns(at)

    def turn_error(self, at: Frames) -> Array:
        return relative_rotation_vector(at.R_A, at.R_B)

    def mistake(self, axes: list[np.ndarray], planar: bool) -> Mistake | None:
        return None
