"""Where bodies touch: a fixed list of candidate contacts, each at its time of impact."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.impact import MIN_APPROACH_SPEED
from backflip.dynamics.motion import Motion
from backflip.math import cross, dot, matmul, matvec, rotate, safe_divide, unit
from backflip.model import Bodies, Model
from backflip.model.bodies import with_world
from backflip.model.facts import PairGroup

IMPACT_ITERATIONS = 2
"""Newton steps towards the time of impact of curved shapes; the error squares with each."""


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
    groups = [_collide_group(model, bodies, at, dt, group) for group in model.topology.pair_groups]
    if not groups:
        return None
    gap, normal, arm_A, arm_B = (jnp.concatenate(parts) for parts in zip(*groups, strict=True))
    body = np.array([s.body for s in model.topology.shapes])
    i, k = contact_shapes(model)
    friction, restitution = _materials(model, i, k)
    return Contacts(body[i], body[k], gap, normal, arm_A, arm_B, friction, restitution)


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
) -> tuple[Array, Array, Array, Array]:
    """Gap, normal and arms of all pairs of one group, flattened to (m·count, ...)."""
    curved = group.count == 1 and not group.kinds[0].endless
    lead_time = jnp.zeros(len(group.pairs), at.p.dtype)
    near = _look(model, bodies, at, group, lead_time, False)
    gap = near.gap
    if curved:
        # the normal of curved shapes moves as they do: look again at the time of impact
        h = dt / 2
        rate = near.rate()[:, 0]
        hits = (rate < -MIN_APPROACH_SPEED) & (near.gap[:, 0] + h * rate < 0)
        for _ in range(IMPACT_ITERATIONS):
            correction = safe_divide(near.gap[:, 0], jnp.where(hits, rate, -1), MIN_APPROACH_SPEED)
            lead_time = jnp.where(hits, jnp.clip(lead_time + correction, -h, h), 0)
            near = _look(model, bodies, at, group, lead_time, True)
            rate = near.rate()[:, 0]
        gap = near.gap + (rate * lead_time)[:, None]
    normal, arm_A, arm_B = (x.reshape(-1, 3) for x in (near.normal, near.arm_A, near.arm_B))
    return gap.reshape(-1), normal, arm_A, arm_B


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

    def rate(self) -> Array:
        """(m, count) [m/s] of the gap."""
        v_A, v_B = (
            twist[:, None, :3] + cross(twist[:, None, 3:], arm)
            for twist, arm in ((self.twist_A, self.arm_A), (self.twist_B, self.arm_B))
        )
        return dot(self.normal, v_B - v_A)


def _look(
    model: Model, bodies: Bodies, at: Motion, group: PairGroup, lead_time: Array, turning: bool
) -> _Near:
    """Candidates `lead_time` (m,) [s] before mid-step; bodies move back, and turn back if `turning`."""
    i, k = np.array(group.pairs).T
    body = np.array([s.body for s in model.topology.shapes])
    p, R = with_world(at.p, at.R)
    twist = jnp.concatenate([at.twist, jnp.zeros((1, 6), at.p.dtype)])
    back = lead_time[:, None]

    def place(shapes: np.ndarray) -> tuple[Array, Array, Array]:
        b = body[shapes]
        p_WB = p[b] - back * twist[b, :3]
        R_WB = rotate(-back * twist[b, 3:], R[b]) if turning else R[b]
        return p_WB, p_WB + matvec(R_WB, bodies.p_CS[shapes]), matmul(R_WB, model.R_BS[shapes])

    p_A, *X_A = place(i)
    p_B, *X_B = place(k)
    touch = jax.vmap(group.pair.collide)(model.forms(i), *X_A, model.forms(k), *X_B)
    arm_A, arm_B = touch.point - p_A[:, None], touch.point - p_B[:, None]
    return _Near(touch.gap, touch.normal, arm_A, arm_B, twist[body[i]], twist[body[k]])


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
    still = at._replace(v=jnp.zeros_like(at.v), w=jnp.zeros_like(at.w))
    contacts = collide(model, bodies, still, 1.0)
    if contacts is None:
        return jnp.zeros((0, 3), at.p.dtype)
    along = model.topology.layout.by_contact(force)
    first, second = tangents(contacts.normal)
    return along[:, :1] * contacts.normal + along[:, 1:2] * first + along[:, 2:] * second
