"""What physics keeps: momentum, energy, and closed joints."""

import jax.numpy as jnp
from jax import Array

from backflip.dynamics.joints import all_joints
from backflip.dynamics.motion import Motion, angular_momenta
from backflip.math import cross, dot, matvec, norm
from backflip.model import Model, State, bodies_of


def momentum(model: Model, state: State) -> Array:
    """Linear momentum (3,) [kg m/s], in W."""
    return jnp.sum(bodies_of(model).mass[:, None] * state.v_WB, 0)


def angular_momentum(model: Model, state: State) -> Array:
    """Angular momentum about W's origin (3,) [kg m²/s]."""
    bodies = bodies_of(model)
    own = angular_momenta(bodies, state.R_WB, state.w_WB)
    return jnp.sum(own + bodies.mass[:, None] * cross(state.p_WB, state.v_WB), 0)


def energy(model: Model, state: State) -> Array:
    """Kinetic energy, and potential energy in gravity [J]; springs are not counted."""
    bodies = bodies_of(model)
    L = angular_momenta(bodies, state.R_WB, state.w_WB)
    kinetic = bodies.mass * dot(state.v_WB, state.v_WB) + dot(state.w_WB, L)
    return jnp.sum(kinetic / 2 - bodies.mass * matvec(state.p_WB, model.gravity))


def joint_error(model: Model, state: State) -> Array:
    """Distance [m] between the two anchors of each joint (j,), off-line distance for sliders."""
    if not model.topology.joints:
        return jnp.zeros(0, state.p_WB.dtype)
    at = Motion(state.p_WB, state.R_WB, state.v_WB, state.w_WB)
    joints = all_joints(model, bodies_of(model), at, jnp.zeros_like(at.w))
    order = jnp.argsort(jnp.concatenate([jnp.asarray(k.which) for k in joints.values()]))
    return jnp.concatenate([norm(k.error[:, :3]) for k in joints.values()])[order]
