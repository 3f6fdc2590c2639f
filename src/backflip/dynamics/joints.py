"""Joints at a moment: which relative motion they leave, how far they are off, and how they drift apart."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.motion import Motion
from backflip.math import cross, dot, matmul, matvec, vecmat
from backflip.model import Bodies, Model
from backflip.model.bodies import with_world
from backflip.model.joints import Frames, JointKind

BAUMGARTE = 0.3
"""Part of a joint's error that a step corrects; the error shrinks by 1 − BAUMGARTE each step."""


class Joints(NamedTuple):
    """All joints of one kind, with twists of B relative to A at a common pivot."""

    joint: np.ndarray
    """(k,) place in the model"""
    a: np.ndarray
    b: np.ndarray
    """(k,) bodies; −1 is the world"""
    pivot: Array
    """(k, 3) [m], in W"""
    arm_A: Array
    arm_B: Array
    """(k, 3) [m] pivot from the centres of mass"""
    free: Array
    """(k, 6, f) twists that are left free"""
    held: Array
    """(k, 6, 6 − f) twists that are held, orthonormal"""
    measures: Array
    """(k, 6, c) coordinate rates are these · twist"""
    error: Array
    """(k, 6) [m, rad] how far B is off, along the held twists"""
    twist: Array
    """(k, 6) [m/s, rad/s] of B relative to A"""
    acceleration: Array
    """(k, 6) [m/s², rad/s²] at which B in free flight leaves the joint, along the held twists: J̇ V"""
    position: Array
    """(k, c) [rad] or [m]"""
    rate: Array
    """(k, c) [rad/s] or [m/s]"""

    def parting(self) -> Array:
        """(k, 6) [m/s, rad/s] the twist at which B leaves the joint, along the held twists."""
        return along(self.held, self.twist)

    def free_rates(self) -> Array:
        """(k, f) rates of the free twists: of the coordinates, where there are some."""
        return self.rate if self.rate.shape[-1] else vecmat(self.twist, self.free)

    def bias(self, dt: float) -> Array:
        """(k, 6) twist of B relative to A at mid-step that closes the joint at the end of the step.

        In the half step after, h = dt/2, bodies in free flight part by ½ h² J̇ V.
        """
        h = dt / 2
        return -self.error / h - h / 2 * self.acceleration

    def at(self, joints: tuple[int, ...]) -> np.ndarray:
        """Where these joints of the model stand among those of the kind."""
        return np.searchsorted(self.joint, joints)


def joints_of_kind(model: Model, bodies: Bodies, at: Motion, precession: Array, kind: JointKind) -> Joints:
    """Joints of one kind at a moment; `precession` (n, 3) [rad/s²] of bodies in free flight."""
    facts = model.topology.joints
    index = np.array([j for j, f in enumerate(facts) if f.kind == kind], int)
    a, b = (np.array([getattr(facts[j], end) for j in index], int) for end in "ab")
    p, R = with_world(at.p, at.R)
    v, w, dw = (jnp.concatenate([x, jnp.zeros((1, 3), x.dtype)]) for x in (at.v, at.w, precession))
    P, Q = p[a] + matvec(R[a], bodies.p_CJ_A[index]), p[b] + matvec(R[b], bodies.p_CJ_B[index])
    R_A, R_B = matmul(R[a], model.R_AJ[index]), matmul(R[b], model.R_BJ[index])
    frames = Frames(R_A, R_B, Q - P, w[a], w[b])
    pivot = Q if kind.slides else (P + Q) / 2
    arm_A, arm_B = pivot - p[a], pivot - p[b]
    slide = v[b] + cross(w[b], arm_B) - v[a] - cross(w[a], arm_A)
    twist = jnp.concatenate([slide, w[b] - w[a]], -1)
    free, held, measures = (
        _columns(x, twist) for x in (kind.free(frames), kind.held(frames), kind.measures(frames))
    )
    rate = jnp.stack([dot(m, twist) for m in kind.measures(frames)], -1) if kind.units else twist[:, :0]
    # of the pivot as a point of B, less as a point of A, both in free flight
    linear = cross(w[b], cross(w[b], arm_B)) - cross(w[a], cross(w[a], arm_A))
    linear = linear + cross(dw[b], arm_B) - cross(dw[a], arm_A)
    acceleration = jnp.concatenate([linear, dw[b] - dw[a]], -1) - kind.velocity_product(frames, rate)
    return Joints(
        index, a, b, pivot, arm_A, arm_B, free, held, measures,
        error=along(held, kind.error(frames)),
        twist=twist,
        acceleration=along(held, acceleration),
        position=kind.positions(frames),
        rate=rate,
    )  # fmt: skip


def _columns(twists: list[Array], like: Array) -> Array:
    """Twists (k, 6) side by side: (k, 6, f)."""
    return jnp.stack(twists, -1) if twists else jnp.zeros((*like.shape, 0), like.dtype)


def along(held: Array, twist: Array) -> Array:
    """The part of a twist along the held ones, which are orthonormal."""
    total = jnp.zeros_like(twist)
    for k in range(held.shape[-1]):
        total = total + held[..., k] * dot(held[..., k], twist)[..., None]
    return total


def all_joints(model: Model, bodies: Bodies, at: Motion, precession: Array) -> dict[JointKind, Joints]:
    """Joints by kind."""
    return {kind: joints_of_kind(model, bodies, at, precession, kind) for kind in model.topology.joint_kinds}


def joint_coordinates(model: Model, bodies: Bodies, at: Motion) -> tuple[Array, Array]:
    """Positions (c,) [rad] or [m] and rates (c,) of all coordinates, in joint order."""
    coordinates = coordinate_rows(model, all_joints(model, bodies, at, jnp.zeros_like(at.w)))
    return coordinates.position, coordinates.rate


class Coordinates(NamedTuple):
    """Joint coordinates as rows, in joint order: rate = J_A · V_A + J_B · V_B."""

    a: np.ndarray
    b: np.ndarray
    J_A: Array
    J_B: Array
    """(c, 6)"""
    position: Array
    rate: Array
    """(c,)"""


def coordinate_rows(model: Model, joints: dict[JointKind, Joints]) -> Coordinates:
    """Every coordinate of the model as a row."""
    measured = [k for kind, k in joints.items() if kind.units]
    if not measured:
        none, empty = np.zeros(0, int), jnp.zeros((0, 6), model.gravity.dtype)
        return Coordinates(none, none, empty, empty, empty[:, 0], empty[:, 0])
    own = [(j, c) for k in measured for j in k.joint for c in range(k.position.shape[-1])]
    order = np.array([own.index(c) for c in model.topology.coordinates], int)
    pairs = [row_pair(k, k.measures) for k in measured]
    ends = [np.repeat([k.a, k.b], k.position.shape[-1], axis=1) for k in measured]
    a, b = np.concatenate(ends, axis=1)[:, order]
    return Coordinates(
        a,
        b,
        jnp.concatenate([J_A for J_A, _ in pairs])[order],
        jnp.concatenate([J_B for _, J_B in pairs])[order],
        jnp.concatenate([k.position.reshape(-1) for k in measured])[order],
        jnp.concatenate([k.rate.reshape(-1) for k in measured])[order],
    )


def row_pair(joints: Joints, twists: Array) -> tuple[Array, Array]:
    """J_A and J_B (k·f, 6) of rows that measure relative `twists` (k, 6, f) at the pivots."""
    f = jnp.swapaxes(twists, -1, -2)
    linear, angular = f[..., :3], f[..., 3:]
    J_A = -jnp.concatenate([linear, cross(joints.arm_A[:, None], linear) + angular], -1)
    J_B = jnp.concatenate([linear, cross(joints.arm_B[:, None], linear) + angular], -1)
    return J_A.reshape(-1, 6), J_B.reshape(-1, 6)
