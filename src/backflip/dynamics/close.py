"""From mid-step to the end of a step, with all joints closed there.

Bodies leave mid-step in free flight, with impulses of the joints such that every joint is closed at the end.
Back in time they are the same impulses, so that the step is symmetric. A velocity η at which a joint opens at
the start of a step is −η at its end: ringing, which smooth motion does not excite and nothing damps. Servos,
contacts and starts whose velocities the joints forbid excite it; there it is damped.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.assemble import held_targets
from backflip.dynamics.joints import Joints, all_joints, along
from backflip.dynamics.midstep import MidStep
from backflip.dynamics.motion import Motion, drift
from backflip.dynamics.tree import biases, respond, velocities
from backflip.math import cross, dot, gram, matvec, norm, root, rotate, safe_divide, vecmat, whiten
from backflip.model.facts import WORLD
from backflip.model.joints import JointKind

CLOSING_ITERATIONS = {4: 1, 8: 10}
"""Newton steps towards closed joints, by the bytes of a number. They use the slope of mid-step, so that an
error shrinks by about the angle that the bodies turn in half a step."""
STRIKE = 1e-4
"""Square of the part of the bodies' speed that impulses of rows give, above which ringing is damped"""

LOUD = 50.0
"""times (h Ω)² V, above which ringing is damped in any case; smooth motion of random robots stays below 25"""
SILENT = 1e-14
"""[m²/s²] slower ringing is left alone"""


class Kick(NamedTuple):
    """How bodies leave mid-step."""

    twist: Array
    """(n, 6) [m/s, rad/s] after all impulses"""
    shift: Array
    """(n, 6) [m, rad] displacement by impulses that acted before or after mid-step"""
    moment: Array
    """(n, 3) [N m s] of impulses whose arms J counts from other poses than those of mid-step"""
    struck: Array
    """(n, 6) [m/s, rad/s] the part of the twist that servos, limits, soft joints and contacts gave"""
    loops: "Loops | None"
    """None: the joints form a tree"""


class Loops(NamedTuple):
    """The rows of joints that close loops."""

    J: Array
    """(r, n, 6)"""
    whitener: Array
    """(r, r) of their A: A⁻¹ = whitenerᵀ whitener"""


def loops_of(J: Array, factor: Array) -> Loops:
    """Rows of loops (r, n, 6) with the factor (r, f) of their Delassus matrix.

    Redundant rows are regularised: what that leaves of an error, the next iteration corrects.
    """
    eps = float(jnp.finfo(J.dtype).eps)
    A = gram(factor)
    scale = jnp.max(jnp.diagonal(A))
    return Loops(J, whiten(A + eps**0.25 * scale * jnp.eye(len(A), dtype=A.dtype)))


def no_rows(twist: Array) -> Kick:
    """Bodies on which no row acts."""
    zero = jnp.zeros_like(twist)
    return Kick(twist, zero, zero[:, 3:], zero, None)


def close(mid: MidStep, kick: Kick) -> Motion:
    """The end of the step."""
    end = _arrive(mid, kick)
    if not mid.joints:
        return end
    h = mid.dt / 2
    joints = all_joints(mid.model, mid.bodies, end, jnp.zeros_like(end.w))
    ringing = _ringing(mid, kick, joints)
    change = {kind: ringing[kind] - some.error / h for kind, some in joints.items()}
    back = _respond(mid, kick.loops, {kind: -h * x for kind, x in ringing.items()})
    kick = kick._replace(shift=kick.shift + back, twist=kick.twist + _respond(mid, kick.loops, change))

    def iterate(twist: Array, _: None) -> tuple[Array, None]:
        end = _arrive(mid, kick._replace(twist=twist))
        joints = all_joints(mid.model, mid.bodies, end, jnp.zeros_like(end.w))
        change = {kind: -some.error / h for kind, some in joints.items()}
        return twist + _respond(mid, kick.loops, change), None

    more = CLOSING_ITERATIONS[end.p.dtype.itemsize] - 1
    if more:
        twist, _ = jax.lax.scan(jax.checkpoint(iterate, prevent_cse=False), kick.twist, None, length=more)
        kick = kick._replace(twist=twist)
    return _arrive(mid, kick)


def _ringing(mid: MidStep, kick: Kick, joints: dict[JointKind, Joints]) -> dict[JointKind, Array]:
    """(k, 6) [m/s, rad/s] by joint kind: the part of η that is damped.

    All of it where rows act, or where it is loud. Smooth motion at speeds V that turn at rates Ω excites η of
    about (h Ω)² V, and goes on ringing when it comes to rest: V and Ω are also those that gravity and springs
    give bodies which swing about the joint.
    """
    h = mid.dt / 2
    spin, given = (_square(x[:, 3:]) for x in (kick.twist, kick.struck))
    given_speed = _square(kick.struck[:, :3])
    gyration2 = _with_world(jnp.trace(mid.bodies.inertia, axis1=-2, axis2=-1) / (2 * mid.bodies.mass))
    movable = _with_world(1 / mid.bodies.mass)
    # what hangs from nothing falls without swinging
    hangs = np.array([root == WORLD for root in (*mid.model.topology.roots, None)])
    gravity = norm(mid.model.gravity)

    def one(kind: JointKind, end: Joints) -> Array:
        start = mid.start_joints[kind]
        eta = (start.parting() - end.parting() + end.error / h) / 2
        slide = end.twist[:, :3]
        turn2, V2 = h * h * (spin[end.a] + spin[end.b]), dot(slide, slide)
        struck, size2 = given_speed[end.a] + given_speed[end.b], jnp.zeros_like(turn2)
        turns = np.array([unit == "rad" for unit in kind.units] or [True] * kind.freedoms, bool)
        turning, sliding = (jnp.sum(mid.springs[kind][:, which], -1) for which in (turns, ~turns))
        for body, arm in ((end.a, end.arm_A), (end.b, end.arm_B)):
            reach2 = dot(arm, arm)
            swing2 = reach2 + gyration2[body]
            pull = h * h * gravity * hangs[body] * root(reach2) + turning * movable[body]
            turn2 = turn2 + safe_divide(pull, swing2, 0.0) + sliding * movable[body]
            struck, size2, V2 = struck + reach2 * given[body], size2 + swing2, V2 + reach2 * spin[body]
        smooth = turn2 * turn2 * (dot(slide, slide) + size2 * turn2 / (h * h))
        loud = _excess(_energy(eta, gyration2, end), smooth)
        part = safe_divide(struck, struck + STRIKE * V2, SILENT)
        return jnp.maximum(part, loud)[:, None] * eta

    return {kind: one(kind, end) for kind, end in joints.items()}


def _energy(eta: Array, gyration2: Array, joints: Joints) -> Array:
    """(k,) [m²/s²] η², angles at the smaller radius of gyration (n + 1,) of the two bodies."""
    own = [jnp.where(body >= 0, gyration2[body], jnp.inf) for body in (joints.a, joints.b)]
    return dot(eta[:, :3], eta[:, :3]) + jnp.minimum(*own) * dot(eta[:, 3:], eta[:, 3:])


def _excess(square: Array, smooth: Array) -> Array:
    """(k,) from 0 where η² is at most LOUD² times that of smooth motion to 1 where it is far beyond."""
    bound = LOUD**2 * smooth
    return jnp.maximum(safe_divide(square - bound, square + bound, SILENT), 0)


def _square(x: Array) -> Array:
    """(n + 1,) of vectors (n, 3) of bodies, and 0 for the world."""
    return _with_world(dot(x, x))


def _with_world(x: Array) -> Array:
    """(n + 1,) of bodies (n,), and 0 for the world."""
    return jnp.concatenate([x, jnp.zeros(1, x.dtype)])


def _respond(mid: MidStep, loops: Loops | None, twists: dict[JointKind, Array]) -> Array:
    """Twists (n, 6) of bodies whose joints are moved by these (k, 6); both momenta are kept."""
    # what is held at the end of the step is not quite what is held at mid-step
    twists = {kind: along(mid.joints[kind].held, x) for kind, x in twists.items()}
    none = [jnp.zeros(branch.S.shape[::2], mid.free.dtype) for branch in mid.branches]
    bias = biases(mid.model.topology, mid.motion, mid.joints, twists)
    change = velocities(mid.branches, jnp.zeros_like(mid.free), none, bias)
    if loops is None:
        return change
    missing = held_targets(mid, "loop", twists) - jnp.einsum("rnk,nk->r", loops.J, change)
    impulse = vecmat(matvec(loops.whitener, missing), loops.whitener)
    wrench = jnp.einsum("r,rnk->nk", impulse, loops.J)
    return change + respond(mid.branches, wrench[None])[0]


def _arrive(mid: MidStep, kick: Kick) -> Motion:
    """Free flight to the end of the step. Displaced bodies keep their momenta about any fixed point."""
    at, planar = mid.motion, mid.model.topology.planar
    v, w = kick.twist[:, :3], kick.twist[:, 3:]
    carried = kick.moment - mid.bodies.mass[:, None] * cross(kick.shift[:, :3], v)
    if planar:
        w = w.at[:, 1].add(carried[:, 1] / mid.inertia[:, 1, 1])
    shifted = Motion(at.p + kick.shift[:, :3], rotate(kick.shift[:, 3:], at.R), v, w)
    return drift(mid.bodies, shifted, matvec(mid.inertia, w) + carried, mid.dt / 2, planar).end
