"""Joints of the tree closed at the end of a step: bodies move by what is left of their error."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.joints import all_joints
from backflip.dynamics.motion import Motion, inertias
from backflip.math import cross, dot, inverse3, matvec, outer
from backflip.model import Bodies, Model
from backflip.model.facts import WORLD, Topology


def close(model: Model, bodies: Bodies, at: Motion) -> Motion:
    """`at` with the anchors of every tree joint brought together, from the roots outwards.

    A kick at mid-step changes how bodies curve away from their joints in the second half, by ½ h² of the
    change: a millimetre where a servo starts a leg. Errors of orientation are left to the bias of the next
    step. Floating trees keep their centre of mass and both momenta.
    """
    facts = model.topology
    joints = all_joints(model, bodies, at, jnp.zeros_like(at.w))
    shift = jnp.zeros_like(at.p)
    for group in facts.groups:
        if group.kind:
            kind = joints[group.kind]
            place = kind.at(group.joints)
            error = jnp.asarray(group.signs, at.p.dtype)[:, None] * kind.error[place, :3]
            parents = np.array(group.parents)
            carried = jnp.where(parents[:, None] == WORLD, 0, shift[parents])
            shift = shift.at[np.array(group.bodies)].set(carried - error)
    moved = at.p + shift
    for tree in _floating_trees(facts):
        at, moved = _keep_momenta(bodies, at, moved, tree, facts.planar)
    return at._replace(p=moved)


def _floating_trees(facts: Topology) -> list[np.ndarray]:
    """The bodies of each floating tree of several bodies."""
    root = np.array(facts.roots)
    return [np.flatnonzero(root == r) for r in np.unique(root[root != WORLD]) if np.sum(root == r) > 1]


def _keep_momenta(
    bodies: Bodies, at: Motion, moved: Array, tree: np.ndarray, planar: bool
) -> tuple[Motion, Array]:
    """Bring a tree back as a whole to where its centre of mass was, and turn it as its spin requires."""
    mass, before = bodies.mass[tree], at.p[tree]
    fraction = mass / jnp.sum(mass)
    p = moved[tree] - fraction @ (moved[tree] - before)
    arm = p - fraction @ p
    steiner = dot(arm, arm)[:, None, None] * jnp.eye(3, dtype=p.dtype) - outer(arm, arm)
    inertia = jnp.sum(inertias(bodies, at.R)[tree] + mass[:, None, None] * steiner, 0)
    lost = mass @ cross(before - p, at.v[tree])
    turn = _spin_about_y(inertia, lost) if planar else matvec(inverse3(inertia), lost)
    at = at._replace(v=at.v.at[tree].add(cross(turn, arm)), w=at.w.at[tree].add(turn))
    return at, moved.at[tree].set(p)


def _spin_about_y(inertia: Array, momentum: Array) -> Array:
    """[rad/s] spin (3,) that a planar tree needs for a momentum."""
    return jnp.eye(3, dtype=momentum.dtype)[1] * (momentum[1] / inertia[1, 1])
