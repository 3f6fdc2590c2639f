"""Gradients through many contacts grow as the motion does, not as the solver does."""

import jax
import jax.numpy as jnp
import pytest

import backflip as bf
from backflip.robots import quadruped

STEPS, EARLY = 100, 10


@pytest.mark.parametrize("solver", [bf.PGS(sweeps=20), pytest.param(bf.Newton(), marks=pytest.mark.slow)])
def test_a_stumbling_robot_s_gradient_grows_as_its_motion_does(solver: bf.Solver, law) -> None:
    model, scheme = quadruped(), bf.Scheme(0.01, solver=solver)
    t = 0.01 * jnp.arange(STEPS)[:, None]
    targets = 0.3 * jnp.sin(2 * jnp.pi * 1.5 * t + jnp.arange(8.0))
    turn = jnp.zeros_like(targets).at[:EARLY].set(1)

    def end(targets: jax.Array) -> jax.Array:
        return bf.rollout(scheme, model, bf.rest(model), targets).last.p_WB

    moved = jax.jit(lambda u, du: jax.jvp(end, (u,), (du,))[1])(targets, turn)
    how = ", 20 sweeps" if isinstance(solver, bf.PGS) else ""
    name = f"a quadruped stumbles for 1 s{how}: move per turn of all targets in the first 0.1 s"
    law(name, 1e3, jnp.max(jnp.abs(moved)), "m/rad")
