"""The arm and the dog weigh, reach and stand as the paper's robots do."""

import math

import jax
import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip import robots
from backflip.model import bodies_of
from backflip.robots.arm import HOLD, tip


def play(model: bf.Model, u: jax.Array, steps: int, sweeps: int = 20) -> bf.Trajectory:
    scheme = bf.Scheme(0.01, bf.PGS(sweeps=sweeps))
    return jax.jit(lambda m, u: bf.rollout(scheme, m, bf.rest(m), jnp.broadcast_to(u, (steps, u.size))))(
        model, u
    )


def test_the_arm_weighs_32_kg_and_its_tip_is_a_metre_from_its_base():
    model = robots.arm()
    np.testing.assert_allclose(bodies_of(model).mass.sum(), 32.17, atol=0.01)
    np.testing.assert_allclose(tip(model, bf.rest(model)), [0, 0, 1.1], atol=1e-6)
    bent = bf.rest(model, jnp.array([0.0, math.pi / 2, 0.0, 0.0]))
    np.testing.assert_allclose(tip(model, bent), [1, 0, 0.1], atol=1e-6)
    np.testing.assert_allclose(bf.observe(model, bent), [np.linalg.norm([0.5, -0.5, -0.4])], atol=1e-6)


def test_the_arm_is_held_stretched_flat_by_what_it_has_and_not_by_what_is_printed():
    flat = jnp.array([0.0, 1.5, 0.0, 0.0])
    strong, weak = play(robots.arm(), flat, 400), play(robots.arm(max_torque=30.0), flat, 400)
    assert abs(tip(robots.arm(), strong.last)[2] - 0.17) < 0.02
    assert tip(robots.arm(), weak.last)[2] < -0.2
    torque = bf.servo_torque(robots.arm(), strong.last)
    assert 155 < jnp.abs(torque).max() < HOLD


def test_the_dog_weighs_28_7_kg_senses_81_numbers_and_stands_still():
    model = robots.dog()
    np.testing.assert_allclose(bodies_of(model).mass.sum(), 28.69, atol=0.01)
    assert bf.observe(model, bf.rest(model)).shape == (81,)
    after = play(model, jnp.zeros(8), 300).last
    assert jnp.abs(after.v_WB).max() < 1e-4 and jnp.abs(after.p_WB[0, 0]) < 1e-3
    assert bf.penetration(model, after) < 1e-3 and bf.joint_error(model, after).max() < 1e-3


def test_servos_put_in_the_energy_that_a_lifted_arm_gains():
    model = robots.arm()
    path = play(model, jnp.array([0.3, 0.4, 0.2, 0.5]), 300)
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), bf.rest(model), path.state)
    before, after = (jax.tree.map(lambda x, k=k: x[k], states) for k in (slice(None, -1), slice(1, None)))
    work = 0.01 * jax.vmap(lambda a, b: bf.servo_power(model, a, b))(before, after).sum()
    gained = bf.energy(model, path.last) - bf.energy(model, bf.rest(model))
    np.testing.assert_allclose(work, gained, atol=0.02 * abs(float(gained)) + 0.05)
