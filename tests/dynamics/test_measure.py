"""What is measured of a motion has the gradients that differences have."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip import robots
from backflip.dynamics.contacts import collide, contacts_of_poses
from backflip.dynamics.motion import Motion
from backflip.geometry import PAIRS, Pair
from backflip.model import bodies_of

SCHEME = bf.Scheme(0.01, bf.PGS(sweeps=20))


@pytest.fixture(scope="module")
def moving():
    """The arm's model and states before and after a step, in the middle of a swing."""
    model = robots.arm()
    path = bf.rollout(SCHEME, model, bf.rest(model), jnp.tile(jnp.array([0.3, 0.4, 0.2, 0.5]), (20, 1)))
    return model, *(jax.tree.map(lambda x, t=t: x[t], path.state) for t in (-2, -1))


@pytest.mark.parametrize("what", ["torque", "power", "sensed"])
def test_torque_and_power_of_servos_follow_the_velocities_before_the_step(moving, what):
    model, before, _ = moving

    def measured(v):
        start = eqx.tree_at(lambda s: s.v_WB, before, before.v_WB + v)
        after = bf.step(SCHEME, model, start, jnp.array([0.3, 0.4, 0.2, 0.5]))
        if what == "power":
            return bf.servo_power(model, start, after).sum()
        return bf.servo_torque(model, after).sum() if what == "torque" else bf.observe(model, after).sum()

    way = jnp.asarray(np.random.default_rng(0).normal(size=before.v_WB.shape))
    _, slope = jax.jvp(measured, (jnp.zeros_like(way),), (way,))
    back = jnp.vdot(jax.grad(measured)(jnp.zeros_like(way)), way)
    h = 1e-5
    difference = (measured(h * way) - measured(-h * way)) / (2 * h)
    np.testing.assert_allclose([slope, back], difference, rtol=1e-6, atol=1e-9)


def test_penetration_is_how_deep_a_ball_was_pushed_and_grows_with_it():
    model = robots.ball(radius=0.5, height=0.49)
    deep = lambda z: bf.penetration(  # noqa: E731
        model, eqx.tree_at(lambda s: s.p_WB, bf.rest(model), jnp.array([[0.0, 0.0, z]]))
    )
    np.testing.assert_allclose(deep(0.49), 0.01, atol=1e-9)
    np.testing.assert_allclose(jax.grad(deep)(0.49), -1.0, atol=1e-9)
    assert deep(0.51) == 0 and jax.grad(deep)(0.51) == 0


def test_a_model_without_servos_has_no_torque_and_one_without_shapes_no_penetration():
    model = robots.pendulum()
    state = bf.rest(model)
    assert bf.servo_torque(model, state).shape == (0,) and bf.servo_power(model, state, state).shape == (0,)
    assert bf.penetration(model, state) == 0


def overlapping_balls() -> bf.Model:
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.2))
    b.add_body("b", bf.Sphere(0.2), position=(0.395, 0, 0))
    return b.build()


def test_poses_are_looked_at_once_where_nothing_moves(monkeypatch):
    looks = []
    balls = (bf.Sphere, bf.Sphere)
    normal = PAIRS[balls]
    monkeypatch.setitem(PAIRS, balls, Pair(lambda *x: looks.append(1) or normal.collide(*x), 1))
    model = overlapping_balls()
    state = bf.rest(model)
    looks.clear()
    jax.eval_shape(bf.penetration, model, state)
    jax.eval_shape(lambda state: bf.contact_force(model, state, "a", "b"), state)
    assert len(looks) == 2


def test_contacts_of_poses_are_those_of_bodies_that_do_not_move():
    model = overlapping_balls()
    state, bodies = bf.rest(model), bodies_of(model)
    zero = jnp.zeros_like(state.v_WB)
    moving = collide(model, bodies, Motion(state.p_WB, state.R_WB, zero, zero), 1.0)
    poses = contacts_of_poses(model, bodies, state.p_WB, state.R_WB)
    for a, b in zip(moving, poses, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-15)
