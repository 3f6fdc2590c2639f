"""The health report measures what it says, and its findings name what is wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf

DT, STEPS = 0.01, 20
SCHEME = bf.Scheme(DT, bf.PGS(sweeps=8))
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    """A free body with a push along x."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0)
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    return b.build()


def lever(max_torque: float) -> bf.Model:
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("rod", bf.Capsule(0.05, 0.5), mass=1.0)
    b.add_hinge("pivot", "world", "rod", position=(0, 0, 0), axis=(0, 1, 0))
    b.add_servo("pivot", gain=10.0, max_velocity=5.0, max_torque=max_torque)
    return b.build()


def ride(model, measure, *pieces):
    """A cost of the states that a feedback `gain` on x leads to."""

    def cost(gain, key):
        policy = lambda x, memory: (gain * x[:1], memory)  # noqa: E731
        return measure(bf.rollout(SCHEME, model, bf.rest(model), policy, steps=STEPS, hooks=pieces).state)

    return cost


def test_a_free_body_keeps_its_gradient(puck):
    found = bf.health(ride(puck, lambda s: s.v_WB[-1, 0, 0]), jnp.array(0.0), KEY)
    np.testing.assert_allclose(found.norm, np.ones(STEPS), rtol=1e-10)
    drift = np.linalg.svd([[1, DT], [0, 1]], compute_uv=False)[0]
    np.testing.assert_allclose(found.growth, drift, rtol=1e-6)
    assert found.findings == ["nothing stands out"]


def test_a_faded_gradient_is_seen_to_shrink(puck):
    found = bf.health(ride(puck, lambda s: s.v_WB[-1, 0, 0], bf.gradients.fade(0.5)), jnp.array(0.0), KEY)
    np.testing.assert_allclose(found.norm, 0.5 ** np.arange(STEPS)[::-1], rtol=1e-10)
    assert "shrinks" in found.findings[0] and "shrinks" in found.report()


def test_an_unstable_loop_is_seen_to_explode(puck):
    found = bf.health(ride(puck, lambda s: s.p_WB[-1, 0, 0]), jnp.array(1e4), KEY)
    assert found.norm[0] > 1e3 * found.norm[-1]
    assert "grows" in found.findings[0]


def test_a_gradient_that_breaks_is_dated(puck):
    # the root has no slope at 0, where the puck still is after step 4
    found = bf.health(ride(puck, lambda s: jnp.sqrt(s.p_WB[4, 0, 0] ** 2)), jnp.array(1.0), KEY)
    np.testing.assert_array_equal(np.isfinite(found.norm), np.arange(STEPS) > 4)
    assert found.findings[0] == "the gradient is not finite before step 5"


def test_a_cost_that_does_not_look_is_told_so(puck):
    found = bf.health(ride(puck, lambda s: 0 * jax.lax.stop_gradient(s.p_WB).sum()), jnp.array(1.0), KEY)
    assert "no gradient came back" in found.findings[0]


@pytest.mark.parametrize(("max_torque", "share"), [(1e-3, 1.0), (1e3, 0.0)])
def test_saturated_servos_are_counted(max_torque, share):
    model = lever(max_torque)

    def cost(target, key):
        us = jnp.full((3, 1), target)
        return bf.rollout(SCHEME, model, bf.rest(model), us).last.w_WB[0, 1]

    found = bf.health(cost, jnp.array(1.5), KEY)
    np.testing.assert_array_equal(found.saturated, share)
    assert ("saturated" in found.findings[0]) == bool(share)


def test_without_servos_there_is_no_share_of_them(puck):
    found = bf.health(jax.jit(ride(puck, lambda s: s.v_WB[-1, 0, 0])), jnp.array(0.0), KEY)
    assert np.isnan(found.saturated).all()


def test_a_cost_without_a_rollout_has_no_health():
    with pytest.raises(ValueError, match="did not call rollout"):
        bf.health(lambda gain, key: gain**2, jnp.array(1.0), KEY)
