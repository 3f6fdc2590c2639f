"""What physics keeps and what machines spend: momentum, energy, closed joints, contacts, torques."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.contacts import contacts_of_poses
from backflip.dynamics.joints import all_joints, joint_coordinates
from backflip.dynamics.motion import Motion, angular_momenta
from backflip.math import cross, dot, matvec, norm
from backflip.model import Model, State, bodies_of, expect_model, expect_state


def total_mass(model: Model) -> Array:
    """Mass of all bodies [kg]."""
    expect_model("total_mass", model)
    return jnp.sum(bodies_of(model).mass)


def momentum(model: Model, state: State) -> Array:
    """Linear momentum (3,) [kg m/s], in W."""
    expect_state("momentum", model, state)
    return jnp.sum(bodies_of(model).mass[:, None] * state.v_WB, 0)


def angular_momentum(model: Model, state: State) -> Array:
    """Angular momentum about W's origin (3,) [kg m²/s]."""
    expect_state("angular_momentum", model, state)
    bodies = bodies_of(model)
    own = angular_momenta(bodies, state.R_WB, state.w_WB)
    return jnp.sum(own + bodies.mass[:, None] * cross(state.p_WB, state.v_WB), 0)


def energy(model: Model, state: State) -> Array:
    """Kinetic energy, and potential energy in gravity [J]; springs are not counted."""
    expect_state("energy", model, state)
    bodies = bodies_of(model)
    L = angular_momenta(bodies, state.R_WB, state.w_WB)
    kinetic = bodies.mass * dot(state.v_WB, state.v_WB) + dot(state.w_WB, L)
    return jnp.sum(kinetic / 2 - bodies.mass * matvec(state.p_WB, model.gravity))


def joint_error(model: Model, state: State) -> Array:
    """Distance [m] between the two anchors of each joint (j,), off-line distance for sliders."""
    expect_state("joint_error", model, state)
    if not model.topology.joints:
        return jnp.zeros(0, state.p_WB.dtype)
    at = Motion(state.p_WB, state.R_WB, state.v_WB, state.w_WB)
    joints = all_joints(model, bodies_of(model), at, jnp.zeros_like(at.w))
    order = jnp.argsort(jnp.concatenate([jnp.asarray(k.joint) for k in joints.values()]))
    return jnp.concatenate([norm(k.error[:, :3]) for k in joints.values()])[order]


def penetration(model: Model, state: State) -> Array:
    """How deep the deepest overlap of two shapes is [m]; 0 where none overlap."""
    expect_state("penetration", model, state)
    touch = contacts_of_poses(model, bodies_of(model), state.p_WB, state.R_WB)
    return jnp.zeros((), state.p_WB.dtype) if touch is None else jnp.maximum(-jnp.min(touch.gap), 0)


def servo_torque(model: Model, state: State) -> Array:
    """What each servo gave over the last step (f,) [N m] or [N], mean."""
    expect_state("servo_torque", model, state)
    return state.force[model.topology.layout.block("servo")]


def servo_power(model: Model, before: State, after: State) -> Array:
    """Work per time that each servo did in the step between two states (f,) [W]; negative where it brakes."""
    expect_state("servo_power", model, before)
    expect_state("servo_power", model, after)
    facts, bodies = model.topology, bodies_of(model)
    coordinate = np.array([facts.actuators[i].index for i in facts.of_kind("servo")], int)
    rates = [
        joint_coordinates(model, bodies, Motion(s.p_WB, s.R_WB, s.v_WB, s.w_WB))[1] for s in (before, after)
    ]
    return servo_torque(model, after) * (rates[0] + rates[1])[coordinate] / 2
