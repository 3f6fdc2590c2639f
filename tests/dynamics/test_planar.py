"""Planar scenes: nothing leaves the x-z plane, laws hold, parts of a body's motion can be held."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import last, run

import backflip as bf
from backflip.robots import struck_chain

Y = (0, 1, 0)


def check_in_plane(states):
    """Nothing has left the x-z plane, not by rounding either."""
    assert float(jnp.abs(states.p_WB[..., 1]).max()) == 0 and float(jnp.abs(states.v_WB[..., 1]).max()) == 0
    assert float(jnp.abs(states.w_WB[..., jnp.array([0, 2])]).max()) == 0
    assert float(jnp.abs(states.R_WB[..., 1, :] - jnp.eye(3)[1]).max()) == 0


def tied(*what, gravity=(0, 0, 0)):
    """A rod that spins and flies, with some of its motion held."""
    x, z, turn = (0.0 if name in what else 1.0 for name in ("x", "z", "rotation"))
    b = bf.Builder(planar=True, gravity=gravity)
    b.add_body("rod", bf.Capsule(0.05, 0.6), mass=2.0, velocity=(x, 0, 2 * z), spin=(0, 3 * turn, 0))
    b.add_hold("rod", *what)
    return b.build()


def test_a_circle_that_strikes_a_pinned_capsule_stays_in_the_plane():
    model = struck_chain(1)
    states = run(model, bf.rest(model), dt=1 / 30, seconds=1.5, solver=bf.PGS(sweeps=5))
    check_in_plane(states)
    assert float(jnp.abs(states.w_WB[:, 0, 1]).max()) > 1 and float(states.v_WB[-1, 1, 0]) < 3.9


def test_a_planar_pendulum_keeps_its_period():
    b = bf.Builder(planar=True)
    b.add_body("bob", bf.Sphere(0.05), mass=1.0, position=(0, 0, -1))
    b.add_hinge("pivot", "world", "bob", position=(0, 0, 0), axis=Y)
    model = b.build()
    period = 2 * np.pi * np.sqrt((1 + 0.4 * 0.05**2) / 9.81)
    states = run(model, bf.rest(model, jnp.array([0.01])), dt=float(period) / 400, seconds=5 * float(period))
    assert abs(float(states.p_WB[-1, 0, 0] / states.p_WB[399, 0, 0]) - 1) < 1e-3
    assert float(jnp.abs(states.p_WB[99::200, 0, 0]).max()) < 1e-4


def test_a_skidding_ball_ends_up_rolling_in_a_planar_scene_and_its_gradient_knows():
    b = bf.Builder(planar=True)
    b.add_ground(friction=0.2)
    b.add_body("ball", bf.Sphere(0.2), mass=2.0, position=(0, 0, 0.2), velocity=(2, 0, 0))
    model = b.build()

    def roll(model):
        states = bf.rollout(bf.Scheme(dt=0.01), model, bf.rest(model), steps=100).state
        return states.v_WB[-1, 0, 0], states

    (_, states), slope = jax.jit(jax.value_and_grad(roll, has_aux=True))(model)
    assert np.allclose(states.v_WB[19, 0, 0], 2 - 0.2 * 9.81 * 0.2, atol=1e-6)  # skids
    assert np.allclose(states.v_WB[-1, 0, 0], 2 * 5 / 7, atol=1e-4)  # rolls
    assert np.allclose(states.w_WB[-1, 0, 1] * 0.2, 2 * 5 / 7, atol=1e-4)
    check_in_plane(states)
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(slope))
    assert float(slope.velocity[0, 0]) == pytest.approx(5 / 7, abs=1e-6)


def test_momenta_of_planar_bodies_that_collide_are_kept():
    b = bf.Builder(planar=True, gravity=(0, 0, 0))
    b.add_body("circle", bf.Sphere(0.2), mass=1.0, position=(-0.6, 0, 0.1), velocity=(2, 0, 0))
    b.add_body("box", bf.Box((0.3, 0.2, 0.5)), mass=3.0, restitution=0.4)
    b.add_body("plate", bf.Box((0.3, 0.2, 0.1)), mass=1.0, position=(0.1, 0, 0.4), collide=False)
    b.add_fixed("weld", "box", "plate")
    model = b.build()
    start = bf.rest(model)
    states = run(model, start, dt=0.01, seconds=1)
    check_in_plane(states)
    end = last(states)
    assert float(jnp.abs(end.v_WB - start.v_WB).max()) > 0.3
    assert np.allclose(bf.momentum(model, end), bf.momentum(model, start), atol=1e-12)
    assert np.allclose(bf.angular_momentum(model, end), bf.angular_momentum(model, start), atol=1e-12)


def test_what_is_held_stays_and_the_rest_moves_freely():
    free = np.array([1.0, 2.0, 3.0])  # m along x, m along z, rad in a second
    for what in (("x",), ("z",), ("rotation",)):
        model = tied(*what)
        end = last(run(model, bf.rest(model), dt=0.05, seconds=1))
        moved = np.array([end.p_WB[0, 0], end.p_WB[0, 2], np.arctan2(end.R_WB[0, 0, 2], end.R_WB[0, 0, 0])])
        kept = np.array([name not in what for name in ("x", "z", "rotation")])
        assert np.allclose(moved, np.where(kept, free, 0), atol=1e-9), what


def test_holding_more_than_one_makes_a_joint_that_can_be_driven():
    kinds = {("x", "z"): "hinge", ("x", "rotation"): "slider", ("x", "z", "rotation"): "fixed"}
    for what, kind in kinds.items():
        assert tied(*what).topology.joints[0].kind.name == kind


def test_a_body_held_off_its_centre_swings_as_a_pendulum_on_rails_does():
    b = bf.Builder(planar=True)
    b.add_body("rod", bf.Capsule(0.05, 0.6), mass=2.0, rotation=(0, 0.4, 0))
    b.add_hold("rod", "z", position=(0.3 * np.sin(0.4), 0, 0.3 * np.cos(0.4)))
    model = b.build()
    states = run(model, bf.rest(model), dt=0.002, seconds=1)
    energies = jax.vmap(lambda s: bf.energy(model, s))(states)
    tip = states.p_WB[:, 0] + 0.3 * states.R_WB[:, 0, :, 2]
    assert float(jnp.abs(tip[:, 2] - 0.3 * np.cos(0.4)).max()) < 1e-5  # the point is held
    assert float(jnp.abs(states.p_WB[:, 0, 0]).max()) < 1e-9  # nothing pushes along x
    assert float(energies.max() - energies.min()) < 1e-3
    assert float(jnp.abs(states.w_WB[:, 0, 1]).max()) > 1


@pytest.mark.parametrize("what", ["x", "rotation"])
def test_gradients_of_held_bodies_agree_with_differences(what):
    model = tied(what, gravity=(1.0, 0, -9.81))
    scheme = bf.Scheme(dt=0.02)

    @jax.jit
    def reach(gravity, spin, length):
        changed = eqx.tree_at(
            lambda m: (m.gravity, m.spin, m.p_BJ), model,
            (gravity, spin, jnp.array([[0.1, 0.0, 0.0]]) + length * jnp.array([[0.0, 0.0, 1.0]])),
        )  # fmt: skip
        end = bf.rollout(scheme, changed, bf.rest(changed), steps=20).last
        return end.p_WB[0, 0] + 2 * end.p_WB[0, 2] + end.R_WB[0, 0, 2]

    at = (model.gravity, model.spin, jnp.asarray(0.2))
    slopes = jax.jit(jax.grad(reach, argnums=(0, 1, 2)))(*at)
    for i, (x, slope) in enumerate(zip(at, slopes, strict=True)):
        for k in np.ndindex(x.shape):
            if (i == 0 and k == (1,)) or (i == 1 and k != (0, 1)):
                continue  # out of the plane
            near = [reach(*at[:i], x.at[k].add(h), *at[i + 1 :]) for h in (1e-5, -1e-5)]
            assert float(slope[k]) == pytest.approx(float(near[0] - near[1]) / 2e-5, rel=1e-5, abs=1e-7)


def test_holding_nothing_or_outside_of_planar_scenes_is_refused():
    with pytest.raises(ValueError, match=r'add_hold of body "rod".*"x", "z", "rotation"'):
        tied("y")
    with pytest.raises(ValueError, match='add_hold of body "rod"'):
        tied()
    b = bf.Builder()
    b.add_body("rod", bf.Capsule(0.05, 0.6))
    b.add_hold("rod", "x")
    with pytest.raises(ValueError, match=r"rod held.*planar"):
        b.build()
