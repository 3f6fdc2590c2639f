"""What exists, and where it is.

comes in    a description: bodies, joints, shapes, servos, sensors
goes out    Model (what exists), State (where it is), Bodies (derived masses and frames)
may touch   math, solve, geometry, lanes
never knows time, forces, solvers
"""

from backflip.model.bodies import Bodies, bodies_of
from backflip.model.builder import Builder
from backflip.model.facts import ActuatorFact, JointFact, ShapeFact, Topology
from backflip.model.joints import JointKind
from backflip.model.model import Model, State
from backflip.model.rest import rest
from backflip.model.sensors import (
    IMU,
    AngularVelocity,
    ContactForce,
    Distance,
    JointAngle,
    JointRate,
    Orientation,
    Position,
    Sensor,
    ServoTorque,
    Velocity,
)

__all__ = [
    "IMU",
    "ActuatorFact",
    "AngularVelocity",
    "Bodies",
    "Builder",
    "ContactForce",
    "Distance",
    "JointAngle",
    "JointFact",
    "JointKind",
    "JointRate",
    "Model",
    "Orientation",
    "Position",
    "Sensor",
    "ServoTorque",
    "ShapeFact",
    "State",
    "Topology",
    "Velocity",
    "bodies_of",
    "rest",
]
