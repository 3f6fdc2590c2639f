"""Mid-step: the bodies half a step on, with all forces applied and the joints of the tree holding."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.joints import Coordinates, Joints, all_joints, coordinate_rows
from backflip.dynamics.motion import Motion, drift, inertias
from backflip.dynamics.tree import Branch, branches_of, velocities
from backflip.math import cross, matvec
from backflip.model import Bodies, Model
from backflip.model.joints import JointKind


class MidStep(NamedTuple):
    """What is known at mid-step before any row acts."""

    model: Model
    bodies: Bodies
    motion: Motion
    """poses at mid-step, velocities before any force"""
    joints: dict[JointKind, Joints]
    coordinates: Coordinates
    branches: tuple[Branch, ...]
    free: Array
    """(n, 6) [m/s, rad/s] twists with all forces applied and the joints of the tree holding"""
    u: Array
    dt: float


def mid_step(model: Model, bodies: Bodies, start: Motion, u: Array, dt: float) -> MidStep:
    """Free flight for half a step, then all forces at once."""
    motion, L, precession = drift(bodies, start, dt / 2, model.topology.planar)
    joints = all_joints(model, bodies, motion, precession)
    coordinates = coordinate_rows(model, joints)
    added_inertia, impulse = _springs(model, joints, dt)
    branches = branches_of(
        model.topology, bodies, motion, inertias(bodies, motion.R), joints, added_inertia, dt
    )
    momentum = jnp.concatenate([bodies.mass[:, None] * motion.v, L], -1)
    momentum = momentum + dt * _wrenches(model, bodies, motion, coordinates, u)
    by_branch = [
        impulse[group.kind][joints[group.kind].at(group.joints)]
        if group.kind
        else jnp.zeros((len(group.bodies), group.freedoms), momentum.dtype)
        for group in model.topology.groups
    ]
    free = velocities(branches, momentum, by_branch)
    return MidStep(model, bodies, motion, joints, coordinates, branches, free, u, dt)


def _springs(
    model: Model, joints: dict[JointKind, Joints], dt: float
) -> tuple[dict[JointKind, Array], dict[JointKind, Array]]:
    """Springs and dampers by joint kind: what they add to the inertia (k, f), and their impulse (k, f).

    spring  −k (mean of q before and after − neutral)  = −k (q_mid − neutral + dt/4 (q̇ − q̇_before))
    damper  −d q̇ after the step: stable however stiff
    """
    facts = model.topology
    added_inertia, impulse = {}, {}
    for kind, group in joints.items():
        if kind.units:
            c = np.array([np.r_[facts.coordinates_of(j)] for j in group.joint])
            k, d, neutral = model.stiffness[c], model.damping[c], model.neutral[c]
            added_inertia[kind] = dt * d + dt * dt / 4 * k
            impulse[kind] = -dt * k * (group.position - neutral - dt / 4 * group.rate)
        else:
            added_inertia[kind] = jnp.repeat(dt * model.ball_damping[group.joint][:, None], kind.freedoms, -1)
            impulse[kind] = jnp.zeros_like(added_inertia[kind])
    return added_inertia, impulse


def _wrenches(model: Model, bodies: Bodies, at: Motion, coordinates: Coordinates, u: Array) -> Array:
    """(n, 6) [N, N m] gravity, body forces and torques, and joint motors."""
    facts = model.topology
    wrench = jnp.concatenate([bodies.mass[:, None] * model.gravity, jnp.zeros_like(at.w)], -1)
    for k, i in enumerate(facts.on_body):
        actuator = facts.actuators[i]
        R = at.R[actuator.index]
        vector = matvec(R, u[i] * model.direction[k])
        moment = cross(matvec(R, bodies.p_CF[k]), vector)
        pair = [vector, moment] if actuator.kind == "force" else [jnp.zeros_like(vector), vector]
        wrench = wrench.at[actuator.index].add(jnp.concatenate(pair))
    for i in facts.of_kind("motor"):
        c = facts.actuators[i].index
        for body, J in ((coordinates.a[c], coordinates.J_A[c]), (coordinates.b[c], coordinates.J_B[c])):
            if body >= 0:
                wrench = wrench.at[body].add(u[i] * J)
    return wrench
