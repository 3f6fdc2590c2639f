"""What exists, and where it is.

comes in    a description: bodies, joints, shapes, servos, sensors
goes out    Model (what exists), State (where it is), Bodies (derived masses and frames)
may touch   math, lanes, solve, geometry
never knows time, forces, solvers, what a sensor reads
"""

from backflip.model import joints
from backflip.model.bodies import Bodies, bodies_of
from backflip.model.builder import Builder
from backflip.model.check_model import check
from backflip.model.expect import expect_state
from backflip.model.facts import ActuatorFact, JointFact, ShapeFact, Topology
from backflip.model.fields import expect_model
from backflip.model.joints import JointKind
from backflip.model.model import Model, State
from backflip.model.point import Point, point
from backflip.model.replace import get, replace
from backflip.model.rest import rest
from backflip.model.sensor import Sensor
from backflip.model.values import check_vector

__all__ = [
    "ActuatorFact",
    "Bodies",
    "Builder",
    "JointFact",
    "JointKind",
    "Model",
    "Point",
    "Sensor",
    "ShapeFact",
    "State",
    "Topology",
    "bodies_of",
    "check",
    "check_vector",
    "expect_model",
    "expect_state",
    "get",
    "joints",
    "point",
    "replace",
    "rest",
]
