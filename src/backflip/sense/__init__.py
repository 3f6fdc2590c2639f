"""From state to observation.

comes in    Model, State
goes out    sensor readings in one flat vector or by name; joints and contacts by name
may touch   math, lanes, model, dynamics
never knows policies, costs, time steps
"""

from backflip.sense.named import contact_force, joint_positions, joint_velocities
from backflip.sense.observe import observe, reading_sizes, readings
from backflip.sense.sensors import (
    IMU,
    AngularVelocity,
    ContactForce,
    Distance,
    JointAngle,
    JointRate,
    Orientation,
    Position,
    ServoTorque,
    Velocity,
)
from backflip.sense.sight import Sight

__all__ = [
    "IMU",
    "AngularVelocity",
    "ContactForce",
    "Distance",
    "JointAngle",
    "JointRate",
    "Orientation",
    "Position",
    "ServoTorque",
    "Sight",
    "Velocity",
    "contact_force",
    "joint_positions",
    "joint_velocities",
    "observe",
    "reading_sizes",
    "readings",
]
