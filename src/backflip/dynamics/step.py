"""One step: drift half a step, see what must hold, kick, drift half a step."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip import lanes
from backflip.dynamics.assemble import System, assemble
from backflip.dynamics.close import Kick, close, loops_of, no_rows
from backflip.dynamics.midstep import MidStep, mid_step
from backflip.dynamics.motion import Motion
from backflip.dynamics.tree import respond
from backflip.math import at_most, cross, orthonormal, smallest
from backflip.model import Model, State, bodies_of, expect_state
from backflip.solve import Newton, Solver


def _seconds(dt: Any) -> Any:
    """A number of numpy or JAX as a float, by its digits: 0.01 in float32 is meant as 0.01."""
    concrete = isinstance(dt, np.number | np.ndarray | Array) and not isinstance(dt, jax.core.Tracer)
    is_number = concrete and np.shape(dt) == () and np.asarray(dt).dtype.kind in "iuf"
    return float(str(np.asarray(dt))) if is_number else dt


LONGEST_STEP = 1e3
"""[s]"""


class Scheme(eqx.Module):
    """How time advances: steps of `dt` [s], rows solved by `solver`."""

    dt: float = eqx.field(static=True, converter=_seconds)
    solver: Solver = eqx.field(default_factory=Newton)

    def __check_init__(self):
        is_number = isinstance(self.dt, int | float) and not isinstance(self.dt, bool)
        if not is_number or not 0 < self.dt <= LONGEST_STEP:
            raise ValueError(f"Scheme: dt is {self.dt!r}; give a positive time step in seconds")
        if not isinstance(self.solver, Solver):
            raise ValueError(
                f"Scheme: solver is {self.solver!r}; give a solver such as Newton() or PGS(sweeps=20)"
            )


MAX_TURN = np.pi / 2
"""[rad] that a body may turn in a step; a faster spin is cut to that when the step begins"""
FAR = 10.0
"""[m] per step beyond which jointed bodies that hit something may end in NaN"""


@jax.jit
@lanes.compile
def step(scheme: Scheme, model: Model, state: State, u: Array | None = None) -> State:
    """The state one `dt` later under controls u (controls,); pure and differentiable in every array.

    Second order (Störmer-Verlet): all forces and rows act at mid-step poses. A body that spins by more than
    MAX_TURN per step is slowed down to that, whatever joints and momentum say.
    """
    u = _check(model, state, u)
    if not isinstance(scheme, Scheme):
        raise TypeError("step: the first argument is no Scheme; give step(scheme, model, state, u)")
    dt = scheme.dt
    bodies = bodies_of(model)
    start = Motion(state.p_WB, state.R_WB, state.v_WB, at_most(state.w_WB, MAX_TURN / dt))
    mid = mid_step(model, bodies, start, u, dt)
    kick, force = _solve(scheme.solver, mid, state.force)
    end = close(mid, kick)
    end = end._replace(R=orthonormal(end.R))
    a, dw = (end.v - start.v) / dt, (end.w - start.w) / dt
    return State(end.p, end.R, end.v, end.w, a, dw, force)


def warn_of_speed(scheme: Scheme, model: Model, state: State) -> None:
    """Warn of a state, where its numbers are known, in which a body moves faster than a step can follow."""
    if isinstance(state.w_WB, jax.core.Tracer) or isinstance(state.v_WB, jax.core.Tracer):
        return
    spin, speed = (np.linalg.norm(np.asarray(x), axis=-1) for x in (state.w_WB, state.v_WB))
    names, dt = model.topology.bodies, scheme.dt
    if np.any(spin > MAX_TURN / dt):
        body = int(np.argmax(spin))
        warnings.warn(
            f'body "{names[body]}" spins at {spin[body]:.3g} rad/s, more than a quarter turn per step of '
            f"{dt:g} s, and is slowed down to that; take a smaller dt",
            stacklevel=3,
        )
    if np.any(speed > FAR / dt):
        body = int(np.argmax(speed))
        warnings.warn(
            f'body "{names[body]}" moves {speed[body] * dt:.3g} m per step; where it is jointed or hits '
            "something, what follows may be nonsense; take a smaller dt",
            stacklevel=3,
        )


def _check(model: Model, state: State, u: Array | None) -> Array:
    """u as an array, or an error with both shapes."""
    expect_state("step", model, state)
    count = model.controls
    u = jnp.zeros(count, model.gravity.dtype) if u is None else jnp.asarray(u).astype(model.gravity.dtype)
    if jnp.shape(u) != (count,):
        raise ValueError(
            f"step: u has shape {jnp.shape(u)} but this model has {count} actuators: ({count},); "
            "for a batch, wrap the call in jax.vmap"
        )
    return u


def _solve(solver: Solver, mid: MidStep, force: Array) -> tuple[Kick, Array]:
    """How bodies leave mid-step with all rows holding, and the row forces (r,)."""
    system = assemble(mid, force)
    if system is None:
        return no_rows(mid.free), force
    J = system.J.reshape(len(system.lead_time), -1)
    velocity = J @ mid.free.reshape(-1)
    impulse = solver.solve(system.rows, system.delassus, velocity)
    # an impulse that acts before mid-step has moved its bodies for longer
    at_impact = system.lead_time * _impact_part(system, velocity, impulse)
    loop = system.rows.layout.block("loop")
    has_loops = loop.start < loop.stop
    by_arms = jnp.where(system.on_plane, at_impact, system.arm_time * impulse)
    actions = [impulse, at_impact, by_arms, impulse.at[loop].set(0)]
    wrench = (jnp.stack(actions if has_loops else actions[:3]) @ J).reshape(-1, *mid.free.shape)
    kick, shift, *rest = respond(mid.branches, wrench[np.array([0, 1, 3] if has_loops else [0, 1])])
    moment = -cross(mid.free[:, :3], wrench[2, :, :3])
    struck = rest[0] if has_loops else kick
    loops = loops_of(system.J[loop], system.delassus.factor[loop]) if has_loops else None
    return Kick(mid.free + kick, shift, moment, struck, loops), impulse / mid.dt


def _impact_part(system: System, velocity: Array, impulse: Array) -> Array:
    """The part of the impulses (r,) that cancels the approach velocity, and so acts at the time of impact.

    No more than a row without others would need: what goes beyond that holds against servos and other rows,
    which press all the time. Were it displaced too, a foot or a stop that is pressed would jump off.
    """
    rows, diagonal = system.rows, system.delassus.diagonal()
    uncoupled = (rows.target - velocity) / jnp.where(diagonal > rows.min_diagonal, diagonal, 1)
    uncoupled = jnp.maximum(uncoupled, system.followed)
    over = impulse > jnp.maximum(uncoupled, smallest(impulse))
    part = jnp.where(over, jnp.maximum(uncoupled, 0) / jnp.where(over, impulse, 1), 1)
    scalars, *patches = rows.layout.by_group(part)
    normals = [jnp.repeat(patch[..., 0].reshape(-1), 3) for patch in patches]
    return impulse * jnp.concatenate([scalars, *normals])
