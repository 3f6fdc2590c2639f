"""A robot as it was described: what the Builder writes down, check() reads and pack() turns into arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from backflip.geometry import Shape
from backflip.model.joints import JointKind
from backflip.model.sensor import Sensor

Numbers = Sequence[float] | np.ndarray
ORIGIN = (0.0, 0.0, 0.0)
WORLD_NAME = "world"


@dataclass
class BodyNote:
    """A body as described."""

    name: str
    mass: float | None
    density: float | None
    inertia: Numbers | None
    position: Numbers
    rotation: Numbers | None
    velocity: Numbers
    spin: Numbers
    group: str | None


@dataclass
class ShapeNote:
    """A shape as described."""

    name: str
    body: str
    shape: Shape
    position: Numbers
    rotation: Numbers | None
    density: float | None
    friction: float | None
    restitution: float | None
    collide: bool


@dataclass
class JointNote:
    """A joint as described; springs and limits hold one entry per coordinate."""

    name: str
    kind: JointKind
    parent: str
    child: str
    position: Numbers | None
    axes: tuple[Numbers, ...] = ()
    limits: tuple[tuple[float, float] | None, ...] = ()
    stiffness: tuple[float, ...] = ()
    damping: tuple[float, ...] = ()
    neutral: tuple[float, ...] = ()
    ball_damping: float = 0.0
    frequency: float | None = None
    damping_ratio: float = 1.0
    collide: bool = False


@dataclass
class ActuatorNote:
    """A servo, motor, body force or body torque as described."""

    name: str
    kind: str
    target: str
    axis: int = 0
    gain: float = 0.0
    max_velocity: float = 0.0
    max_torque: float = 0.0
    direction: Numbers = ORIGIN
    point: Numbers = ORIGIN


@dataclass
class Description:
    """Everything a Builder was given."""

    gravity: Numbers
    planar: bool
    bodies: list[BodyNote] = field(default_factory=list)
    shapes: list[ShapeNote] = field(default_factory=list)
    joints: list[JointNote] = field(default_factory=list)
    actuators: list[ActuatorNote] = field(default_factory=list)
    sensors: list[Sensor] = field(default_factory=list)
    apart: list[tuple[str, str]] = field(default_factory=list)


def rotation_matrix(rotation: Numbers | None) -> np.ndarray:
    """R (3, 3) from None, a matrix, or a rotation vector (3,) [rad] by Rodrigues' formula."""
    if rotation is None:
        return np.eye(3)
    r = np.asarray(rotation, float)
    if r.shape == (3, 3):
        return r
    angle = np.linalg.norm(r)
    x, y, z = r / angle if angle > 0 else r
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
