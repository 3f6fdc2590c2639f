"""One step: drift half a step, see what must hold, kick, drift half a step."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip import lanes
from backflip.dynamics.assemble import (
    Block,
    contact_block,
    held_block,
    lay_rows,
    limit_block,
    servo_block,
    soft_joints,
    soften_rows,
)
from backflip.dynamics.close import close
from backflip.dynamics.contacts import collide
from backflip.dynamics.joints import Coordinates, Joints, all_joints, coordinate_rows
from backflip.dynamics.motion import Motion, drift, inertias
from backflip.dynamics.tree import Branch, branches_of, delassus, respond, velocities
from backflip.math import cross, matvec, orthonormal, rotate, smallest
from backflip.model import Bodies, Model, State, bodies_of
from backflip.model.facts import FREEDOMS
from backflip.model.rest import row_count
from backflip.solve import PGS, Rows, Solver


class Scheme(eqx.Module):
    """How time advances: steps of `dt` [s], rows solved by `solver`."""

    dt: float = eqx.field(static=True)
    solver: Solver = eqx.field(default_factory=PGS)

    def __check_init__(self):
        if not isinstance(self.dt, int | float) or not (self.dt > 0 and np.isfinite(self.dt)):
            raise ValueError(f"Scheme: dt is {self.dt!r}; give a positive time step in seconds")
        if not isinstance(self.solver, Solver):
            raise ValueError(f"Scheme: solver is {self.solver!r}; give a solver such as PGS(sweeps=20)")


@jax.jit
@lanes.compile
def step(scheme: Scheme, model: Model, state: State, u: Array | None = None) -> State:
    """The state one `dt` later under controls u (controls,); pure and differentiable in every array.

    Symmetric in time and second order (Störmer-Verlet): all forces and rows act at mid-step poses.
    """
    u = _check(model, state, u)
    dt, h = scheme.dt, scheme.dt / 2
    bodies = bodies_of(model)
    start = Motion(state.p_WB, state.R_WB, state.v_WB, state.w_WB)

    planar = model.topology.planar
    mid, L, alone = drift(bodies, start, h, planar)
    joints = all_joints(model, bodies, mid, alone)
    moves = coordinate_rows(model, joints)
    branches, smooth = _without_rows(model, bodies, mid, L, joints, moves, u, dt)
    twist, shift, force = _with_rows(
        scheme, model, bodies, mid, joints, moves, branches, smooth, state.force, u
    )
    end = drift(bodies, mid._replace(v=twist[:, :3], w=twist[:, 3:]), h, planar).end

    # an impulse that struck before mid-step has moved its bodies for longer
    end = end._replace(p=end.p + shift[:, :3], R=orthonormal(rotate(shift[:, 3:], end.R)))
    end = close(model, bodies, end)
    a, dw = (end.v - start.v) / dt, (end.w - start.w) / dt
    return State(end.p, end.R, end.v, end.w, a, dw, force)


def _check(model: Model, state: State, u: Array | None) -> Array:
    """u as an array, or an error with both shapes."""
    count, n = model.controls, len(model.topology.bodies)
    u = jnp.zeros(count, model.gravity.dtype) if u is None else jnp.asarray(u)
    if jnp.shape(u) != (count,):
        raise ValueError(
            f"step: u has shape {jnp.shape(u)} but this model has {count} actuators: ({count},); "
            "for a batch, wrap the call in jax.vmap"
        )
    for name, want in (("p_WB", (n, 3)), ("R_WB", (n, 3, 3)), ("force", (row_count(model.topology),))):
        have = jnp.shape(getattr(state, name))
        if have != want:
            raise ValueError(
                f"step: state.{name} has shape {have} but this model needs {want}; "
                "make states with rest(model), and for a batch wrap the call in jax.vmap"
            )
    return u


def _without_rows(
    model: Model, bodies: Bodies, mid: Motion, L: Array, joints: dict[str, Joints], moves: Coordinates,
    u: Array, dt: float,
) -> tuple[tuple[Branch, ...], Array]:  # fmt: skip
    """The tree, and twists (n, 6) after all forces with its joints holding, but no rows yet."""
    drag, effort = _springs(model, joints, dt)
    branches = branches_of(model.topology, bodies, mid, inertias(bodies, mid.R), joints, drag, dt)
    push = dt * _wrenches(model, bodies, mid, moves, u)
    still = jnp.concatenate([bodies.mass[:, None] * mid.v, L], -1)
    by_branch = {}
    for i, group in enumerate(model.topology.groups):
        if group.joints[0] < 0:
            by_branch[i] = jnp.zeros(FREEDOMS[group.kind], push.dtype)
        else:
            by_branch[i] = effort[group.kind][np.searchsorted(joints[group.kind].which, group.joints)]
    return branches, velocities(branches, still + push, by_branch)


def _springs(model: Model, joints: dict[str, Joints], dt: float) -> tuple[dict[str, Array], dict[str, Array]]:
    """Springs and dampers by joint kind: what they add to the inertia (k, f), and their impulse (k, f).

    spring  −k (mean of q before and after − neutral)  = −k (q_mid − neutral + dt/4 (q̇ − q̇_before))
    damper  −d q̇ after the step: stable however stiff
    """
    drag, effort = {}, {}
    for name, kind in joints.items():
        count = kind.angle.shape[-1]
        if count:
            c = np.array(
                [[model.topology.coordinates.index((j, k)) for k in range(count)] for j in kind.which]
            )
            k, d, neutral = model.stiffness[c], model.damping[c], model.neutral[c]
            drag[name] = dt * d + dt * dt / 4 * k
            effort[name] = -dt * k * (kind.angle - neutral - dt / 4 * kind.rate)
        else:
            f = kind.freedoms.shape[-1]
            drag[name] = jnp.repeat(dt * model.ball_damping[kind.which][:, None], f, -1)
            effort[name] = jnp.zeros_like(drag[name])
    return drag, effort


def _wrenches(model: Model, bodies: Bodies, mid: Motion, moves: Coordinates, u: Array) -> Array:
    """(n, 6) [N, N m] gravity, body forces and torques, and joint motors."""
    facts = model.topology
    wrench = jnp.concatenate([bodies.mass[:, None] * model.gravity, jnp.zeros_like(mid.w)], -1)
    on_body = [(i, a) for i, a in enumerate(facts.actuators) if a.kind in ("force", "torque")]
    for k, (i, actuator) in enumerate(on_body):
        R = mid.R[actuator.index]
        push = matvec(R, u[i] * model.direction[k])
        twisting = cross(matvec(R, bodies.point[k]), push)
        pair = [push, twisting] if actuator.kind == "force" else [jnp.zeros_like(push), push]
        wrench = wrench.at[actuator.index].add(jnp.concatenate(pair))
    for i in facts.of_kind("motor"):
        c = facts.actuators[i].index
        for body, J in ((moves.a[c], moves.J_A[c]), (moves.b[c], moves.J_B[c])):
            if body >= 0:
                wrench = wrench.at[body].add(u[i] * J)
    return wrench


def _with_rows(
    scheme: Scheme, model: Model, bodies: Bodies, mid: Motion, joints: dict[str, Joints],
    moves: Coordinates, branches: tuple[Branch, ...], smooth: Array, force: Array, u: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Twists (n, 6) with all rows holding, the shift (n, 6) of early impulses, and row forces (r,)."""
    dt = scheme.dt
    moving = mid._replace(v=smooth[:, :3], w=smooth[:, 3:])
    touch = collide(model, bodies, moving, dt)
    scalar: list[Block | None] = [
        limit_block(model, moves, smooth, mid.twist, dt) if model.topology.limits else None,
        servo_block(model, moves, u, dt) if model.topology.of_kind("servo") else None,
        held_block(model, joints, "loop", dt),
        held_block(model, joints, "soft", dt),
    ]
    contact = None if touch is None else contact_block(model, touch, smooth, mid.twist, dt)
    blocks = [b for b in (*scalar, contact) if b is not None]
    friction = () if touch is None else touch.friction
    if not blocks:
        return smooth, jnp.zeros_like(smooth), force
    rows, J, early = lay_rows(bodies, blocks, force, friction, dt)
    moves_rows = delassus(branches, J)
    soft = soft_joints(model, joints)
    first = rows.lower.shape[0] - len(soft)
    diagonal = moves_rows.diagonal()
    rows = soften_rows(model, rows, soft, first, diagonal, dt)
    flat_J = J.reshape(rows.target.shape[0], -1)
    velocity = flat_J @ smooth.reshape(-1)
    impulse = scheme.solver.solve(rows, moves_rows, velocity)
    struck = _struck(rows, diagonal, velocity, impulse)
    wrench = jnp.stack([impulse, early * struck]) @ flat_J
    kick, shift = respond(branches, wrench.reshape(2, *smooth.shape))
    return smooth + kick, shift, impulse / dt


def _struck(rows: Rows, diagonal: Array, velocity: Array, impulse: Array) -> Array:
    """The part of the impulses (r,) that stops what came flying, and so acts at the instant of the strike.

    No more than a row would need if it were alone: what goes beyond that holds against servos and other
    rows, which press all the time. Were that shifted too, a foot or a stop that is pressed would jump off.
    """
    s = rows.lower.shape[0]
    alone = (rows.target - velocity) / jnp.where(diagonal > rows.min_diagonal, diagonal, 1)
    over = impulse > jnp.maximum(alone, smallest(impulse))
    part = jnp.where(over, jnp.maximum(alone, 0) / jnp.where(over, impulse, 1), 1)
    normal = jnp.repeat(part[s::3], 3)
    return impulse * jnp.concatenate([part[:s], normal])
