"""The state a Model starts in: roots where they were put, the rest hung from them by their joints."""

import warnings
from collections.abc import Mapping
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from backflip import lanes
from backflip.math import cross, matmul, matvec, transpose, vecmat
from backflip.model.bodies import Bodies, bodies_of, with_world
from backflip.model.facts import WORLD, Topology
from backflip.model.fields import expect_model
from backflip.model.joints import Pose
from backflip.model.model import Model, State

Coordinates = Mapping[str, ArrayLike] | ArrayLike | None
"""Numbers by joint, or (c,) of all coordinates in their order, or nothing"""
SLACK = 1e-3
"""[rad] or [m] beyond a limit that is worth no warning"""


def rest(model: Model, positions: Coordinates = None, velocities: Coordinates = None) -> State:
    """The start state for positions [rad] or [m] and velocities of joints: `rest(model, {"knee": 0.3})`.

    Both are by joint name, with 0 for those left out, or arrays (c,) of all coordinates. A position is 0 as
    described. Bodies are placed by forward kinematics, so a changed length moves everything below it;
    coordinates of loop and soft joints follow from the rest, and loops left open are warned of. Bodies hung
    by ball or fixed joints keep their described orientation relative to the parent.

    Without `velocities` bodies move as described. With them only the root of each tree does, its body that
    was added first; the others move with it and with their joints, and ball joints do not turn.
    """
    expect_model("rest", model)
    q = _coordinates(model, "positions", positions)
    rate = None if velocities is None else _coordinates(model, "velocities", velocities)
    state = _rest(model, q, rate)
    if positions is not None:
        _warn_of_odd_positions(model, q)
        _warn_of_open_loops(model, state)
    return state


@jax.jit
@lanes.compile
def _rest(model: Model, q: Array, rate: Array | None) -> State:
    bodies = bodies_of(model)
    if rate is None:
        p_WB, R_WB = place(model, bodies, q)
        v_WB, w_WB = model.velocity, model.spin
    else:
        (p_WB, R_WB), (v, dR) = jax.jvp(lambda q: place(model, bodies, q), (q,), (rate,))
        v_WB, w_WB = _carried(model, p_WB, v, _spin(R_WB, dR))
    zeros = jnp.zeros_like(p_WB)
    force = jnp.zeros(model.topology.layout.rows, p_WB.dtype)
    return State(p_WB, R_WB, v_WB, w_WB, zeros, zeros, force)


def _coordinates(model: Model, what: str, given: Coordinates) -> Array:
    """(c,) in order, from numbers by joint or an array."""
    facts, dtype = model.topology, model.gravity.dtype
    c = len(facts.coordinates)
    if given is None:
        return jnp.asarray(np.zeros(c, dtype))
    if not isinstance(given, Mapping):
        array = _array(f"rest: {what}", given, dtype)
        if array.shape != (c,):
            raise ValueError(
                f"rest: {what} has shape {array.shape}; this model has {c} coordinates: ({c},), or give "
                "them by joint; for a batch wrap the call in jax.vmap"
            )
        return array
    q = jnp.zeros(c, dtype)
    for name, value in given.items():
        at = _tree_coordinates(facts, what, name)
        array = _array(f'rest: {what} of joint "{name}"', value, dtype)
        size = () if at.stop == at.start + 1 else (at.stop - at.start,)
        if array.shape != size:
            raise ValueError(f'rest: {what} of joint "{name}" has shape {array.shape} but needs {size}')
        q = q.at[at].set(array)
    return q


def _warn_of_odd_positions(model: Model, q: Array) -> None:
    """Warn, where numbers are known, of positions beyond limits, and of angles that look like degrees."""
    if any(isinstance(x, jax.core.Tracer) for x in (q, model.lower, model.upper)):
        return
    facts = model.topology
    numbers = (np.asarray(x) for x in (q, model.lower, model.upper))
    for (j, k), value, low, high in zip(facts.coordinates, *numbers, strict=True):
        joint = facts.joints[j]
        if joint.limited[k] and not low - SLACK <= value <= high + SLACK:
            what = f"beyond its limits ({low:g}, {high:g})"
        elif joint.kind.units[k] == "rad" and joint.kind.wraps and abs(value) > 2 * np.pi:
            what = "more than a turn: angles are in radians"
        else:
            continue
        warnings.warn(f'rest: joint "{joint.name}" starts at {value:g}, {what}', stacklevel=3)


def _warn_of_open_loops(model: Model, state: State) -> None:
    """Warn, where numbers are known, of loops that positions leave open."""
    facts = model.topology
    loops = [j for j, joint in enumerate(facts.joints) if joint.role == "loop" and not joint.kind.slides]
    if not loops or isinstance(state.p_WB, jax.core.Tracer) or isinstance(model.p_AJ, jax.core.Tracer):
        return
    bodies = jax.jit(bodies_of)(model)
    p, R = (np.asarray(x) for x in with_world(state.p_WB, state.R_WB))
    for j in loops:
        joint = facts.joints[j]
        P = p[joint.a] + R[joint.a] @ np.asarray(bodies.p_CJ_A[j])
        Q = p[joint.b] + R[joint.b] @ np.asarray(bodies.p_CJ_B[j])
        gap = float(np.linalg.norm(Q - P))
        if gap > SLACK:
            warnings.warn(
                f'rest: these positions leave the loop at joint "{joint.name}" open by {gap:.3g} m; '
                "choose positions that close it",
                stacklevel=3,
            )


def _array(who: str, value: ArrayLike, dtype: DTypeLike) -> Array:
    try:
        return jnp.asarray(value, dtype)
    except (TypeError, ValueError):
        raise ValueError(f"{who} is {value!r}; give numbers") from None


def _tree_coordinates(facts: Topology, what: str, name: str) -> slice:
    """Where the coordinates of a joint are that may be chosen."""
    try:
        at = facts.coordinates_of(facts.joint(name))
    except ValueError as error:
        raise ValueError(f"rest: {what}: {error}") from None
    if at.start == at.stop:
        raise ValueError(f'rest: joint "{name}" has no coordinate; it needs none of the {what}')
    role = facts.joints[facts.joint(name)].role
    if role != "tree":
        why = "closes a loop" if role == "loop" else "is soft"
        raise ValueError(f'rest: joint "{name}" {why}: its coordinate follows from the others; leave it out')
    return at


def _spin(R: Array, dR: Array) -> Array:
    """w (n, 3) of Ṙ = [w]× R."""
    W = matmul(dR, transpose(R))
    return jnp.stack([W[:, 2, 1] - W[:, 1, 2], W[:, 0, 2] - W[:, 2, 0], W[:, 1, 0] - W[:, 0, 1]], -1) / 2


def _carried(model: Model, p_WB: Array, v: Array, w: Array) -> tuple[Array, Array]:
    """Velocities (n, 3) of bodies that move with the first of their tree, and relative to it as v and w."""
    first = np.array(model.topology.roots, int)
    loose = jnp.asarray(first != WORLD, v.dtype)[:, None]
    v_root, w_root = loose * model.velocity[first], loose * model.spin[first]
    return v + v_root + cross(w_root, p_WB - p_WB[first]), w + w_root


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
            X_AJ, X_BJ = (bodies.p_CJ_A[j], model.R_AJ[j]), (bodies.p_CJ_B[j], model.R_BJ[j])
            forward = (X_AJ, across, _inverse(X_BJ))
            backward = (X_BJ, _inverse(across), _inverse(X_AJ))
            pose[b] = reduce(_compose, forward if sign > 0 else backward, pose[a])
    n = len(facts.bodies)
    return jnp.stack([pose[b][0] for b in range(n)]), jnp.stack([pose[b][1] for b in range(n)])


def _compose(X: Pose, Y: Pose) -> Pose:
    return X[0] + matvec(X[1], Y[0]), matmul(X[1], Y[1])


def _inverse(X: Pose) -> Pose:
    return -vecmat(X[0], X[1]), transpose(X[1])
