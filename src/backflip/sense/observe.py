"""Sensor readings, one after the other in the order they were added."""

from functools import singledispatch
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip import lanes
from backflip.dynamics import servo_torque
from backflip.dynamics.contacts import contact_forces
from backflip.dynamics.joints import joint_coordinates
from backflip.dynamics.motion import Motion
from backflip.math import cross, matmul, matvec, norm, transpose, vecmat
from backflip.model import (
    IMU,
    AngularVelocity,
    ContactForce,
    Distance,
    JointAngle,
    JointRate,
    Model,
    Orientation,
    Position,
    ServoTorque,
    State,
    Velocity,
    bodies_of,
)


class Sight(NamedTuple):
    """What sensors look at."""

    model: Model
    state: State
    angle: Array
    rate: Array
    """(c,)"""
    force: Array
    """(s, 3) [N] on every shape, in W"""


@jax.jit
@lanes.compile
def observe(model: Model, state: State) -> Array:
    """All sensor readings in one vector; the state itself, positions then velocities, if there are none."""
    sensors = model.topology.sensors
    if not sensors:
        return jnp.concatenate([x.reshape(-1) for x in (state.p_WB, state.R_WB, state.v_WB, state.w_WB)])
    bodies = bodies_of(model)
    at = Motion(state.p_WB, state.R_WB, state.v_WB, state.w_WB)
    felt = any(isinstance(s, ContactForce) for s in sensors)
    force = contact_forces(model, bodies, at, state.force) if felt else jnp.zeros((0, 3), at.p.dtype)
    sight = Sight(model, state, *joint_coordinates(model, bodies, at), force)
    return jnp.concatenate([jnp.ravel(read(s, sight, i)) for i, s in enumerate(sensors)])


def reading_sizes(model: Model) -> tuple[int, ...]:
    """How many numbers each sensor gives."""
    fixed = {
        Position: 3,
        Velocity: 3,
        Orientation: 9,
        AngularVelocity: 3,
        IMU: 6,
        ContactForce: 3,
        ServoTorque: 1,
        Distance: 1,
    }
    facts = model.topology
    return tuple(
        fixed[type(s)] if type(s) in fixed else sum(j == facts.joint(s.joint) for j, _ in facts.coordinates)  # type: ignore[union-attr]
        for s in facts.sensors
    )


@singledispatch
def read(sensor, sight: Sight, i: int) -> Array:
    """Reading of one sensor, the i-th of the model."""
    raise TypeError(f"{sensor!r} is not a sensor")


def _coordinates(sight: Sight, joint: str) -> np.ndarray:
    facts = sight.model.topology
    return np.array([c for c, (j, _) in enumerate(facts.coordinates) if j == facts.joint(joint)])


@read.register
def _(sensor: JointAngle, sight: Sight, i: int) -> Array:
    return sight.angle[_coordinates(sight, sensor.joint)]


@read.register
def _(sensor: JointRate, sight: Sight, i: int) -> Array:
    return sight.rate[_coordinates(sight, sensor.joint)]


@read.register
def _(sensor: Position, sight: Sight, i: int) -> Array:
    facts, state = sight.model.topology, sight.state
    p = state.p_WB[facts.body(sensor.body)]
    if sensor.relative_to is None:
        return p
    other = facts.body(sensor.relative_to)
    return vecmat(p - state.p_WB[other], state.R_WB[other])


@read.register
def _(sensor: Velocity, sight: Sight, i: int) -> Array:
    facts, state = sight.model.topology, sight.state
    body = facts.body(sensor.body)
    if sensor.relative_to is None:
        return state.v_WB[body]
    other = facts.body(sensor.relative_to)
    carried = state.v_WB[other] + cross(state.w_WB[other], state.p_WB[body] - state.p_WB[other])
    return vecmat(state.v_WB[body] - carried, state.R_WB[other])


@read.register
def _(sensor: Orientation, sight: Sight, i: int) -> Array:
    facts, state = sight.model.topology, sight.state
    R = state.R_WB[facts.body(sensor.body)]
    if sensor.relative_to is None:
        return R
    return matmul(transpose(state.R_WB[facts.body(sensor.relative_to)]), R)


@read.register
def _(sensor: AngularVelocity, sight: Sight, i: int) -> Array:
    return sight.state.w_WB[sight.model.topology.body(sensor.body)]


@read.register
def _(sensor: IMU, sight: Sight, i: int) -> Array:
    b, state = sight.model.topology.body(sensor.body), sight.state
    R, w = state.R_WB[b], state.w_WB[b]
    arm = matvec(R, sight.model.sensor_point[i])
    a = state.a_WB[b] + cross(state.dw_WB[b], arm) + cross(w, cross(w, arm))
    return jnp.concatenate([vecmat(w, R), vecmat(a - sight.model.gravity, R)])


@read.register
def _(sensor: ContactForce, sight: Sight, i: int) -> Array:
    names = [s.name for s in sight.model.topology.shapes]
    return sight.force[names.index(sensor.shape)]


@read.register
def _(sensor: ServoTorque, sight: Sight, i: int) -> Array:
    facts = sight.model.topology
    names = [facts.actuators[k].name for k in facts.of_kind("servo")]
    return servo_torque(sight.model, sight.state)[names.index(sensor.servo)]


@read.register
def _(sensor: Distance, sight: Sight, i: int) -> Array:
    b, state = sight.model.topology.body(sensor.body), sight.state
    point = state.p_WB[b] + matvec(state.R_WB[b], sight.model.sensor_point[i])
    return norm(point - sight.model.sensor_target[i])
