"""Joints along the tree, solved exactly: articulated inertia in maximal coordinates.

Every body hangs from its parent by V_b = X V_p + S q + c, with S what the joint leaves free, q its rates
and c what keeps it closed. Eliminating q from the leaves inwards (Featherstone's articulated bodies, Baraff
1996 in constraint form) gives in linear time the velocities nearest, in kinetic energy, to the free ones.
Heavy loads at the end of long chains cost nothing extra. A wrench passes from child to parent as the same
wrench, so both momenta are kept to rounding.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.joints import Joints
from backflip.dynamics.motion import Motion
from backflip.math import cross, gram, matmul, matvec, skew, transpose, vecmat, whiten
from backflip.model import Bodies, Topology
from backflip.model.facts import WORLD, Group
from backflip.model.joints import JointKind
from backflip.solve import Delassus


class Branch(NamedTuple):
    """A group of bodies with what elimination left of them."""

    bodies: np.ndarray
    parents: np.ndarray
    apart: Array
    """(k, 3) [m] child from parent"""
    S: Array
    """(k, 6, f)"""
    U: Array
    """(k, 6, f) articulated inertia times S"""
    whitener: Array
    D_inverse: Array
    """(k, f, f) of D = Sᵀ U: D⁻¹ = whitenerᵀ whitener"""
    inertia: Array
    """(k, 6, 6) articulated"""
    drag: Array
    """(k, f) impulse of the dampers per rate before the step"""

    @property
    def hung(self) -> bool:
        """Whether there is a moving parent."""
        return self.parents[0] != WORLD


def branches_of(
    facts: Topology, bodies: Bodies, at: Motion, inertia: Array, joints: dict[JointKind, Joints],
    springs: dict[JointKind, Array], dampers: dict[JointKind, Array],
) -> tuple[Branch, ...]:  # fmt: skip
    """Eliminate from the leaves inwards.

    `inertia` (n, 3, 3) is in W; by joint kind `springs` (k, f) is what springs add to it and `dampers` (k, f)
    the impulse of dampers per rate.
    """
    inertia = _spatial(bodies, inertia)
    branches = []
    for group in reversed(facts.groups):
        index, parents = np.array(group.bodies), np.array(group.parents)
        S = _free_twists(group, at, joints)
        here = inertia[index]
        if group.freedoms == 6:
            U, D = here, here
        else:
            U = matmul(here, S)
            D = matmul(transpose(S), U)
        drag = jnp.zeros(S.shape[::2], D.dtype)
        if group.kind is not None:
            place = joints[group.kind].at(group.joints)
            spring, damper = springs[group.kind][place], dampers[group.kind][place]
            later = _later_part(damper / jnp.diagonal(D, axis1=-2, axis2=-1))
            drag = damper * (1 - later)
            D = D + (spring + damper * later)[..., None] * jnp.eye(S.shape[-1], dtype=U.dtype)
        whitener = whiten(D) if D.shape[-1] else D
        apart = at.p[index] - jnp.where(parents[:, None] == WORLD, 0, at.p[parents])
        branch = Branch(index, parents, apart, S, U, whitener, gram(transpose(whitener)), here, drag)
        if branch.hung:
            projected = here - gram(matmul(U, transpose(whitener))) if S.shape[-1] else here
            inertia = inertia.at[parents].add(_carry_inertia(projected, apart))
        branches.append(branch)
    return tuple(reversed(branches))


def _later_part(x: Array) -> Array:
    """The part of a damper's impulse that goes with the rate after the step, the rest with that before.

    A half where the decay x per step is small: second order, and symmetric, as part(x) + part(−x) = 1. All
    of it where x is large: a stiff damper brings its joint to rest and does not ring. About that of an exact
    decay, 1/(1 − exp(−x)) − 1/x.
    """
    return 0.5 + 0.5 * x / jnp.sqrt(36 + x * x)


def _free_twists(group: Group, at: Motion, joints: dict[JointKind, Joints]) -> Array:
    """S (k, 6, f) at the children's centres of mass."""
    index, count = np.array(group.bodies), len(group.bodies)
    dtype = at.p.dtype
    f = group.freedoms
    if group.kind is None:
        free = np.eye(6)[:, [0, 2, 4]] if f == 3 else np.eye(6)
        return jnp.broadcast_to(jnp.asarray(free, dtype), (count, 6, f))
    kind = joints[group.kind]
    place = kind.at(group.joints)
    sign = jnp.asarray(group.signs, dtype)[:, None]
    arm = at.p[index] - kind.pivot[place]
    columns = [sign * _shift(kind.free[place, :, k], arm) for k in range(f)]
    return jnp.stack(columns, -1) if f else jnp.zeros((count, 6, 0), dtype)


def biases(
    facts: Topology, at: Motion, joints: dict[JointKind, Joints], twists: dict[JointKind, Array]
) -> list[Array]:
    """c (k, 6) by branch, from twists (k, 6) of B relative to A at the pivots of the joints of each kind."""
    by_branch = []
    for group in facts.groups:
        if group.kind is None:
            by_branch.append(jnp.zeros((len(group.bodies), 6), at.p.dtype))
        else:
            kind = joints[group.kind]
            place = kind.at(group.joints)
            sign = jnp.asarray(group.signs, at.p.dtype)[:, None]
            arm = at.p[np.array(group.bodies)] - kind.pivot[place]
            by_branch.append(sign * _shift(twists[group.kind][place], arm))
    return by_branch


def _shift(twist: Array, arm: Array) -> Array:
    """The same twist at a point `arm` away."""
    v, w = twist[..., :3], twist[..., 3:]
    return jnp.concatenate([v + cross(w, arm), w], -1)


def _shift_wrench(wrench: Array, arm: Array) -> Array:
    """A wrench acting at `arm` from a point, as it acts at that point."""
    f, t = wrench[..., :3], wrench[..., 3:]
    return jnp.concatenate([f, t + cross(arm, f)], -1)


def _spatial(bodies: Bodies, inertia: Array) -> Array:
    """(n, 6, 6) inertia at the centres of mass."""
    eye = jnp.eye(3, dtype=bodies.mass.dtype)
    zero = jnp.zeros_like(inertia)
    top = jnp.concatenate([bodies.mass[:, None, None] * eye, zero], -1)
    return jnp.concatenate([top, jnp.concatenate([zero, inertia], -1)], -2)


def _carry_inertia(I: Array, d: Array) -> Array:
    """Xᵀ I X: inertia at a child, d from the parent, at the parent."""
    A, B, C = I[..., :3, :3], I[..., :3, 3:], I[..., 3:, 3:]
    D = skew(d)
    B_moved = B - matmul(A, D)
    C_moved = C - matmul(transpose(B), D) + matmul(D, B_moved)
    top = jnp.concatenate([A, B_moved], -1)
    return jnp.concatenate([top, jnp.concatenate([transpose(B_moved), C_moved], -1)], -2)


def velocities(
    branches: tuple[Branch, ...], momentum: Array, impulses: list[Array], biases: list[Array]
) -> Array:
    """Twists (n, 6) for body momenta (n, 6) that joints leave; `impulses` (k, f) and c (k, 6) by branch."""
    responses = []
    for branch, impulse, bias in reversed(list(zip(branches, impulses, biases, strict=True))):
        h = momentum[branch.bodies]
        response = matvec(branch.D_inverse, vecmat(h, branch.S) + impulse)
        if branch.hung:
            rate = response - matvec(branch.D_inverse, vecmat(bias, branch.U))
            passed = h - matvec(branch.inertia, bias) - matvec(branch.U, rate)
            momentum = momentum.at[branch.parents].add(_shift_wrench(passed, branch.apart))
        responses.append(response)
    twist = jnp.zeros_like(momentum)
    for branch, response, bias in zip(branches, reversed(responses), biases, strict=True):
        carried = bias
        if branch.hung:
            carried = carried + _shift(twist[branch.parents], branch.apart)
        rate = response - matvec(branch.D_inverse, vecmat(carried, branch.U))
        twist = twist.at[branch.bodies].set(carried + matvec(branch.S, rate))
    return twist


def respond(branches: tuple[Branch, ...], wrench: Array) -> Array:
    """Twists (r, n, 6) that impulses `wrench` (r, n, 6) cause with all joints holding: M⁻¹ wrench."""
    twist = jnp.zeros_like(wrench)
    for branch, impulse in zip(branches, _joint_impulses(branches, wrench), strict=True):
        response = matvec(branch.D_inverse, impulse)
        if not branch.hung:
            here = matvec(branch.S, response)
        else:
            carried = _shift(twist[:, branch.parents], branch.apart)
            rate = response - matvec(branch.D_inverse, vecmat(carried, branch.U))
            here = carried + matvec(branch.S, rate)
        twist = twist.at[:, branch.bodies].set(here)
    return twist


def delassus(branches: tuple[Branch, ...], J: Array) -> Delassus:
    """J M⁻¹ Jᵀ with all joints holding, from the inward pass alone.

    Elimination factors M⁻¹ by branches: A = Σ tᵀ D⁻¹ t = Σ |whitener t|², t (f,) the generalised impulse of a
    row on a joint once all joints further out are eliminated.
    """
    factors = [matvec(b.whitener, t) for b, t in zip(branches, _joint_impulses(branches, J), strict=True)]
    return Delassus(jnp.concatenate([x.reshape(J.shape[0], -1) for x in factors], -1))


def _joint_impulses(branches: tuple[Branch, ...], wrench: Array) -> list[Array]:
    """By branch, generalised impulses (r, k, f) of its joints for impulses (r, n, 6), carried inwards."""
    impulses = []
    for branch in reversed(branches):
        h = wrench[:, branch.bodies]
        t = vecmat(h, branch.S)
        if branch.hung:
            passed = h - matvec(branch.U, matvec(branch.D_inverse, t)) if branch.S.shape[-1] else h
            wrench = wrench.at[:, branch.parents].add(_shift_wrench(passed, branch.apart))
        impulses.append(t)
    return impulses[::-1]
