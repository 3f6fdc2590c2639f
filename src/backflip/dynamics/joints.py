"""Joints: which relative motion they leave, how far they are off, and how they drift within a step.

Per kind of joint, at a common pivot point, for the twist of body B relative to body A:

    kind        leaves (freedoms)                holds
    hinge       turn about z_A                   point, z_A ∥ z_B
    slider      move along z_A                   orientation, the line along z_A
    universal   turn about z_A and x_B           point, z_A ⟂ x_B
    ball        turn                             point
    fixed       nothing                          everything

and in planar scenes, where y is held anyway:

    hold x         move along z, turn about y    the line x = const through a point of B
    hold z         move along x, turn about y    the line z = const through a point of B
    hold rotation  move along x and z            orientation
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.motion import Motion
from backflip.math import cross, dot, matmul, matvec, relative_rotation_vector
from backflip.model import Bodies, Model
from backflip.model.bodies import with_world
from backflip.model.facts import COORDINATES, FREEDOMS, HOLDS

MEND = 0.3
"""Part of a joint's error that a step mends; the error shrinks by 1 − MEND each step."""


class Joints(NamedTuple):
    """All joints of one kind, seen from a common pivot."""

    which: np.ndarray
    """(k,) place in the model"""
    a: np.ndarray
    b: np.ndarray
    """(k,) bodies; −1 is the world"""
    pivot: Array
    """(k, 3) [m], in W"""
    arm_A: Array
    arm_B: Array
    """(k, 3) [m] pivot from the centres of mass"""
    freedoms: Array
    """(k, 6, f) twists of B relative to A that are left free"""
    holds: Array
    """(k, 6, 6 − f) twists that are held"""
    error: Array
    """(k, 6) [m, rad] how far B is off"""
    strain: Array
    """(k, 6) [m/s², rad/s²] acceleration of B relative to A, were both left alone for a moment"""
    angle: Array
    """(k, c) [rad] or [m]"""
    rate: Array
    """(k, c) [rad/s] or [m/s]"""

    def bias(self, dt: float) -> Array:
        """(k, 6) twist of B relative to A at mid-step that holds the joint at the end of the step.

        Bodies drift apart by ½ h² strain in the half step before, h = dt/2, which is no error;
        in the half step after they gain h · strain, which is taken off beforehand.
        """
        h = dt / 2
        return -h * self.strain - MEND / dt * (self.error - h * h / 2 * self.strain)


def joints_of_kind(model: Model, bodies: Bodies, at: Motion, alone: Array, kind: str) -> Joints:
    """Joints of one kind at a moment; `alone` (n, 3) is the precession of bodies left alone [rad/s²]."""
    facts = model.topology.joints
    index = np.array([j for j, f in enumerate(facts) if f.kind == kind], int)
    a, b = (np.array([getattr(facts[j], end) for j in index], int) for end in "ab")
    p, R = with_world(at.p, at.R)
    v, w, alone = (jnp.concatenate([x, jnp.zeros((1, 3), x.dtype)]) for x in (at.v, at.w, alone))
    R_A, R_B = matmul(R[a], model.R_AJ[index]), matmul(R[b], model.R_BJ[index])
    P, Q = p[a] + matvec(R[a], bodies.p_CJ_A[index]), p[b] + matvec(R[b], bodies.p_CJ_B[index])
    pivot = Q if kind == "slider" or kind in HOLDS else (P + Q) / 2
    arm_A, arm_B = pivot - p[a], pivot - p[b]
    spin = w[b] - w[a]
    slide = v[b] + cross(w[b], arm_B) - v[a] - cross(w[a], arm_A)
    angle, rate = _coordinates(kind, R_A, R_B, Q - P, spin, slide)
    freedoms, holds = _subspaces(kind, R_A, R_B)
    turning = _turning(kind, R_A, R_B, w[a], w[b], rate)
    strain_v = cross(w[b], cross(w[b], arm_B)) - cross(w[a], cross(w[a], arm_A))
    strain_v = strain_v + cross(alone[b], arm_B) - cross(alone[a], arm_A)
    if kind == "slider":  # Coriolis: the axis turns under the sliding body
        strain_v = strain_v - 2 * rate * cross(w[a], R_A[:, :, 2])
    strain = jnp.concatenate([strain_v, alone[b] - alone[a] - turning], -1)
    return Joints(
        index, a, b, pivot, arm_A, arm_B, freedoms, holds,
        error=_held(holds, _error(kind, R_A, R_B, Q - P)),
        strain=_held(holds, strain),
        angle=angle,
        rate=rate,
    )  # fmt: skip


def _held(holds: Array, twist: Array) -> Array:
    """The part of a twist along the held directions, which are orthonormal."""
    total = jnp.zeros_like(twist)
    for k in range(holds.shape[-1]):
        total = total + holds[..., k] * dot(holds[..., k], twist)[..., None]
    return total


def _axis(R: Array, k: int) -> Array:
    return R[..., :, k]


def _coordinates(kind, R_A, R_B, apart, spin, slide) -> tuple[Array, Array]:
    """Angles or positions (k, c) and their rates."""
    x_A, y_A, z_A = (_axis(R_A, k) for k in range(3))
    x_B, y_B, z_B = (_axis(R_B, k) for k in range(3))
    if kind == "slider":
        return dot(z_A, apart)[:, None], dot(z_A, slide)[:, None]
    first = _angle(dot(y_A, x_B), dot(x_A, x_B))
    if kind == "hinge":
        return first[:, None], dot(z_A, spin)[:, None]
    if kind == "universal":
        second = _angle(dot(z_A, y_B), dot(z_A, z_B))
        return jnp.stack([first, second], -1), jnp.stack([dot(z_A, spin), dot(x_B, spin)], -1)
    empty = jnp.zeros((*apart.shape[:-1], 0), apart.dtype)
    return empty, empty


def _angle(sine: Array, cosine: Array) -> Array:
    """atan2 that is 0, with gradient 0, where both are 0."""
    there = sine * sine + cosine * cosine > 0
    return jnp.arctan2(jnp.where(there, sine, 0), jnp.where(there, cosine, 1))


def _subspaces(kind: str, R_A: Array, R_B: Array) -> tuple[Array, Array]:
    """Free and held twists (k, 6, f) and (k, 6, 6 − f), orthonormal."""
    still = jnp.zeros_like(_axis(R_A, 0))
    eye = jnp.broadcast_to(jnp.eye(3, dtype=R_A.dtype), R_A.shape)
    moves = [jnp.concatenate([_axis(eye, k), still], -1) for k in range(3)]
    turns = [jnp.concatenate([still, _axis(eye, k)], -1) for k in range(3)]

    def move(x: Array) -> Array:
        return jnp.concatenate([x, still], -1)

    def turn(x: Array) -> Array:
        return jnp.concatenate([still, x], -1)

    x_A, y_A, z_A, x_B = _axis(R_A, 0), _axis(R_A, 1), _axis(R_A, 2), _axis(R_B, 0)
    table = {
        "hinge": ([turn(z_A)], [*moves, turn(x_A), turn(y_A)]),
        "slider": ([move(z_A)], [move(x_A), move(y_A), *turns]),
        "universal": ([turn(z_A), turn(x_B)], [*moves, turn(cross(z_A, x_B))]),
        "ball": (turns, moves),
        "fixed": ([], moves + turns),
        "hold x": ([moves[2], turns[1]], [moves[0], moves[1], turns[0], turns[2]]),
        "hold z": ([moves[0], turns[1]], [moves[1], moves[2], turns[0], turns[2]]),
        "hold rotation": ([moves[0], moves[2]], [moves[1], *turns]),
    }
    free, held = table[kind]
    empty = jnp.zeros((*still.shape[:-1], 6, 0), R_A.dtype)
    return jnp.stack(free, -1) if free else empty, jnp.stack(held, -1)


def _error(kind: str, R_A: Array, R_B: Array, apart: Array) -> Array:
    """How far B is off, as the twist (k, 6) that would have taken it there."""
    still = jnp.zeros_like(apart)
    z_A, x_B = _axis(R_A, 2), _axis(R_B, 0)
    turn = {
        "hinge": lambda: cross(z_A, _axis(R_B, 2)),
        # d(z_A·x_B)/dt = −(z_A × x_B) · w_AB
        "universal": lambda: -cross(z_A, x_B) * dot(z_A, x_B)[..., None],
        "ball": lambda: still,
        "slider": lambda: relative_rotation_vector(R_A, R_B),
        "fixed": lambda: relative_rotation_vector(R_A, R_B),
        "hold x": lambda: still,
        "hold z": lambda: still,
        "hold rotation": lambda: relative_rotation_vector(R_A, R_B),
    }[kind]()
    return jnp.concatenate([apart, turn], -1)


def _turning(kind: str, R_A: Array, R_B: Array, w_A: Array, w_B: Array, rate: Array) -> Array:
    """Rate of change of the allowed relative spin because its axes turn [rad/s²]."""
    if kind not in ("hinge", "universal"):
        return jnp.zeros_like(w_A)
    turning = rate[:, :1] * cross(w_A, _axis(R_A, 2))
    if kind == "universal":
        turning = turning + rate[:, 1:] * cross(w_B, _axis(R_B, 0))
    return turning


def all_joints(model: Model, bodies: Bodies, at: Motion, alone: Array) -> dict[str, Joints]:
    """Joints by kind."""
    kinds = sorted({f.kind for f in model.topology.joints})
    return {kind: joints_of_kind(model, bodies, at, alone, kind) for kind in kinds}


def joint_coordinates(model: Model, bodies: Bodies, at: Motion) -> tuple[Array, Array]:
    """Angles or positions (c,) and rates (c,) of all coordinates, in joint order."""
    joints = all_joints(model, bodies, at, jnp.zeros_like(at.w))
    return gather_coordinates(model, joints)


def gather_coordinates(model: Model, joints: dict[str, Joints]) -> tuple[Array, Array]:
    """Angles and rates (c,) put back into joint order."""
    if not model.topology.coordinates:
        empty = jnp.zeros(0, model.gravity.dtype)
        return empty, empty
    order = _order(model, joints)
    kinds = [k for k in joints.values() if k.angle.shape[-1]]
    angle = jnp.concatenate([k.angle.reshape(-1) for k in kinds])
    rate = jnp.concatenate([k.rate.reshape(-1) for k in kinds])
    return angle[order], rate[order]


def _order(model: Model, joints: dict[str, Joints]) -> np.ndarray:
    """Where each coordinate of the model stands when kinds are laid end to end."""
    laid = [(j, c) for kind, k in joints.items() for j in k.which for c in range(COORDINATES[kind])]
    return np.array([laid.index(c) for c in model.topology.coordinates], int)


class Coordinates(NamedTuple):
    """Joint coordinates as rows: rate = J_A · V_A + J_B · V_B."""

    a: np.ndarray
    b: np.ndarray
    J_A: Array
    J_B: Array
    """(c, 6)"""
    angle: Array
    rate: Array
    """(c,)"""


def coordinate_rows(model: Model, joints: dict[str, Joints]) -> Coordinates:
    """Every coordinate of the model as a row; freedoms are orthonormal, so they measure their own rate."""
    angle, rate = gather_coordinates(model, joints)
    kinds = [(kind, k) for kind, k in joints.items() if COORDINATES[kind]]
    if not kinds:
        empty = jnp.zeros((0, 6), model.gravity.dtype)
        return Coordinates(np.zeros(0, int), np.zeros(0, int), empty, empty, angle, rate)
    order = _order(model, joints)
    J_A, J_B, a, b = [], [], [], []
    for kind, k in kinds:
        A, B = row_pair(k, k.freedoms)
        J_A.append(A)
        J_B.append(B)
        a.append(np.repeat(k.a, FREEDOMS[kind]))
        b.append(np.repeat(k.b, FREEDOMS[kind]))
    return Coordinates(
        np.concatenate(a)[order],
        np.concatenate(b)[order],
        jnp.concatenate(J_A)[order],
        jnp.concatenate(J_B)[order],
        angle,
        rate,
    )


def row_pair(joints: Joints, twists: Array) -> tuple[Array, Array]:
    """J_A and J_B (k·f, 6) of rows that measure relative `twists` (k, 6, f) at the pivots."""
    f = jnp.swapaxes(twists, -1, -2)
    push, turn = f[..., :3], f[..., 3:]
    J_A = -jnp.concatenate([push, cross(joints.arm_A[:, None], push) + turn], -1)
    J_B = jnp.concatenate([push, cross(joints.arm_B[:, None], push) + turn], -1)
    return J_A.reshape(-1, 6), J_B.reshape(-1, 6)
