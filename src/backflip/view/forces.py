"""Contact forces of a recorded motion, for arrows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics.contacts import contact_forces, contact_shapes, contacts_of_poses
from backflip.dynamics.motion import Motion
from backflip.model import Model, bodies_of
from backflip.model.bodies import with_world
from backflip.view.scene import WORLD, Forces

AT_ONCE = 256
"""Moments worked on together: bounds the memory of a long motion."""


def forces_of(model: Model, states: Any) -> Forces | None:
    """Forces on all shapes that ever feel one; None where nothing is felt or the states do not tell.

    states: p_WB (T, n, 3), R_WB (T, n, 3, 3) and, if they tell, row forces `force` (T, r)
    """
    rows = getattr(states, "force", None)
    if rows is None or not model.topology.pairs:
        return None
    T = len(rows)
    # the last moment fills up the last batch, so that all are of one size
    full = np.minimum(np.arange(-(-T // AT_ONCE) * AT_ONCE), T - 1)
    felt = _felt(model, *(np.asarray(x)[full] for x in (states.p_WB, states.R_WB, rows)))
    f, p = (np.asarray(x, float)[:T] for x in felt)
    shapes = [i for i, s in enumerate(model.topology.shapes) if s.body != WORLD and f[:, i].any()]
    return Forces(f[:, shapes], p[:, shapes]) if shapes else None


@jax.jit
def _felt(model: Model, p_WB: Array, R_WB: Array, rows: Array) -> tuple[Array, Array]:
    """Force (T, s, 3) [N] on every shape, and where it acts (T, s, 3) [m]: contacts weigh by their push."""
    bodies = bodies_of(model)
    i, j = contact_shapes(model)
    nothing = jnp.zeros((len(model.topology.shapes), 3), p_WB.dtype)

    def moment(now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        p, R, force = now
        at = Motion(p, R, jnp.zeros_like(p), jnp.zeros_like(p))
        touch = contacts_of_poses(model, bodies, p, R)
        assert touch is not None
        point = with_world(p, R)[0][touch.a] + touch.arm_A
        push = model.topology.layout.by_contact(force)[:, :1]
        weight = nothing.at[i].add(push).at[j].add(push)
        sum_of_points = nothing.at[i].add(push * point).at[j].add(push * point)
        return contact_forces(model, bodies, at, force), sum_of_points / jnp.where(weight > 0, weight, 1)

    return jax.lax.map(moment, (p_WB, R_WB, rows), batch_size=AT_ONCE)
