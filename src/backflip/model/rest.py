"""The state a Model starts in: roots where they were put, the rest hung from them by their joints."""

from functools import reduce

import jax
import jax.numpy as jnp
from jax import Array

from backflip import lanes
from backflip.math import matmul, matvec, transpose, vecmat
from backflip.model.bodies import Bodies, bodies_of
from backflip.model.facts import WORLD
from backflip.model.joints import Pose
from backflip.model.model import Model, State


@jax.jit
@lanes.compile
def rest(model: Model, angles: Array | None = None) -> State:
    """The start state; `angles` (c,) [rad] or [m] are the joint coordinates, 0 as described.

    Children are placed by forward kinematics, so a changed length moves everything below it.
    Coordinates of loop and soft joints follow from the rest; velocities stay as described.
    Bodies hung by ball or fixed joints keep their described orientation relative to the parent.
    """
    facts = model.topology
    c = len(facts.coordinates)
    angles = None if angles is None else jnp.asarray(angles)
    if angles is not None and angles.shape != (c,):
        raise ValueError(f"rest: angles has shape {angles.shape}; this model has {c} coordinates: ({c},)")
    q = jnp.zeros(c, model.gravity.dtype) if angles is None else angles
    bodies = bodies_of(model)
    p_WB, R_WB = place(model, bodies, q)
    zeros = jnp.zeros_like(p_WB)
    force = jnp.zeros(facts.layout.rows, p_WB.dtype)
    return State(p_WB, R_WB, model.velocity, model.spin, zeros, zeros, force)


def place(model: Model, bodies: Bodies, q: Array) -> tuple[Array, Array]:
    """Centres of mass (n, 3) and orientations (n, 3, 3) for joint coordinates q (c,)."""
    facts = model.topology
    eye, zero = jnp.eye(3, dtype=q.dtype), jnp.zeros(3, q.dtype)
    pose: dict[int, Pose] = {WORLD: (zero, eye)}
    for group in facts.groups:
        for b, a, j, sign in zip(group.bodies, group.parents, group.joints, group.signs, strict=True):
            if j < 0:
                R = model.rotation[b]
                pose[b] = model.position[b] + matvec(R, bodies.com[b]), R
                continue
            # X_WB = X_WA X_AJ X(q) X_BJ⁻¹, or the same backwards where the tree runs from B to A
            across = facts.joints[j].kind.motion(q[facts.coordinates_of(j)])
            X_AJ, X_BJ = (bodies.p_AJ[j], model.R_AJ[j]), (bodies.p_BJ[j], model.R_BJ[j])
            forward = (X_AJ, across, _inverse(X_BJ))
            backward = (X_BJ, _inverse(across), _inverse(X_AJ))
            pose[b] = reduce(_compose, forward if sign > 0 else backward, pose[a])
    n = len(facts.bodies)
    return jnp.stack([pose[b][0] for b in range(n)]), jnp.stack([pose[b][1] for b in range(n)])


def _compose(X: Pose, Y: Pose) -> Pose:
    return X[0] + matvec(X[1], Y[0]), matmul(X[1], Y[1])


def _inverse(X: Pose) -> Pose:
    return -vecmat(X[0], X[1]), transpose(X[1])
