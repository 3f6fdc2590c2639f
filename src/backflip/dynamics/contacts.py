"""Where bodies touch: a fixed list of candidate contacts, each at its time of impact."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.impact import MIN_APPROACH_SPEED, impact_part
from backflip.dynamics.motion import Motion
from backflip.math import clamp, cross, dot, matmul, matvec, norm, rotate, unit
from backflip.model import Bodies, Model
from backflip.model.bodies import with_world
from backflip.model.facts import PairGroup

IMPACT_ITERATIONS = 3
"""Newton steps towards the time of impact of two bodies, from the start of the step: the gap of convex shapes
that fly straight is a convex function of time, so that no step goes beyond the impact. The error squares."""
PATCH_ITERATIONS = 1
"""the same for pairs with several contacts, whose flat faces make the first step nearly exact"""


class Contacts(NamedTuple):
    """Candidate contacts, k in all, from body a to body b."""

    a: np.ndarray
    b: np.ndarray
    """(k,) bodies; −1 is the world"""
    gap: Array
    """(k,) [m] at mid-step, extrapolated from the time of impact"""
    normal: Array
    """(k, 3) unit, from a to b, in W"""
    arm_A: Array
    arm_B: Array
    """(k, 3) [m] contact point from the centres of mass, in W"""
    lead_time: Array
    """(k,) [s] how long before mid-step all this was looked at"""
    friction: Array
    restitution: Array
    """(k,)"""


def contact_shapes(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The two shapes (k,) of every candidate contact."""
    groups = model.topology.pair_groups
    pairs = [np.repeat(group.pairs, group.count, 0) for group in groups]
    both = np.concatenate(pairs) if pairs else np.zeros((0, 2), int)
    return both[:, 0], both[:, 1]


def collide(model: Model, bodies: Bodies, at: Motion, dt: float) -> Contacts | None:
    """All candidate contacts of the bodies at mid-step, moving with the twists of `at`."""
    return _joined(model, [_collide_group(model, bodies, at, dt, g) for g in model.topology.pair_groups])


def contacts_of_poses(model: Model, bodies: Bodies, p_WB: Array, R_WB: Array) -> Contacts | None:
    """All candidate contacts of bodies that stand still: no time of impact is searched for."""
    still = Motion(p_WB, R_WB, jnp.zeros_like(p_WB), jnp.zeros_like(p_WB))
    groups = model.topology.pair_groups
    return _joined(model, [_flat(_look(model, bodies, still, g, None)) for g in groups])


def _joined(model: Model, groups: list[tuple[Array, ...]]) -> Contacts | None:
    """The candidates of all groups, with their bodies and materials."""
    if not groups:
        return None
    gap, normal, arm_A, arm_B, lead_time = (jnp.concatenate(parts) for parts in zip(*groups, strict=True))
    body = np.array([s.body for s in model.topology.shapes])
    i, k = contact_shapes(model)
    friction, restitution = _materials(model, i, k)
    return Contacts(body[i], body[k], gap, normal, arm_A, arm_B, lead_time, friction, restitution)


def _materials(model: Model, i: np.ndarray, k: np.ndarray) -> tuple[Array, Array]:
    """Friction and restitution of pairs: the mean, or the one that was given."""

    def mix(values: Array, given: np.ndarray) -> Array:
        weight_i = np.where(given[i] == given[k], 0.5, given[i].astype(float))
        weight = jnp.asarray(weight_i, values.dtype)
        return weight * values[i] + (1 - weight) * values[k]

    shapes = model.topology.shapes
    return (
        mix(model.friction, np.array([s.friction_given for s in shapes])),
        mix(model.restitution, np.array([s.restitution_given for s in shapes])),
    )


def _collide_group(
    model: Model, bodies: Bodies, at: Motion, dt: float, group: PairGroup
) -> tuple[Array, ...]:  # fmt: skip
    """Gap, normal, arms and lead time of all pairs of one group, flattened to (m·count, ...)."""
    if group.kinds[0].endless:
        # nothing gets to the other side of a plane
        return _flat(_look(model, bodies, at, group, None))
    h = dt / 2
    lead_time = jnp.full(len(group.pairs), h, at.p.dtype)
    near = _look(model, bodies, at, group, lead_time)
    iterations = IMPACT_ITERATIONS if group.count == 1 else PATCH_ITERATIONS
    for i in range(iterations):
        rate = near.rate()
        approaches = rate < -MIN_APPROACH_SPEED
        wait = jnp.where(approaches, near.gap / jnp.where(approaches, -rate, 1), 2 * dt)
        first = jnp.min(wait, -1)
        hits = first < lead_time + h
        lead_time = jnp.where(hits, clamp(lead_time - first, -h, h), 0)
        if i + 1 == iterations:
            approach = jnp.min(rate, -1)
            lead_time = lead_time * impact_part(approach, dt * norm(model.gravity))
        near = _look(model, bodies, at, group, lead_time)
    return _flat(near._replace(gap=near.gap + near.rate() * lead_time[:, None]))


class _Near(NamedTuple):
    """Candidates (m, count) of the pairs of a group at some time."""

    gap: Array
    """(m, count) [m]"""
    normal: Array
    arm_A: Array
    arm_B: Array
    """(m, count, 3)"""
    twist_A: Array
    twist_B: Array
    """(m, 6)"""
    lead_time: Array
    """(m,) [s]"""

    def rate(self) -> Array:
        """(m, count) [m/s] of the gap."""
        v_A, v_B = (
            twist[:, None, :3] + cross(twist[:, None, 3:], arm)
            for twist, arm in ((self.twist_A, self.arm_A), (self.twist_B, self.arm_B))
        )
        return dot(self.normal, v_B - v_A)


def _flat(near: _Near) -> tuple[Array, ...]:
    """Gap, normal, arms and lead time (m·count, ...)."""
    normal, arm_A, arm_B = (x.reshape(-1, 3) for x in (near.normal, near.arm_A, near.arm_B))
    return near.gap.reshape(-1), normal, arm_A, arm_B, jnp.repeat(near.lead_time, near.gap.shape[1])


def _look(model: Model, bodies: Bodies, at: Motion, group: PairGroup, lead_time: Array | None) -> _Near:
    """Candidates at mid-step, or `lead_time` (m,) [s] before it: bodies move and turn back by as much."""
    i, k = np.array(group.pairs).T
    body = np.array([s.body for s in model.topology.shapes])
    p, R = with_world(at.p, at.R)
    twist = jnp.concatenate([at.twist, jnp.zeros((1, 6), at.p.dtype)])

    def place(shapes: np.ndarray) -> tuple[Array, Array, Array]:
        b = body[shapes]
        p_WB, R_WB = p[b], R[b]
        if lead_time is not None:
            back = lead_time[:, None] * twist[b]
            p_WB, R_WB = p_WB - back[:, :3], rotate(-back[:, 3:], R_WB)
        return p_WB, p_WB + matvec(R_WB, bodies.p_CS[shapes]), matmul(R_WB, model.R_BS[shapes])

    p_A, *X_A = place(i)
    p_B, *X_B = place(k)
    touch = jax.vmap(group.pair.collide)(model.forms(i), *X_A, model.forms(k), *X_B)
    arm_A, arm_B = touch.point - p_A[:, None], touch.point - p_B[:, None]
    at_mid_step = jnp.zeros(len(i), at.p.dtype)
    return _Near(
        touch.gap, touch.normal, arm_A, arm_B, twist[body[i]], twist[body[k]],
        at_mid_step if lead_time is None else lead_time,
    )  # fmt: skip


def tangents(normal: Array) -> tuple[Array, Array]:
    """Two unit vectors (k, 3) at right angles to `normal` and each other; x and y for the ground."""
    x, y = (jnp.broadcast_to(jnp.eye(3, dtype=normal.dtype)[k], normal.shape) for k in (0, 1))
    first = unit(cross(jnp.where(jnp.abs(normal[:, 1:2]) < 0.9, y, x), normal), x)
    return first, cross(normal, first)


def contact_forces(model: Model, bodies: Bodies, at: Motion, force: Array) -> Array:
    """(s, 3) [N] mean contact force on every shape over the last step, in W.

    `force` (r,) are the row forces of the state; directions are those of the present poses.
    """
    total = jnp.zeros((len(model.topology.shapes), 3), at.p.dtype)
    i, j = contact_shapes(model)
    on_B = force_of_contacts(model, bodies, at, force)
    return total.at[j].add(on_B).at[i].add(-on_B) if len(i) else total


def force_of_contacts(model: Model, bodies: Bodies, at: Motion, force: Array) -> Array:
    """(k, 3) [N] mean force of every candidate contact on its second shape over the last step, in W."""
    contacts = contacts_of_poses(model, bodies, at.p, at.R)
    if contacts is None:
        return jnp.zeros((0, 3), at.p.dtype)
    along = model.topology.layout.by_contact(force)
    first, second = tangents(contacts.normal)
    return along[:, :1] * contacts.normal + along[:, 1:2] * first + along[:, 2:] * second
