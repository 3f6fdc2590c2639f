"""One step of time.

comes in    Scheme, Model, State, u
goes out    the next State
may touch   math, lanes, solve, geometry, model
never knows observations, policies, files
"""

from backflip.dynamics.joints import joint_coordinates
from backflip.dynamics.measure import (
    angular_momentum,
    energy,
    joint_error,
    momentum,
    penetration,
    servo_power,
    servo_torque,
    total_mass,
)
from backflip.dynamics.step import Scheme, step, warn_of_speed

__all__ = [
    "Scheme",
    "angular_momentum",
    "energy",
    "joint_coordinates",
    "joint_error",
    "momentum",
    "penetration",
    "servo_power",
    "servo_torque",
    "step",
    "total_mass",
    "warn_of_speed",
]
