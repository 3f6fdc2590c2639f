"""Mid-step: the bodies half a step on, with all forces applied and the joints of the tree holding."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.joints import Coordinates, Joints, all_joints, coordinate_rows
from backflip.dynamics.motion import Motion, angular_momenta, drift, inertias
from backflip.dynamics.tree import Branch, biases, branches_of, velocities
from backflip.math import cross, matvec
from backflip.model import Bodies, Model
from backflip.model.facts import Group
from backflip.model.joints import JointKind


class MidStep(NamedTuple):
    """What is known at mid-step before any row acts."""

    model: Model
    bodies: Bodies
    motion: Motion
    """poses at mid-step, velocities before any force"""
    inertia: Array
    """(n, 3, 3) about the centres of mass, in W"""
    start_joints: dict[JointKind, Joints]
    joints: dict[JointKind, Joints]
    coordinates: Coordinates
    springs: dict[JointKind, Array]
    """(k, f) [kg, kg m²] what springs add to the inertia of joints"""
    branches: tuple[Branch, ...]
    free: Array
    """(n, 6) [m/s, rad/s] twists with all forces applied and the joints of the tree holding"""
    u: Array
    dt: float


def mid_step(model: Model, bodies: Bodies, start: Motion, u: Array, dt: float) -> MidStep:
    """Free flight for half a step, then all forces at once."""
    L = angular_momenta(bodies, start.R, start.w)
    motion, L, precession = drift(bodies, start, L, dt / 2, model.topology.planar)
    start_joints = all_joints(model, bodies, start, jnp.zeros_like(start.w))
    joints = all_joints(model, bodies, motion, precession)
    coordinates = coordinate_rows(model, joints)
    springs, dampers, pull = _springs(model, joints, dt)
    inertia = inertias(bodies, motion.R)
    branches = branches_of(model.topology, bodies, motion, inertia, joints, springs, dampers)
    momentum = jnp.concatenate([bodies.mass[:, None] * motion.v, L], -1)
    momentum = momentum + dt * _wrenches(model, bodies, motion, coordinates, u)
    impulses = [
        _joint_impulse(g, b, joints, pull) for g, b in zip(model.topology.groups, branches, strict=True)
    ]
    bias = biases(model.topology, motion, joints, {kind: some.bias(dt) for kind, some in joints.items()})
    free = velocities(branches, momentum, impulses, bias)
    return MidStep(
        model, bodies, motion, inertia, start_joints, joints, coordinates, springs, branches, free, u, dt
    )


def _springs(
    model: Model, joints: dict[JointKind, Joints], dt: float
) -> tuple[dict[JointKind, Array], dict[JointKind, Array], dict[JointKind, Array]]:
    """By joint kind (k, f): what springs add to the inertia, impulse of dampers per rate, impulse of springs.

    spring  −k (mean of q before and after − neutral)  = −k (q_mid − neutral + dt/4 (q̇ − q̇_before))
    """
    facts = model.topology
    springs, dampers, pull = {}, {}, {}
    for kind, group in joints.items():
        if kind.units:
            c = np.array([np.r_[facts.coordinates_of(j)] for j in group.joint])
            k, d, neutral = model.stiffness[c], model.damping[c], model.neutral[c]
            springs[kind], dampers[kind] = dt * dt / 4 * k, dt * d
            pull[kind] = -dt * k * (group.position - neutral - dt / 4 * group.rate)
        else:
            dampers[kind] = jnp.repeat(dt * model.ball_damping[group.joint][:, None], kind.freedoms, -1)
            springs[kind] = pull[kind] = jnp.zeros_like(dampers[kind])
    return springs, dampers, pull


def _joint_impulse(
    group: Group, branch: Branch, joints: dict[JointKind, Joints], pull: dict[JointKind, Array]
) -> Array:
    """(k, f) of springs, and of dampers as far as they go with the rates before the step."""
    if group.kind is None:
        return branch.drag
    place = joints[group.kind].at(group.joints)
    return pull[group.kind][place] - branch.drag * joints[group.kind].free_rates()[place]


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
