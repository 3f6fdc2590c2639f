"""The public names of backflip: one path each."""

from backflip.dynamics import Scheme, angular_momentum, energy, joint_error, momentum, step
from backflip.geometry import Box, Capsule, Plane, Sphere
from backflip.lanes import backend
from backflip.learn import Trajectory, rollout
from backflip.model import (
    IMU,
    AngularVelocity,
    Builder,
    ContactForce,
    Distance,
    JointAngle,
    JointRate,
    Model,
    Orientation,
    Position,
    State,
    Velocity,
    rest,
)
from backflip.sense import observe
from backflip.solve import PGS, Cone, Pyramid
from backflip.view import save_replay

__all__ = [
    "IMU",
    "PGS",
    "AngularVelocity",
    "Box",
    "Builder",
    "Capsule",
    "Cone",
    "ContactForce",
    "Distance",
    "JointAngle",
    "JointRate",
    "Model",
    "Orientation",
    "Plane",
    "Position",
    "Pyramid",
    "Scheme",
    "Sphere",
    "State",
    "Trajectory",
    "Velocity",
    "angular_momentum",
    "backend",
    "energy",
    "joint_error",
    "momentum",
    "observe",
    "rest",
    "rollout",
    "save_replay",
    "step",
]
