"""Contact: bouncing, sliding, rolling, resting."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import last, on_ground, run, slope_gravity

import backflip as bf


@pytest.mark.parametrize("e", [0.0, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("dt", [0.01, 0.003])
def test_a_ball_bounces_to_e_squared_of_its_height(e, dt):
    model = on_ground(bf.Sphere(0.1), restitution=e, position=(0, 0, 1.1))
    z = np.asarray(run(model, bf.rest(model), dt=dt, seconds=1).p_WB[:, 0, 2]) - 0.1
    after = z[round(0.4516 / dt) + 2 :]
    assert abs(after.max() - e**2) <= 0.01 * max(e**2, 0.01)


def test_an_elastic_ball_bounces_forever():
    model = on_ground(bf.Sphere(0.1), restitution=1.0, position=(0, 0, 1.1))
    z = np.asarray(run(model, bf.rest(model), dt=0.01, seconds=20).p_WB[:, 0, 2]) - 0.1
    assert abs(z[-100:].max() - 1) <= 0.01 and z.min() > -1e-3


@pytest.mark.parametrize("friction", [bf.Cone(), bf.Pyramid()])
def test_a_sliding_box_stops_after_v_squared_over_2_mu_g(friction):
    mu, v = 0.4, 2.0
    model = on_ground(bf.Box((0.4, 0.4, 0.1)), friction=mu, position=(0, 0, 0.05), velocity=(v, 0, 0))
    end = last(run(model, bf.rest(model), dt=0.005, seconds=1.5, solver=bf.PGS(20, friction)))
    assert abs(end.p_WB[0, 0] / (v**2 / (2 * mu * 9.81)) - 1) <= 0.01
    assert float(jnp.abs(end.v_WB).max()) < 1e-6


@pytest.mark.parametrize("mu", [0.3, 0.8])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_box_sticks_below_and_slides_above_the_friction_angle(mu, side):
    degrees = np.rad2deg(np.arctan(mu)) + side
    model = on_ground(
        bf.Box((0.4, 0.4, 0.1)), friction=mu, gravity=slope_gravity(degrees), position=(0, 0, 0.05)
    )
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    angle = np.deg2rad(degrees)
    slip = 9.81 * (np.sin(angle) - mu * np.cos(angle)) * 2**2 / 2
    assert float(end.p_WB[0, 0]) < 1e-3 if side < 0 else abs(float(end.p_WB[0, 0]) / slip - 1) < 0.05


@pytest.mark.parametrize("mu", [0.1, 0.2])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_sphere_rolls_without_slipping_below_the_angle_of_three_and_a_half_mu(mu, side):
    degrees = np.rad2deg(np.arctan(3.5 * mu)) + side
    model = on_ground(bf.Sphere(0.2), friction=mu, gravity=slope_gravity(degrees), position=(0, 0, 0.2))
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    slip = float(end.v_WB[0, 0] - 0.2 * end.w_WB[0, 1])
    assert abs(slip) < 1e-6 if side < 0 else slip > 1e-2
    if side < 0:
        assert abs(end.v_WB[0, 0] / (5 / 7 * 9.81 * np.sin(np.deg2rad(degrees)) * 2) - 1) <= 0.01


def test_a_ball_sliding_at_v_ends_rolling_at_five_sevenths_of_v():
    model = on_ground(bf.Sphere(0.2), friction=0.3, position=(0, 0, 0.2), velocity=(3, 0, 0))
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    assert abs(end.v_WB[0, 0] / (5 / 7 * 3) - 1) <= 0.01
    assert abs(end.v_WB[0, 0] - 0.2 * end.w_WB[0, 1]) < 1e-6


def speed_and_shift(model, start=None, seconds=60):
    start = start or bf.rest(model)
    states = run(model, start, dt=0.01, seconds=seconds)
    return float(jnp.abs(states.v_WB).max()), float(jnp.abs(states.p_WB - start.p_WB)[..., 2].max())


@pytest.mark.parametrize(
    ("shape", "rotation", "height"),
    [
        (bf.Box((0.2, 0.3, 0.4)), None, 0.2),
        (bf.Capsule(0.1, 0.4), (0, np.pi / 2, 0), 0.1),
        (bf.Sphere(0.2), None, 0.2),
    ],
)
def test_a_body_at_rest_stays_at_rest(shape, rotation, height):
    speed, shift = speed_and_shift(on_ground(shape, position=(0, 0, height), rotation=rotation))
    assert speed <= 1e-3 and shift <= 1e-3


def test_a_stack_of_five_boxes_stays_at_rest():
    b = bf.Builder()
    b.add_ground(friction=0.5)
    for i in range(5):
        b.add_body(f"box{i}", bf.Box((0.2, 0.2, 0.2)), position=(0, 0, 0.1 + 0.2 * i))
        for far in ("world", *(f"box{k}" for k in range(i)))[:i]:
            b.ignore_contact(f"box{i}", far)  # only neighbours can touch: fewer rows, a shorter test
    model = b.build()
    # rest() knows no contact forces; they build up within the first seconds, and then are part of the state
    settled = last(run(model, bf.rest(model), dt=0.01, seconds=3))
    assert float(jnp.abs(settled.p_WB - bf.rest(model).p_WB)[..., 2].max()) <= 1e-3
    speed, shift = speed_and_shift(model, settled)
    assert speed <= 1e-3 and shift <= 1e-3


def test_two_equal_elastic_balls_swap_their_velocities():
    b = bf.Builder(gravity=(0, 0, 0))
    for name, x, v in (("left", -1.003, 2.0), ("right", 1.0, -0.5)):
        b.add_body(name, bf.Sphere(0.2), mass=1.0, position=(x, 0, 0), velocity=(v, 0, 0), restitution=1.0)
    model = b.build()
    end = last(run(model, bf.rest(model), dt=0.01, seconds=1))
    assert np.allclose(end.v_WB[:, 0], [-0.5, 2.0], atol=1e-9)


def test_dropping_a_ball_in_a_planar_scene_keeps_it_in_the_plane():
    model = on_ground(bf.Box((0.2, 0.2, 0.2)), planar=True, position=(0, 0, 0.5), rotation=(0, 0.3, 0))
    state = bf.rest(model)
    state = eqx.tree_at(lambda s: s.v_WB, state, state.v_WB.at[0, 0].set(1.0))
    states = run(model, state, dt=0.005, seconds=1)
    assert float(jnp.abs(states.p_WB[..., 1]).max()) == 0
    assert float(jnp.abs(states.w_WB[..., [0, 2]]).max()) == 0


def test_a_foot_ten_thousand_times_lighter_than_its_robot_stands_in_float32():
    b = bf.Builder()
    b.add_ground()
    b.add_body("robot", bf.Box((0.3, 0.3, 0.3)), mass=100.0, position=(0, 0, 0.3), collide=False)
    b.add_body("foot", bf.Sphere(0.05), mass=0.01, position=(0, 0, 0.05))
    b.add_fixed("ankle", "robot", "foot")
    model = jax.tree.map(lambda x: x.astype(jnp.float32), b.build())
    end = last(run(model, bf.rest(model), dt=0.01, seconds=0.5))
    assert end.p_WB.dtype == jnp.float32 and abs(float(end.p_WB[1, 2]) - 0.05) < 1e-3


def test_a_skewed_body_stays_in_the_plane_of_a_planar_scene():
    b = bf.Builder(gravity=(0, 0, 0), planar=True)
    b.add_body("plate", bf.Box((0.1, 0.2, 0.6)), rotation=(0.5, 0, 0), spin=(0, 5, 0))
    model = b.build()
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    assert np.allclose(end.w_WB, [[0, 5, 0]], atol=1e-9)
    assert np.allclose(end.R_WB[0, 1], bf.rest(model).R_WB[0, 1], atol=1e-9)
