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
def test_a_ball_bounces_to_e_squared_of_its_height(law, e, dt):
    model = on_ground(bf.Sphere(0.1), restitution=e, position=(0, 0, 1.1))
    z = np.asarray(run(model, bf.rest(model), dt=dt, seconds=1).p_WB[:, 0, 2]) - 0.1
    after = z[round(0.4516 / dt) + 2 :]
    error = abs(after.max() - e**2) / max(e**2, 0.01)
    law("bounce to e² of the height, e = 0 ... 1, dt = 10 and 3 ms", 1, 100 * error, "%")


def test_an_elastic_ball_bounces_forever():
    model = on_ground(bf.Sphere(0.1), restitution=1.0, position=(0, 0, 1.1))
    z = np.asarray(run(model, bf.rest(model), dt=0.01, seconds=20).p_WB[:, 0, 2]) - 0.1
    assert abs(z[-100:].max() - 1) <= 0.01 and z.min() > -1e-3


@pytest.mark.parametrize("friction", [bf.Cone(), bf.Pyramid()])
def test_a_sliding_box_stops_after_v_squared_over_2_mu_g(law, friction):
    mu, v = 0.4, 2.0
    model = on_ground(bf.Box((0.4, 0.4, 0.1)), friction=mu, position=(0, 0, 0.05), velocity=(v, 0, 0))
    end = last(run(model, bf.rest(model), dt=0.005, seconds=1.5, solver=bf.PGS(20, friction)))
    assert float(jnp.abs(end.v_WB).max()) < 1e-6
    error = abs(end.p_WB[0, 0] / (v**2 / (2 * mu * 9.81)) - 1)
    law("sliding stops after v²/2μg", 1, 100 * error, "%")


@pytest.mark.parametrize("mu", [0.3, 0.8])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_box_sticks_below_and_slides_above_the_friction_angle(law, mu, side):
    degrees = np.rad2deg(np.arctan(mu)) + side
    model = on_ground(
        bf.Box((0.4, 0.4, 0.1)), friction=mu, gravity=slope_gravity(degrees), position=(0, 0, 0.05)
    )
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    angle = np.deg2rad(degrees)
    slip = 9.81 * (np.sin(angle) - mu * np.cos(angle)) * 2**2 / 2
    if side < 0:
        law("a box 1° below atan μ creeps in 2 s", 1, 1e3 * abs(end.p_WB[0, 0]), "mm")
    else:
        law("a box 1° above atan μ slides as it should", 5, 100 * abs(end.p_WB[0, 0] / slip - 1), "%")


@pytest.mark.parametrize("mu", [0.1, 0.2])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_sphere_rolls_without_slipping_below_the_angle_of_three_and_a_half_mu(law, mu, side):
    degrees = np.rad2deg(np.arctan(3.5 * mu)) + side
    model = on_ground(bf.Sphere(0.2), friction=mu, gravity=slope_gravity(degrees), position=(0, 0, 0.2))
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    slip = float(end.v_WB[0, 0] - 0.2 * end.w_WB[0, 1])
    assert abs(slip) < 1e-6 if side < 0 else slip > 1e-2
    if side < 0:
        error = abs(end.v_WB[0, 0] / (5 / 7 * 9.81 * np.sin(np.deg2rad(degrees)) * 2) - 1)
        law("a sphere rolls down 1° below atan 3.5μ", 1, 100 * error, "%")


def test_a_ball_sliding_at_v_ends_rolling_at_five_sevenths_of_v(law):
    model = on_ground(bf.Sphere(0.2), friction=0.3, position=(0, 0, 0.2), velocity=(3, 0, 0))
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2))
    assert abs(end.v_WB[0, 0] - 0.2 * end.w_WB[0, 1]) < 1e-6
    law("a sliding ball ends rolling at 5/7 v", 1, 100 * abs(end.v_WB[0, 0] / (5 / 7 * 3) - 1), "%")


def check_at_rest(law, what, model):
    start = bf.rest(model)
    states = run(model, start, dt=0.01, seconds=60)
    law(f"{what} at rest for 60 s: speed", 1, 1e3 * jnp.abs(states.v_WB).max(), "mm/s")
    law(f"{what} at rest for 60 s: height", 1, 1e3 * jnp.abs(states.p_WB - start.p_WB)[..., 2].max(), "mm")


@pytest.mark.parametrize(
    ("shape", "rotation", "height"),
    [
        (bf.Box((0.2, 0.3, 0.4)), None, 0.2),
        (bf.Capsule(0.1, 0.4), (0, np.pi / 2, 0), 0.1),
        (bf.Sphere(0.2), None, 0.2),
    ],
)
def test_a_body_at_rest_stays_at_rest(law, shape, rotation, height):
    check_at_rest(
        law, "a box, a capsule, a ball", on_ground(shape, position=(0, 0, height), rotation=rotation)
    )


def test_a_stack_of_five_boxes_stays_at_rest(law):
    b = bf.Builder()
    b.add_ground(friction=0.5)
    for i in range(5):
        b.add_body(f"box{i}", bf.Box((0.2, 0.2, 0.2)), position=(0, 0, 0.1 + 0.2 * i))
    check_at_rest(law, "a stack of five boxes", b.build())


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
