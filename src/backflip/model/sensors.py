"""What a robot can feel: sensors are values, added to the Builder in the order they are observed."""

from dataclasses import dataclass

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class JointAngle:
    """Angle [rad] of a hinge, position [m] of a slider, both angles of a universal joint."""

    joint: str


@dataclass(frozen=True)
class JointRate:
    """Rate of what JointAngle measures [rad/s] or [m/s]."""

    joint: str


@dataclass(frozen=True)
class Position:
    """Position of a body's centre of mass [m], in W, or in the frame of another body."""

    body: str
    relative_to: str | None = None


@dataclass(frozen=True)
class Velocity:
    """Velocity of a body's centre of mass [m/s], in W, or as another body sees it."""

    body: str
    relative_to: str | None = None


@dataclass(frozen=True)
class Orientation:
    """Rotation matrix of a body, row by row (9 numbers), in W, or in the frame of another body."""

    body: str
    relative_to: str | None = None


@dataclass(frozen=True)
class AngularVelocity:
    """Angular velocity of a body [rad/s], in W."""

    body: str


@dataclass(frozen=True)
class IMU:
    """Gyroscope [rad/s], then accelerometer [m/s²] (the mean over the last step, gravity felt), in B.

    `position` is where the unit sits on the body, from its centre of mass.
    """

    body: str
    position: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ContactForce:
    """Mean contact force on a shape over the last step [N], in W."""

    shape: str


@dataclass(frozen=True)
class ServoTorque:
    """Mean torque [N m] or force [N] of a servo over the last step."""

    servo: str


@dataclass(frozen=True)
class Distance:
    """Distance [m] from a point of a body (from its centre of mass, in B) to a fixed point in W."""

    body: str
    target: Vector
    position: Vector = (0.0, 0.0, 0.0)


Sensor = (
    JointAngle
    | JointRate
    | Position
    | Velocity
    | Orientation
    | AngularVelocity
    | IMU
    | ContactForce
    | ServoTorque
    | Distance
)
