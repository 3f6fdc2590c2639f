"""The robots that come with backflip build, step and behave."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip import robots


def play(model: bf.Model, steps: int, dt: float = 0.005) -> bf.State:
    run = jax.jit(lambda m, s: jax.lax.fori_loop(0, steps, lambda _, s: bf.step(bf.Scheme(dt), m, s), s))
    return run(model, bf.rest(model))


def finite(state: bf.State) -> bool:
    return all(np.isfinite(x).all() for x in jax.tree.leaves(state))


def test_the_ball_weighs_what_water_weighs_and_lies_still():
    model = robots.ball()
    after = play(model, 100)
    assert finite(after)
    np.testing.assert_allclose(after.p_WB[0], [0, 0, 0.5], atol=1e-3)


def test_the_pendulum_and_the_chain_stay_in_one_piece():
    hanging = play(robots.pendulum(motor=True), 100)
    np.testing.assert_allclose(hanging.p_WB[0], [0, 0, -1], atol=1e-12)
    chain = robots.chain(3, load=10.0)
    after = play(chain, 200)
    assert finite(after) and jax.jit(bf.joint_error)(chain, after).max() < 1e-3


def test_the_four_bar_stays_closed_at_any_lengths():
    model = robots.four_bar(crank=0.2)
    assert [j.role for j in model.topology.joints] == ["tree", "tree", "tree", "loop"]
    after = play(model, 200)
    assert finite(after) and jax.jit(bf.joint_error)(model, after).max() < 1e-3
    with pytest.raises(ValueError, match=r"four_bar: coupler 0.1 and rocker 0.1 cannot bridge"):
        robots.four_bar(coupler=0.1, rocker=0.1)


def test_the_quadruped_stands_for_a_second():
    model = robots.quadruped()
    assert len(model.topology.bodies) == 9 and model.controls == 8 and len(model.topology.pairs) == 8
    after = play(model, 100, dt=0.01)
    assert finite(after)
    np.testing.assert_allclose(after.p_WB[0], [0, 0, 0.33], atol=5e-3)
    np.testing.assert_allclose(after.R_WB[0], jnp.eye(3), atol=1e-2)
