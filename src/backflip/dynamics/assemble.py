"""Everything that must hold, as rows: limits, servos, loop and soft joints, contacts."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.contacts import Contacts, tangents
from backflip.dynamics.joints import Coordinates, Joints, row_pair
from backflip.math import cross, dot, norm, saturate
from backflip.model import Bodies, Model
from backflip.solve import Rows, impact, soften


class Block(NamedTuple):
    """Some rows of one sort, before they are laid together."""

    a: np.ndarray
    b: np.ndarray
    """(r,) bodies; −1 is the world"""
    J_A: Array
    J_B: Array
    """(r, 6)"""
    target: Array
    lower: Array
    upper: Array
    early: Array
    """(r,)"""
    reuse: Array
    """(r,) whether last step's impulse is a good start"""
    spare: np.ndarray
    """(r,) whether the tree may hold already what the row holds"""


def limit_block(model: Model, moves: Coordinates, smooth: Array, before: Array, dt: float) -> Block:
    """Coordinates that stop at their ends, a row each: its gap is the smaller of q − lower and upper − q."""
    c = np.array(model.topology.limits, int)
    under, over = moves.angle[c] - model.lower[c], model.upper[c] - moves.angle[c]
    gap, sign = jnp.minimum(under, over), jnp.where(under < over, 1, -1).astype(under.dtype)
    J_A, J_B = sign[:, None] * moves.J_A[c], sign[:, None] * moves.J_B[c]
    rate, earlier = (_rate(moves.a[c], moves.b[c], J_A, J_B, twist) for twist in (smooth, before))
    hit = impact(gap, rate, earlier, jnp.zeros_like(gap), dt * norm(model.gravity), dt)
    ends = jnp.zeros_like(gap), jnp.full_like(gap, jnp.inf)
    spare = np.zeros(len(c), bool)
    return Block(moves.a[c], moves.b[c], J_A, J_B, hit.target, *ends, hit.lead_time, hit.warm, spare)


def servo_block(model: Model, moves: Coordinates, u: Array, dt: float) -> Block:
    """Joint velocity gain · (u − angle), at most max_velocity, reached within ± max_torque · dt."""
    facts = model.topology
    place = np.array(facts.of_kind("servo"), int)
    c = np.array([facts.actuators[i].index for i in place], int)
    wanted = saturate(model.gain * (u[place] - moves.angle[c]), model.max_velocity)
    most = model.max_torque * dt
    no, yes = jnp.zeros_like(wanted), jnp.ones(wanted.shape, bool)
    spare = np.zeros(len(c), bool)
    return Block(moves.a[c], moves.b[c], moves.J_A[c], moves.J_B[c], wanted, -most, most, no, yes, spare)


def held_block(model: Model, joints: dict[str, Joints], role: str, dt: float) -> Block | None:
    """Rows of the joints that are not part of the tree; a soft joint's target holds its bare error."""
    blocks = []
    for kind in joints.values():
        mine = np.array([model.topology.joints[j].role == role for j in kind.which])
        if not mine.any():
            continue
        some = Joints._make(x[mine] for x in kind)
        J_A, J_B = row_pair(some, some.holds)
        wanted = some.bias(dt) if role == "loop" else -some.error
        target = jnp.stack([dot(some.holds[..., k], wanted) for k in range(some.holds.shape[-1])], -1)
        target = target.reshape(-1)
        count = some.holds.shape[-1]
        free = jnp.full_like(target, jnp.inf)
        a, b = np.repeat(some.a, count), np.repeat(some.b, count)
        yes = jnp.ones(target.shape, bool)
        zero, spare = jnp.zeros_like(target), np.ones(len(a), bool)
        blocks.append(Block(a, b, J_A, J_B, target, -free, free, zero, yes, spare))
    return _lay(blocks) if blocks else None


def soft_joints(model: Model, joints: dict[str, Joints]) -> np.ndarray:
    """The joint (r,) that each row of the soft block belongs to."""
    facts = model.topology.joints
    return np.array(
        [
            j
            for k in joints.values()
            for j in k.which
            if facts[j].role == "soft"
            for _ in range(k.holds.shape[-1])
        ],
        int,
    )


def contact_block(model: Model, touch: Contacts, smooth: Array, before: Array, dt: float) -> Block:
    """Three rows per contact: the normal, then two tangents that want no sliding."""
    frame = jnp.stack([touch.normal, *tangents(touch.normal)], 1)
    J_A = -jnp.concatenate([frame, cross(touch.arm_A[:, None], frame)], -1)
    J_B = jnp.concatenate([frame, cross(touch.arm_B[:, None], frame)], -1)
    rate, earlier = (_rate(touch.a, touch.b, J_A[:, 0], J_B[:, 0], twist) for twist in (smooth, before))
    hit = impact(touch.gap, rate, earlier, touch.restitution, dt * norm(model.gravity), dt)
    zero = jnp.zeros_like(hit.target)
    target = jnp.stack([hit.target, zero, zero], -1).reshape(-1)
    early, reuse = (jnp.repeat(x, 3) for x in (hit.lead_time, hit.warm))
    a, b = np.repeat(touch.a, 3), np.repeat(touch.b, 3)
    none = jnp.zeros(0, target.dtype)
    rows = J_A.reshape(-1, 6), J_B.reshape(-1, 6)
    return Block(a, b, *rows, target, none, none, early, reuse, np.zeros(len(a), bool))


def _rate(a: np.ndarray, b: np.ndarray, J_A: Array, J_B: Array, twist: Array) -> Array:
    twist = jnp.concatenate([twist, jnp.zeros((1, 6), twist.dtype)])
    return dot(J_A, twist[a]) + dot(J_B, twist[b])


def _lay(blocks: list[Block]) -> Block:
    """Blocks laid together in order."""
    columns = zip(*blocks, strict=True)
    return Block._make(
        np.concatenate(c) if isinstance(c[0], np.ndarray) else jnp.concatenate(c) for c in columns
    )


def lay_rows(
    bodies: Bodies, blocks: list[Block], force: Array, friction: tuple[Array, ...], dt: float
) -> tuple[Rows, Array, Array]:
    """Rows from blocks whose last is the contacts' (if there are any), their J (r, n, 6) and lead times."""
    all_rows = _lay(blocks)
    n = bodies.mass.shape[0]
    on_A = jnp.asarray(all_rows.a[:, None] == np.arange(n), bodies.mass.dtype)
    on_B = jnp.asarray(all_rows.b[:, None] == np.arange(n), bodies.mass.dtype)
    J = on_A[..., None] * all_rows.J_A[:, None] + on_B[..., None] * all_rows.J_B[:, None]
    rows = Rows(
        target=all_rows.target,
        lower=all_rows.lower,
        upper=all_rows.upper,
        softness=jnp.zeros_like(all_rows.target),
        friction=friction,
        min_diagonal=_bare(bodies, all_rows) * _rounding(all_rows.spare, bodies.mass.dtype),
        initial_impulse=jnp.where(all_rows.reuse, force * dt, 0),
    )
    return rows, J, all_rows.early


def _rounding(spare: np.ndarray, dtype) -> Array:
    """(r,) the part of a row's bare A that can be rounding, or misalignment where a row may be spare."""
    eps = jnp.finfo(dtype).eps
    return jnp.asarray(np.where(spare, eps**0.5, 32 * eps), dtype)


def _bare(bodies: Bodies, rows: Block) -> Array:
    """About J M⁻¹ Jᵀ (r,) as if the bodies were free, and no less."""
    light = jnp.concatenate([1 / bodies.mass, jnp.zeros(1, bodies.mass.dtype)])
    nimble = jnp.trace(bodies.inverse_inertia, axis1=-2, axis2=-1)
    nimble = jnp.concatenate([nimble, jnp.zeros(1, nimble.dtype)])

    def one(J: Array, body: np.ndarray) -> Array:
        push, turn = J[:, :3], J[:, 3:]
        return light[body] * dot(push, push) + nimble[body] * dot(turn, turn)

    return one(rows.J_A, rows.a) + one(rows.J_B, rows.b)


def soften_rows(model: Model, rows: Rows, joint: np.ndarray, first: int, diagonal: Array, dt: float) -> Rows:
    """Give the soft block, which starts at row `first`, its softness and error rate; diagonal (r,) is A's."""
    if not len(joint):
        return rows
    place = np.arange(first, first + len(joint))
    gamma, rate = soften(model.frequency[joint], model.damping_ratio[joint], diagonal[place], dt)
    return rows._replace(
        softness=rows.softness.at[place].set(gamma),
        target=rows.target.at[place].multiply(rate, unique_indices=True),
    )
