"""Gradients through many contacts grow as the motion does, not as the solver's sweeps do."""

import jax
import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip.robots import quadruped

STEPS = 100
BAR = 1e4
"""[m/rad] most that a turn of all servo targets in the first steps may move a stumbling robot by"""


def test_a_stumbling_robot_s_gradient_does_not_grow_with_the_sweeps():
    model = quadruped()
    t = 0.01 * jnp.arange(STEPS)[:, None]
    targets = 0.3 * jnp.sin(2 * jnp.pi * 1.5 * t + jnp.arange(8.0))
    early = jnp.where(t < 0.1, jnp.ones_like(targets), 0)

    def end(scheme: bf.Scheme, targets: jax.Array) -> jax.Array:
        last = bf.rollout(scheme, model, bf.rest(model), targets).last
        return jnp.concatenate([last.p_WB.reshape(-1), last.R_WB.reshape(-1)])

    moved = {}
    for sweeps in (20, 60):
        scheme = bf.Scheme(0.01, solver=bf.PGS(sweeps=sweeps))
        _, tangent = jax.jit(lambda u, du, s=scheme: jax.jvp(lambda u: end(s, u), (u,), (du,)))(
            targets, early
        )
        moved[sweeps] = float(jnp.max(jnp.abs(tangent)))
    assert np.isfinite(list(moved.values())).all()
    assert max(moved.values()) < BAR, moved
