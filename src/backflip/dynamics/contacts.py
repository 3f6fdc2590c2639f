"""Where bodies touch: a fixed list of candidates, each at the instant it strikes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.motion import Motion
from backflip.geometry import Touch
from backflip.math import cross, dot, matmul, matvec, rotate, safe_divide, unit
from backflip.model import Bodies, Model
from backflip.model.bodies import with_world
from backflip.solve.unilateral import MIN_APPROACH_SPEED

INSTANTS = 2
"""Newton steps towards the instant of contact of curved shapes; the error squares with each."""


class Contacts(NamedTuple):
    """Candidate contacts, k in all, from body a to body b."""

    a: np.ndarray
    b: np.ndarray
    """(k,) bodies; −1 is the world"""
    gap: Array
    """(k,) [m] at mid-step, as a straight line through the instant of contact has it"""
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


def _collide_group(model, bodies, at, dt, group) -> tuple[Array, Array, Array, Array]:
    """Gap, normal and arms of all pairs of one group, flattened to (m·count, ...)."""
    between = jax.vmap(group.pair.collide)
    i, k = np.array(group.pairs).T
    form_a, form_b = model.forms(i), model.forms(k)
    body = np.array([s.body for s in model.topology.shapes])
    p, R = with_world(at.p, at.R)
    still = jnp.zeros((1, 3), at.p.dtype)
    v, w = jnp.concatenate([at.v, still]), jnp.concatenate([at.w, still])

    def touch(early: Array) -> tuple[Touch, Array, Array]:
        """Contacts `early` (m,) [s] before mid-step, and where the two bodies were."""

        def place(shapes: np.ndarray) -> tuple[Array, Array, Array]:
            b = body[shapes]
            back = early[:, None]
            p_WB = p[b] - back * v[b]
            R_WB = rotate(-back * w[b], R[b]) if moving else R[b]
            return p_WB, p_WB + matvec(R_WB, bodies.p_CS[shapes]), matmul(R_WB, model.R_BS[shapes])

        p_A, p_WA, R_WA = place(i)
        p_B, p_WB, R_WB = place(k)
        return between(form_a, p_WA, R_WA, form_b, p_WB, R_WB), p_A, p_B

    def rate(found: Touch, p_A: Array, p_B: Array) -> Array:
        """Gap rate (m, count) [m/s]."""
        arm_A, arm_B = found.point - p_A[:, None], found.point - p_B[:, None]
        v_A = v[body[i]][:, None] + cross(w[body[i]][:, None], arm_A)
        v_B = v[body[k]][:, None] + cross(w[body[k]][:, None], arm_B)
        return dot(found.normal, v_B - v_A)

    moving = group.count == 1 and not group.kinds[0].endless
    early = jnp.zeros(len(i), at.p.dtype)
    found, p_A, p_B = touch(early)
    if moving:
        # the normal of curved shapes moves as they do: look again at the instant they strike
        h = dt / 2
        speed = rate(found, p_A, p_B)[:, 0]
        hits = (speed < -MIN_APPROACH_SPEED) & (found.gap[:, 0] + h * speed < 0)
        for _ in range(INSTANTS):
            ahead = safe_divide(found.gap[:, 0], jnp.where(hits, speed, -1), MIN_APPROACH_SPEED)
            early = jnp.where(hits, jnp.clip(early + ahead, -h, h), 0)
            found, p_A, p_B = touch(early)
            speed = rate(found, p_A, p_B)[:, 0]
        found = found._replace(gap=found.gap + (speed * early)[:, None])
    arm_A, arm_B = (found.point - p[:, None] for p in (p_A, p_B))
    return found.gap.reshape(-1), found.normal.reshape(-1, 3), arm_A.reshape(-1, 3), arm_B.reshape(-1, 3)


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
    touch = collide(model, bodies, at._replace(v=jnp.zeros_like(at.v), w=jnp.zeros_like(at.w)), 1.0)
    if touch is None:
        return jnp.zeros((0, 3), at.p.dtype)
    along = model.topology.layout.by_contact(force)
    first, second = tangents(touch.normal)
    return along[:, :1] * touch.normal + along[:, 1:2] * first + along[:, 2:] * second
