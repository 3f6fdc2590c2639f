"""Joints hold: long chains with heavy ends, and loops."""

import jax
import jax.numpy as jnp
import numpy as np
from laws.scenes import both_solvers, run, slow_but_by_default

import backflip as bf
from backflip.robots import chain, dog, four_bar


def worst_joint_error(model, states):
    return float(jax.vmap(lambda s: bf.joint_error(model, s))(states).max())


def test_a_long_chain_with_a_heavy_end_holds_while_it_swings(law):
    model = chain(20, length=0.1, mass=0.1, load=10.0)
    start = bf.rest(model, jnp.zeros(20).at[0].set(np.deg2rad(30)))  # 60° from hanging
    states = run(model, start, dt=1e-3, seconds=10)
    name = "joint error of 20 links with an end 100 times heavier, swinging 10 s"
    law(name, 1, 1e3 * worst_joint_error(model, states), "mm")
    energies = jax.vmap(lambda s: bf.energy(model, s))(states)
    assert float(jnp.abs(energies - energies[0]).max()) <= 0.005 * 10 * 9.81 * 2


@both_solvers
def test_a_driven_four_bar_loop_stays_closed(law, solver):
    model, push = four_bar(), jnp.full((5000, 1), 0.3)
    states = run(model, bf.rest(model), dt=2e-3, seconds=10, controls=push, solver=solver)
    name = "joint error of a driven four-bar loop, 10 s at 2 ms"
    law(name, 1, 1e3 * worst_joint_error(model, states), "mm", solver)
    turned = states.R_WB[:, 0, 0, 0]
    assert float(turned.min()) < -0.9 and float(turned.max()) > 0.9


@slow_but_by_default
def test_legs_flung_by_fast_servos_stay_in_their_hips(law, solver):
    model = dog()
    flung = jnp.where(jnp.arange(200)[:, None] // 10 % 2 == jnp.arange(8) % 2, 0.7, -0.7)
    states = run(model, bf.rest(model), dt=0.01, seconds=2, controls=flung, solver=solver)
    assert float(jnp.abs(states.w_WB).max()) > 15
    name = "joint error of a quadruped that flings its legs, 2 s at 10 ms"
    law(name, 1, 1e3 * worst_joint_error(model, states), "mm", solver)
