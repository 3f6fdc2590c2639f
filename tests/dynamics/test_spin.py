"""Spins beyond what a step can follow: cut to a quarter turn per step, finite in value and gradient."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf

SCHEME = bf.Scheme(dt=0.01)


def hinged_boxes() -> bf.Model:
    b = bf.Builder()
    b.add_ground()
    b.add_body("upper", bf.Box((0.3, 0.2, 0.1)), mass=1.0, position=(0, 0, 3))
    b.add_body("lower", bf.Box((0.1, 0.1, 0.3)), mass=0.3, position=(0, 0, 2.8))
    b.add_hinge("hinge", "upper", "lower", position=(0, 0, 2.9), axis=(0, 1, 0))
    return b.build()


@jax.jit
def end(model: bf.Model, spin: jax.Array) -> bf.State:
    start = bf.rest(model)
    start = eqx.tree_at(lambda s: s.w_WB, start, start.w_WB + spin)
    return bf.rollout(SCHEME, model, start, steps=20).last


@pytest.mark.parametrize("speed", [50, 316, 1e3, 1e6])
def test_any_spin_has_a_finite_step_and_gradient(speed: float):
    model = jax.tree.map(lambda x: x.astype(jnp.float32), hinged_boxes())
    spin = speed * jnp.array([0.6, 0.7, -0.4], jnp.float32)

    def cost(spin):
        return sum(jnp.sum(x) for x in jax.tree.leaves(end(model, spin)))

    value, slope = jax.value_and_grad(cost)(spin)
    assert np.isfinite(value) and np.isfinite(slope).all()


def test_a_spin_below_a_quarter_turn_per_step_is_left_alone():
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("ball", bf.Sphere(0.1), spin=(0, 0, 150.0))
    model = b.build()
    state = bf.step(SCHEME, model, bf.rest(model))
    np.testing.assert_allclose(state.w_WB, [[0, 0, 150]], atol=1e-12)
    np.testing.assert_allclose(state.R_WB[0, :2, 0], [np.cos(1.5), np.sin(1.5)], atol=2e-3)


def test_a_rollout_warns_of_a_start_that_spins_too_fast():
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("top", bf.Sphere(0.1), spin=(0, 0, 300.0))
    model = b.build()
    with pytest.warns(UserWarning, match=r'"top" spins at 300 rad/s.*smaller dt'):
        bf.rollout(SCHEME, model, bf.rest(model), steps=1)
