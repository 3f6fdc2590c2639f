"""What a robot can feel: one class for each sensor, which owns its size, unit, checks, leaves and reading."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from backflip.dynamics import servo_torque
from backflip.math import cross, matmul, norm, transpose, vecmat
from backflip.model import Sensor, Topology, check_vector
from backflip.sense.sight import Sight

Vector = tuple[float, float, float]
Leaves = Mapping[str, Array]
ORIGIN: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class _OfJoint(Sensor):
    joint: str

    def check(self, facts: Topology) -> None:
        if not self.size(facts):
            raise ValueError(f'joint "{self.joint}" has no coordinate to read; sense its bodies instead')

    def size(self, facts: Topology) -> int:
        at = facts.coordinates_of(facts.joint(self.joint))
        return at.stop - at.start


@dataclass(frozen=True)
class JointAngle(_OfJoint):
    """Position of a joint: angle [rad] of a hinge, both of a universal joint, place [m] of a slider."""

    unit: ClassVar[str] = "rad or m"

    def angles(self, facts: Topology) -> tuple[bool, ...]:
        """By the units of the joint's coordinates."""
        return tuple(unit == "rad" for unit in facts.joints[facts.joint(self.joint)].kind.units)

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """The joint's coordinates."""
        return sight.coordinates[0][sight.coordinates_of(self.joint)]


@dataclass(frozen=True)
class JointRate(_OfJoint):
    """Velocity of a joint: the rate of what JointAngle reads [rad/s] or [m/s]."""

    unit: ClassVar[str] = "rad/s or m/s"

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """The rates of the joint's coordinates."""
        return sight.coordinates[1][sight.coordinates_of(self.joint)]


@dataclass(frozen=True)
class _OfBody(Sensor):
    count: ClassVar[int] = 3
    body: str

    def check(self, facts: Topology) -> None:
        facts.body(self.body)

    def size(self, facts: Topology) -> int:
        return self.count


@dataclass(frozen=True)
class _SeenFrom(_OfBody):
    relative_to: str | None = None

    def check(self, facts: Topology) -> None:
        facts.body(self.body)
        if self.relative_to is not None:
            facts.body(self.relative_to)


@dataclass(frozen=True)
class Position(_SeenFrom):
    """Position of a body's centre of mass [m], in W; or from another's, in the frame of that body."""

    unit: ClassVar[str] = "m"

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """Where it is."""
        facts, state = sight.model.topology, sight.state
        p = state.p_WB[facts.body(self.body)]
        if self.relative_to is None:
            return p
        other = facts.body(self.relative_to)
        return vecmat(p - state.p_WB[other], state.R_WB[other])


@dataclass(frozen=True)
class Velocity(_SeenFrom):
    """Velocity of a body's centre of mass [m/s], in W; or the rate of its Position in another body."""

    unit: ClassVar[str] = "m/s"

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """How it moves."""
        facts, state = sight.model.topology, sight.state
        body = facts.body(self.body)
        if self.relative_to is None:
            return state.v_WB[body]
        other = facts.body(self.relative_to)
        carried = state.v_WB[other] + cross(state.w_WB[other], state.p_WB[body] - state.p_WB[other])
        return vecmat(state.v_WB[body] - carried, state.R_WB[other])


@dataclass(frozen=True)
class Orientation(_SeenFrom):
    """Rotation matrix of a body, row by row (9 numbers), in W, or in the frame of another body."""

    count: ClassVar[int] = 9
    unit: ClassVar[str] = "1"

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """R_WB, or R_AB of another body A."""
        facts, state = sight.model.topology, sight.state
        R = state.R_WB[facts.body(self.body)]
        if self.relative_to is None:
            return R
        return matmul(transpose(state.R_WB[facts.body(self.relative_to)]), R)


@dataclass(frozen=True)
class AngularVelocity(_OfBody):
    """Angular velocity of a body [rad/s], in W."""

    unit: ClassVar[str] = "rad/s"

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """w_WB."""
        return sight.state.w_WB[sight.model.topology.body(self.body)]


@dataclass(frozen=True)
class IMU(_OfBody):
    """Gyroscope [rad/s], then accelerometer [m/s²] (the mean over the last step, gravity felt), in B.

    `position` [m] is where the unit sits on the body, in B from its origin; it is a leaf.
    """

    count: ClassVar[int] = 6
    unit: ClassVar[str] = "rad/s, m/s²"
    position: Vector = ORIGIN

    def check(self, facts: Topology) -> None:
        facts.body(self.body)
        check_vector("IMU", "position", self.position)

    def leaves(self) -> dict[str, Vector]:
        """Where it sits."""
        return {"position": self.position}

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """Spin, then specific force at its place: a + ẇ × r + w × (w × r) − g."""
        b, state = sight.model.topology.body(self.body), sight.state
        R, w = state.R_WB[b], state.w_WB[b]
        arm = sight.arm(b, leaves["position"])
        a = state.a_WB[b] + cross(state.dw_WB[b], arm) + cross(w, cross(w, arm))
        return jnp.concatenate([vecmat(w, R), vecmat(a - sight.model.gravity, R)])


@dataclass(frozen=True)
class ContactForce(Sensor):
    """Mean contact force on a shape over the last step [N], in W."""

    unit: ClassVar[str] = "N"
    shape: str

    def check(self, facts: Topology) -> None:
        facts.shape(self.shape)

    def size(self, facts: Topology) -> int:
        return 3

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """The sum over everything that touches it."""
        return sight.contact_forces[sight.model.topology.shape(self.shape)]


@dataclass(frozen=True)
class ServoTorque(Sensor):
    """Mean torque [N m] or force [N] of a servo over the last step."""

    unit: ClassVar[str] = "N m or N"
    servo: str

    def check(self, facts: Topology) -> None:
        facts.servo(self.servo)

    def size(self, facts: Topology) -> int:
        return 1

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """What it gave."""
        return servo_torque(sight.model, sight.state)[sight.model.topology.servo(self.servo)]


@dataclass(frozen=True)
class Distance(_OfBody):
    """Distance [m] from a point of a body (in B, from its origin) to a fixed point in W; both are leaves."""

    count: ClassVar[int] = 1
    unit: ClassVar[str] = "m"
    target: Vector
    position: Vector = ORIGIN

    def check(self, facts: Topology) -> None:
        facts.body(self.body)
        check_vector("Distance", "target", self.target)
        check_vector("Distance", "position", self.position)

    def leaves(self) -> dict[str, Vector]:
        """Both ends."""
        return {"position": self.position, "target": self.target}

    def read(self, sight: Sight, leaves: Leaves) -> Array:
        """‖p_WP − target‖; 0 with gradient 0 where the two meet."""
        return norm(sight.point(self.body, leaves["position"]).position - leaves["target"])
