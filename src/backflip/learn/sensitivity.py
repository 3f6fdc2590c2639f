"""What one step does to a small change of the state that the joints allow."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics import Scheme, step
from backflip.dynamics.joints import all_joints, row_pair
from backflip.dynamics.motion import Motion
from backflip.math import matmul, orthonormal, rotate, transpose
from backflip.model import Model, State, bodies_of

RANK = 1e-5
"""singular values of the joints' rows, relative to the largest, from which on they hold something"""


def largest_singular_value(scheme: Scheme, model: Model, state: State, u: Array) -> tuple[float, State]:
    """How much a step can lengthen a small change, in m, rad, m/s and rad/s; and the state after it.

    Only changes that keep the joints closed count: others are corrected at a rate of 1/dt, which says nothing
    about learning. NaN where the Jacobian is not finite.
    """
    J, rows, after = _jacobian(scheme, model, state, u)
    if not (np.isfinite(J).all() and np.isfinite(rows).all()):
        return np.nan, after
    allowed = _null_space(np.asarray(rows, float))
    zero = np.zeros_like(allowed)
    changes = np.block([[allowed, zero], [zero, allowed]])
    return float(np.linalg.norm(np.asarray(J, float) @ changes, 2)), after


def _null_space(rows: np.ndarray) -> np.ndarray:
    """(columns, free) an orthonormal basis of what the rows leave free."""
    if not rows.size:
        return np.eye(rows.shape[1])
    _, singular, directions = np.linalg.svd(rows)
    return directions[np.sum(singular > RANK * singular[0]) :].T


@eqx.filter_jit
def _jacobian(scheme: Scheme, model: Model, state: State, u: Array) -> tuple[Array, Array, State]:
    """(12 n, 12 n) how poses and twists after a step follow those before; rows of joints; the state after."""

    def moved(by: Array) -> tuple[Array, State]:
        after = step(scheme, model, _nudged(state, by), u)
        turn = matmul(after.R_WB, transpose(jax.lax.stop_gradient(after.R_WB)))
        # the rotation vector of a small turn is the odd part of its matrix
        theta = jnp.stack([turn[:, i, k] - turn[:, k, i] for i, k in ((2, 1), (0, 2), (1, 0))], -1) / 2
        return jnp.stack([after.p_WB, theta, after.v_WB, after.w_WB]).reshape(-1), after

    J, after = jax.jacfwd(moved, has_aux=True)(jnp.zeros(4 * state.p_WB.size, state.p_WB.dtype))
    return J, _joint_rows(model, state), after


def _joint_rows(model: Model, state: State) -> Array:
    """(rows, 6 n) velocities that joints hold at 0 = these · (v of all bodies, w of all bodies)."""
    n = state.p_WB.shape[0]
    at = Motion(state.p_WB, state.R_WB, state.v_WB, state.w_WB)
    rows = [jnp.zeros((0, n, 6), state.p_WB.dtype)]
    for joints in all_joints(model, bodies_of(model), at, jnp.zeros_like(state.w_WB)).values():
        held = joints.held.shape[-1]
        J_A, J_B = row_pair(joints, joints.held)
        dense = jnp.zeros((len(joints.joint) * held, n + 1, 6), state.p_WB.dtype)
        at_row = np.arange(len(dense))
        # the last place is the world's, and is dropped
        for body, J in ((joints.a, J_A), (joints.b, J_B)):
            dense = dense.at[at_row, np.repeat(np.where(body < 0, n, body), held)].add(J.reshape(-1, 6))
        rows.append(dense[:, :n])
    G = jnp.concatenate(rows)
    return jnp.concatenate([G[..., :3].reshape(-1, 3 * n), G[..., 3:].reshape(-1, 3 * n)], -1)


def _nudged(state: State, by: Array) -> State:
    """The state moved by (4, n, 3), flat: positions, rotation vectors, velocities and spins."""
    p, theta, v, w = by.reshape(4, *state.p_WB.shape)
    R = orthonormal(rotate(theta, state.R_WB))
    return eqx.tree_at(
        lambda s: (s.p_WB, s.R_WB, s.v_WB, s.w_WB), state, (state.p_WB + p, R, state.v_WB + v, state.w_WB + w)
    )
