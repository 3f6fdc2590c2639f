"""From mid-step to the end of a step, with all joints closed there.

Bodies leave mid-step in free flight, with impulses of the joints such that every joint is closed at the end.
Back in time they are the same impulses, so that the step is symmetric. A velocity η at which a joint opens at
the start of a step is −η at its end: ringing, which smooth motion does not excite and nothing damps. Servos,
contacts and starts whose velocities the joints forbid excite it; there it is damped.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.dynamics.assemble import held_targets
from backflip.dynamics.joints import Joints, all_joints, along
from backflip.dynamics.midstep import MidStep
from backflip.dynamics.motion import Motion, drift
from backflip.dynamics.tree import biases, respond, velocities
from backflip.math import cross, dot, gram, matvec, rotate, safe_divide, vecmat, whiten
from backflip.model.joints import JointKind

CLOSING_ITERATIONS = {4: 1, 8: 10}
"""Newton steps towards closed joints, by the bytes of a number. They use the slope of mid-step, so that an
error shrinks by about the angle that the bodies turn in half a step."""
STRIKE = 1e-4
"""Square of the part of the bodies' speed that impulses of rows give, above which ringing is damped"""

QUIET = 0.02
"""Square of the part of a sudden change of velocity that may go on ringing"""
FALLING = 0.001
"""The same of what gravity adds in half a step, for joints that hardly move"""
LOUD = 3.0
"""times the change of velocity in half a step, above which ringing is damped in any case"""


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
    for i in range(CLOSING_ITERATIONS[end.p.dtype.itemsize]):
        joints = all_joints(mid.model, mid.bodies, end, jnp.zeros_like(end.w))
        change = {kind: -some.error / h for kind, some in joints.items()}
        if i == 0:
            ringing = _ringing(mid, kick, joints)
            change = {kind: change[kind] + ringing[kind] for kind in joints}
            back = _respond(mid, kick.loops, {kind: -h * x for kind, x in ringing.items()})
            kick = kick._replace(shift=kick.shift + back)
        kick = kick._replace(twist=kick.twist + _respond(mid, kick.loops, change))
        end = _arrive(mid, kick)
    return end


def _ringing(mid: MidStep, kick: Kick, joints: dict[JointKind, Joints]) -> dict[JointKind, Array]:
    """(k, 6) [m/s, rad/s] by joint kind: the part of η that is damped.

    All of it where rows act, or where it is loud: more than velocities change in half a step.
    """
    h2 = mid.dt * mid.dt / 4
    change = kick.twist - mid.motion.twist
    falling = FALLING * h2 * dot(mid.model.gravity, mid.model.gravity)
    radius2 = jnp.trace(mid.inertia, axis1=-2, axis2=-1) / mid.bodies.mass
    radius2 = jnp.concatenate([radius2, jnp.zeros(1, radius2.dtype)])
    spin, spin_change, given = (_square(x) for x in (kick.twist[:, 3:], change[:, 3:], kick.struck[:, 3:]))
    given_speed = _square(kick.struck[:, :3])

    def one(kind: JointKind, end: Joints) -> Array:
        start, a, b = mid.start_joints[kind], end.a, end.b
        after = end.parting() - end.error / (mid.dt / 2)
        eta = (start.parting() - after) / 2
        reach_A, reach_B = dot(end.arm_A, end.arm_A), dot(end.arm_B, end.arm_B)
        slide, slide_change = end.twist[:, :3], (end.twist - start.twist)[:, :3]
        W2, dW2 = spin[a] + spin[b], spin_change[a] + spin_change[b]
        V2 = dot(slide, slide) + reach_A * spin[a] + reach_B * spin[b]
        dV2 = dot(slide_change, slide_change) + reach_A * spin_change[a] + reach_B * spin_change[b]
        struck = given_speed[a] + given_speed[b] + reach_A * given[a] + reach_B * given[b]
        quiet = h2 * W2 * V2 + QUIET * (dV2 + falling)
        quiet_turn = h2 * W2 * W2 + QUIET * (dW2 + falling / (radius2[a] + radius2[b]))
        moving, turning = dot(eta[:, :3], eta[:, :3]), dot(eta[:, 3:], eta[:, 3:])
        loud = safe_divide(moving, quiet, 0.0) + safe_divide(turning, quiet_turn, 0.0)
        part = safe_divide(struck, struck + STRIKE * V2, 0.0)
        return jnp.maximum(part, jnp.clip(loud / LOUD**2 - 1, 0, 1))[:, None] * eta

    return {kind: one(kind, end) for kind, end in joints.items()}


def _square(x: Array) -> Array:
    """(n + 1,) of vectors (n, 3) of bodies, and 0 for the world."""
    return jnp.concatenate([dot(x, x), jnp.zeros(1, x.dtype)])


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
