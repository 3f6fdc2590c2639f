"""Everything that must hold, as rows: limits, servos, loop and soft joints, contacts."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.contacts import Contacts, collide, tangents
from backflip.dynamics.impact import Impact, cascade, impact
from backflip.dynamics.joints import Joints, row_pair
from backflip.dynamics.midstep import MidStep
from backflip.dynamics.tree import delassus
from backflip.math import cross, dot, gram, norm, saturate, vecmat
from backflip.model import Bodies
from backflip.model.joints import JointKind
from backflip.solve import Delassus, Rows, soften


class Block(NamedTuple):
    """Rows of one sort."""

    a: np.ndarray
    b: np.ndarray
    """(r,) bodies; −1 is the world"""
    J_A: Array
    J_B: Array
    """(r, 6)"""
    target: Array
    """(r,) [m/s] or [rad/s]"""
    lead_time: Array
    """(r,) [s] how long before mid-step its impulse acts"""
    arm_time: Array
    """(r,) [s] how long before mid-step the poses were from which J counts"""
    warm: Array
    """(r,) whether last step's impulse is a good initial guess"""
    redundant: np.ndarray
    """(r,) whether the tree may hold already what the row holds"""


class Bounded(NamedTuple):
    """Scalar rows with the bounds of their impulses."""

    block: Block
    lower: Array
    upper: Array
    """(r,) [N s] or [N m s]"""


class System(NamedTuple):
    """All rows of a step, ready to be solved."""

    rows: Rows
    delassus: Delassus
    J: Array
    """(r, n, 6) row velocity per body twist"""
    lead_time: Array
    arm_time: Array
    """(r,) [s]"""
    on_plane: np.ndarray
    """(r,) whether the point of contact goes along with the body: arms are the same at all times"""
    followed: Array
    """(r,) [N s] of impacts that follow from others within the step"""


def assemble(mid: MidStep, force: Array) -> System | None:
    """The rows of a model; `force` (r,) are those of the last step. None: no rows, or nothing moves."""
    layout, dt = mid.model.topology.layout, mid.dt
    if not layout.rows or not any(group.freedoms for group in mid.model.topology.groups):
        return None
    moving = mid.motion._replace(v=mid.free[:, :3], w=mid.free[:, 3:])
    contacts = collide(mid.model, mid.bodies, moving, dt)
    makers = {"limit": limit_rows, "servo": servo_rows, "loop": loop_rows, "soft": soft_rows}
    present = [makers[name](mid) for name, count in layout.blocks if count]
    blocks = [bounded.block for bounded in present]
    block = _concatenate(blocks if contacts is None else [*blocks, contact_rows(mid, contacts)])
    J = _dense(block, mid.bodies.mass)
    A = delassus(mid.branches, J)
    followed = jnp.zeros_like(block.target)
    if contacts is not None:
        block, followed = _follow_impacts(mid, contacts, block, A)
    softness, target = _soften(mid, block.target, A.diagonal())
    none = jnp.zeros(0, target.dtype)
    rows = Rows(
        target=target,
        lower=jnp.concatenate([bounded.lower for bounded in present] or [none]),
        upper=jnp.concatenate([bounded.upper for bounded in present] or [none]),
        softness=softness,
        friction=none if contacts is None else contacts.friction,
        min_diagonal=_free_diagonal(mid.bodies, block) * _rounding(block.redundant, target.dtype),
        initial_impulse=jnp.where(block.warm, force * dt, 0),
        layout=layout,
    )
    return System(rows, A, J, block.lead_time, block.arm_time, _on_plane(mid), followed)


def limit_rows(mid: MidStep) -> Bounded:
    """Coordinates stopped at their limits, a row each: the gap is the smaller of q − lower and upper − q."""
    model, q = mid.model, mid.coordinates
    c = np.array(model.topology.limits, int)
    under, over = q.position[c] - model.lower[c], model.upper[c] - q.position[c]
    gap, sign = jnp.minimum(under, over), jnp.where(under < over, 1, -1).astype(under.dtype)
    J_A, J_B = sign[:, None] * q.J_A[c], sign[:, None] * q.J_B[c]
    rate, rate_before = _rates(mid, q.a[c], q.b[c], J_A, J_B)
    hit = impact(gap, rate, rate_before, jnp.zeros_like(gap), mid.dt * norm(model.gravity), mid.dt)
    necessary = np.zeros(len(c), bool)
    block = Block(
        q.a[c], q.b[c], J_A, J_B, hit.target, hit.lead_time, jnp.zeros_like(gap), hit.warm, necessary
    )
    return Bounded(block, jnp.zeros_like(gap), jnp.full_like(gap, jnp.inf))


def servo_rows(mid: MidStep) -> Bounded:
    """Joint velocity gain · (u − position), at most max_velocity, reached within ± max_torque · dt."""
    model, q = mid.model, mid.coordinates
    facts = model.topology
    place = np.array(facts.of_kind("servo"), int)
    c = np.array([facts.actuators[i].index for i in place], int)
    wanted = saturate(model.gain * (mid.u[place] - q.position[c]), model.max_velocity)
    most = model.max_torque * mid.dt
    zero, warm, necessary = jnp.zeros_like(wanted), jnp.ones(wanted.shape, bool), np.zeros(len(c), bool)
    block = Block(q.a[c], q.b[c], q.J_A[c], q.J_B[c], wanted, zero, zero, warm, necessary)
    return Bounded(block, -most, most)


def loop_rows(mid: MidStep) -> Bounded:
    """Rows of the joints that close loops."""
    return _held_rows(mid, "loop", {kind: joints.bias(mid.dt) for kind, joints in mid.joints.items()})


def soft_rows(mid: MidStep) -> Bounded:
    """Rows of soft joints; their error, negative, becomes a target in `_soften`."""
    return _held_rows(mid, "soft", {kind: -joints.error for kind, joints in mid.joints.items()})


def held_targets(mid: MidStep, role: str, twists: dict[JointKind, Array]) -> Array:
    """(r,) parts of relative twists (k, 6) along the held twists of the joints of a role."""
    held = [vecmat(twists[kind][own], joints.held[own]) for kind, joints, own in _of_role(mid, role)]
    return jnp.concatenate([x.reshape(-1) for x in held])


def _held_rows(mid: MidStep, role: str, twists: dict[JointKind, Array]) -> Bounded:
    """Rows of all held twists of the joints of a role."""
    target = held_targets(mid, role, twists)
    zero, infinite = jnp.zeros_like(target), jnp.full_like(target, jnp.inf)
    ends, pairs = [], []
    for _, joints, own in _of_role(mid, role):
        some = Joints._make(x[own] for x in joints)
        ends.append(np.repeat([some.a, some.b], some.held.shape[-1], axis=1))
        pairs.append(row_pair(some, some.held))
    a, b = np.concatenate(ends, axis=1)
    J_A, J_B = (jnp.concatenate(x) for x in zip(*pairs, strict=True))
    warm, redundant = jnp.ones(target.shape, bool), np.ones(len(a), bool)
    return Bounded(Block(a, b, J_A, J_B, target, zero, zero, warm, redundant), -infinite, infinite)


def _of_role(mid: MidStep, role: str) -> list[tuple[JointKind, Joints, np.ndarray]]:
    """Kinds with joints of a role, and which (k,) have it."""
    facts = mid.model.topology.joints
    all_of_kind = [
        (k, some, np.array([facts[j].role == role for j in some.joint])) for k, some in mid.joints.items()
    ]
    return [(kind, joints, own) for kind, joints, own in all_of_kind if own.any()]


def contact_rows(mid: MidStep, contacts: Contacts) -> Block:
    """Three rows per contact: the normal, then two tangents that want no sliding."""
    frame = jnp.stack([contacts.normal, *tangents(contacts.normal)], 1)
    J_A = -jnp.concatenate([frame, cross(contacts.arm_A[:, None], frame)], -1)
    J_B = jnp.concatenate([frame, cross(contacts.arm_B[:, None], frame)], -1)
    rate, rate_before = _rates(mid, contacts.a, contacts.b, J_A[:, 0], J_B[:, 0])
    threshold = mid.dt * norm(mid.model.gravity)
    hit = impact(contacts.gap, rate, rate_before, contacts.restitution, threshold, mid.dt)
    zero = jnp.zeros_like(hit.target)
    target = jnp.stack([hit.target, zero, zero], -1).reshape(-1)
    lead_time, arm_time, warm = (jnp.repeat(x, 3) for x in (hit.lead_time, contacts.lead_time, hit.warm))
    a, b = np.repeat(contacts.a, 3), np.repeat(contacts.b, 3)
    necessary = np.zeros(len(a), bool)
    return Block(a, b, J_A.reshape(-1, 6), J_B.reshape(-1, 6), target, lead_time, arm_time, warm, necessary)


def _on_plane(mid: MidStep) -> np.ndarray:
    """(r,) whether a row is one of a contact with a plane."""
    layout, groups = mid.model.topology.layout, mid.model.topology.pair_groups
    contacts = [np.full(3 * len(g.pairs) * g.count, g.kinds[0].endless) for g in groups]
    return np.concatenate([np.zeros(layout.scalars, bool), *contacts])


def _follow_impacts(mid: MidStep, contacts: Contacts, block: Block, A: Delassus) -> tuple[Block, Array]:
    """Rows of round bodies, of which one may strike another that strikes a third within the step."""
    layout, groups = mid.model.topology.layout, mid.model.topology.pair_groups
    followed = jnp.zeros_like(block.target)
    single = np.concatenate([np.full(len(g.pairs) * g.count, g.count == 1) for g in groups])
    if sum(len(g.pairs) for g in groups if g.count == 1 and not g.kinds[0].endless) < 2:
        return block, followed
    c = np.flatnonzero(single)
    rows = layout.scalars + 3 * c
    some = Block._make(x[rows] for x in block)
    rate, _ = _rates(mid, some.a, some.b, some.J_A, some.J_B)
    factor = A.factor[rows]
    threshold = mid.dt * norm(mid.model.gravity)
    first = Impact(some.target, some.lead_time, some.warm)
    after = cascade(contacts.gap[c], rate, contacts.restitution[c], first, gram(factor), threshold, mid.dt)
    thrice = (rows[:, None] + np.arange(3)).reshape(-1)
    block = block._replace(
        target=block.target.at[rows].set(after.target),
        lead_time=block.lead_time.at[thrice].set(jnp.repeat(after.lead_time, 3)),
    )
    return block, followed.at[rows].set(after.impulse)


def _rates(mid: MidStep, a: np.ndarray, b: np.ndarray, J_A: Array, J_B: Array) -> tuple[Array, Array]:
    """Row velocities (r,) with all forces applied, and before."""

    def rate(twist: Array) -> Array:
        twist = jnp.concatenate([twist, jnp.zeros((1, 6), twist.dtype)])
        return dot(J_A, twist[a]) + dot(J_B, twist[b])

    return rate(mid.free), rate(mid.motion.twist)


def _concatenate(blocks: list[Block]) -> Block:
    columns = zip(*blocks, strict=True)
    return Block._make(
        np.concatenate(c) if isinstance(c[0], np.ndarray) else jnp.concatenate(c) for c in columns
    )


def _dense(block: Block, mass: Array) -> Array:
    """J (r, n, 6) from the two bodies of every row."""
    on_A, on_B = (jnp.asarray(end[:, None] == np.arange(len(mass)), mass.dtype) for end in (block.a, block.b))
    return on_A[..., None] * block.J_A[:, None] + on_B[..., None] * block.J_B[:, None]


def _rounding(redundant: np.ndarray, dtype) -> Array:
    """(r,) the part of a row's free A that can be rounding, or misalignment where a row may be redundant."""
    eps = jnp.finfo(dtype).eps
    return jnp.asarray(np.where(redundant, eps**0.5, 32 * eps), dtype)


def _free_diagonal(bodies: Bodies, block: Block) -> Array:
    """An upper bound of J M⁻¹ Jᵀ (r,), as if the bodies were free."""
    linear = jnp.concatenate([1 / bodies.mass, jnp.zeros(1, bodies.mass.dtype)])
    angular = jnp.trace(bodies.inverse_inertia, axis1=-2, axis2=-1)
    angular = jnp.concatenate([angular, jnp.zeros(1, angular.dtype)])

    def one(J: Array, body: np.ndarray) -> Array:
        along, about = J[:, :3], J[:, 3:]
        return linear[body] * dot(along, along) + angular[body] * dot(about, about)

    return one(block.J_A, block.a) + one(block.J_B, block.b)


def _soften(mid: MidStep, target: Array, diagonal: Array) -> tuple[Array, Array]:
    """Softness and targets (r,), once the diagonal of A is known: those of soft joints follow from it."""
    softness = jnp.zeros_like(target)
    place = np.r_[mid.model.topology.layout.block("soft")]
    if not len(place):
        return softness, target
    model, facts = mid.model, mid.model.topology.joints
    soft = [
        np.repeat([j for j in joints.joint if facts[j].role == "soft"], 6 - kind.freedoms)
        for kind, joints in mid.joints.items()
    ]
    joint = np.concatenate(soft).astype(int)
    gamma, rate = soften(model.frequency[joint], model.damping_ratio[joint], diagonal[place], mid.dt)
    return softness.at[place].set(gamma), target.at[place].multiply(rate, unique_indices=True)
