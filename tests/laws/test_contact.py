"""Contact: bouncing, sliding, rolling, resting."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import (
    DEFAULT,
    SOLVERS,
    both_solvers,
    last,
    on_ground,
    run,
    run_all,
    slope_gravity,
    slow_but_by_default,
)

import backflip as bf

REBOUNDS = 0.0, 0.3, 0.5, 0.8, 1.0


def falling_ball(e):
    return on_ground(bf.Sphere(0.1), restitution=e, position=(0, 0, 1.1))


def check_bounces(law, z, dt, solver):
    """Heights z (5, steps) of balls that fell from 1 m."""
    for e, heights in zip(REBOUNDS, z, strict=True):
        after = heights[round(0.4516 / dt) + 2 : round(1 / dt)]
        error = abs(after.max() - e**2) / max(e**2, 0.01)
        law("bounce to e² of the height, e = 0 ... 1, dt = 10 and 3 ms", 1, 100 * error, "%", solver)


@both_solvers
def test_a_ball_bounces_to_e_squared_of_its_height(law, solver):
    states = run_all([falling_ball(e) for e in REBOUNDS], dt=0.003, seconds=1, solver=solver)
    check_bounces(law, np.asarray(states.p_WB[..., 0, 2]) - 0.1, 0.003, solver)


@both_solvers
def test_balls_bounce_roll_and_slide_into_rolling(law, solver):
    """A sphere rolls without slipping up to a slope of atan 3.5 μ."""
    slopes = [(mu, np.rad2deg(np.arctan(3.5 * mu)) + side) for mu in (0.1, 0.2) for side in (-1, 1)]
    rolling = [
        on_ground(bf.Sphere(0.2), friction=mu, gravity=slope_gravity(angle), position=(0, 0, 0.2))
        for mu, angle in slopes
    ]
    sliding = on_ground(bf.Sphere(0.2), friction=0.3, position=(0, 0, 0.2), velocity=(3, 0, 0))
    models = [*(falling_ball(e) for e in REBOUNDS), *rolling, sliding]
    states = run_all(models, dt=0.01, seconds=2, solver=solver)
    check_bounces(law, np.asarray(states.p_WB[:5, :, 0, 2]) - 0.1, 0.01, solver)
    v, w = np.asarray(states.v_WB[5:, -1, 0, 0]), np.asarray(states.w_WB[5:, -1, 0, 1])
    slip = v - 0.2 * w
    assert np.abs(slip[[0, 2, 4]]).max() < 1e-6 and slip[[1, 3]].min() > 1e-2
    for i in (0, 2):
        error = abs(v[i] / (5 / 7 * 9.81 * np.sin(np.deg2rad(slopes[i][1])) * 2) - 1)
        law("a sphere rolls down 1° below atan 3.5μ", 1, 100 * error, "%", solver)
    law("a sliding ball ends rolling at 5/7 v", 1, 100 * abs(v[4] / (5 / 7 * 3) - 1), "%", solver)


def test_an_elastic_ball_bounces_forever():
    model = on_ground(bf.Sphere(0.1), restitution=1.0, position=(0, 0, 1.1))
    z = np.asarray(run(model, bf.rest(model), dt=0.01, seconds=20).p_WB[:, 0, 2]) - 0.1
    assert abs(z[-100:].max() - 1) <= 0.01 and z.min() > -1e-3


def slab(mu, **options):
    return on_ground(bf.Box((0.4, 0.4, 0.1)), friction=mu, position=(0, 0, 0.05), **options)


@pytest.mark.parametrize(
    ("name", "solver"), [*SOLVERS.items(), ("PGS", bf.PGS(20, bf.Pyramid()))], ids=[*SOLVERS, "pyramid"]
)
def test_a_box_slides_to_rest_sticks_below_the_friction_angle_and_slides_above_it(law, name, solver):
    v, slopes = 2.0, [(mu, np.arctan(mu) + np.deg2rad(side)) for mu in (0.3, 0.8) for side in (-1, 1)]
    models = [slab(mu, gravity=slope_gravity(np.rad2deg(angle))) for mu, angle in slopes]
    states = run_all([slab(0.4, velocity=(v, 0, 0)), *models], dt=0.01, seconds=2, solver=solver)
    ways = np.asarray(states.p_WB[:, -1, 0, 0])
    assert float(jnp.abs(states.v_WB[0, -1]).max()) < 1e-6
    law("sliding stops after v²/2μg", 1, 100 * abs(ways[0] / (v**2 / (2 * 0.4 * 9.81)) - 1), "%", name)
    for (mu, angle), way in zip(slopes, ways[1:], strict=True):
        if np.tan(angle) < mu:
            law("a box 1° below atan μ creeps in 2 s", 1, 1e3 * abs(way), "mm", name)
        else:
            slip = 9.81 * (np.sin(angle) - mu * np.cos(angle)) * 2**2 / 2
            law("a box 1° above atan μ slides as it should", 5, 100 * abs(way / slip - 1), "%", name)


def check_at_rest(law, what, model, solver):
    start = bf.rest(model)
    states = run(model, start, dt=0.01, seconds=60, solver=solver)
    height = 1e3 * jnp.abs(states.p_WB - start.p_WB)[..., 2].max()
    law(f"{what} at rest for 60 s: speed", 1, 1e3 * jnp.abs(states.v_WB).max(), "mm/s", solver)
    law(f"{what} at rest for 60 s: height", 1, height, "mm", solver)


@both_solvers
def test_bodies_at_rest_stay_at_rest(law, solver):
    b = bf.Builder()
    b.add_ground(friction=0.5)
    b.add_body("box", bf.Box((0.2, 0.3, 0.4)), position=(0, 0, 0.2), group="apart")
    lying = (0, np.pi / 2, 0)
    b.add_body("capsule", bf.Capsule(0.1, 0.4), position=(1, 0, 0.1), rotation=lying, group="apart")
    b.add_body("ball", bf.Sphere(0.2), position=(2, 0, 0.2), group="apart")
    check_at_rest(law, "a box, a capsule, a ball", b.build(), solver)


@pytest.mark.slow
@both_solvers
def test_a_stack_of_five_boxes_stays_at_rest(law, solver):
    b = bf.Builder()
    b.add_ground(friction=0.5)
    for i in range(5):
        b.add_body(f"box{i}", bf.Box((0.2, 0.2, 0.2)), position=(0, 0, 0.1 + 0.2 * i))
    check_at_rest(law, "a stack of five boxes", b.build(), solver)


def test_a_ball_a_hundred_times_heavier_rests_on_a_light_one(law):
    b = bf.Builder(planar=True)
    b.add_ground(friction=0.5)
    b.add_body("light", bf.Sphere(0.1), mass=1.0, position=(0, 0, 0.1))
    b.add_body("heavy", bf.Sphere(0.1), mass=100.0, position=(0, 0, 0.3))
    model = b.build()
    states = run(model, bf.rest(model), dt=0.01, seconds=1, solver="interior point")
    name = "a ball 100 times heavier rests on a light one for 1 s: speed"
    law(name, 1, 1e3 * jnp.abs(states.v_WB).max(), "mm/s", "interior point")


@slow_but_by_default
@pytest.mark.parametrize("ratio", [100, 300, 1000])
def test_a_heavy_box_stands_on_a_light_one(law, solver, ratio):
    b = bf.Builder()
    b.add_ground(friction=0.5)
    b.add_body("light", bf.Box((0.2, 0.2, 0.2)), mass=1.0, position=(0, 0, 0.1))
    b.add_body("heavy", bf.Box((0.2, 0.2, 0.2)), mass=float(ratio), position=(0, 0, 0.3))
    b.ignore_contact("world", "heavy")
    model = b.build()
    start = bf.rest(model)
    states = run(model, start, dt=0.01, seconds=1, solver=solver)
    name = f"a box {ratio} times heavier stands on a light one for 1 s"
    law(name, 1, 1e3 * jnp.abs(states.p_WB - start.p_WB).max(), "mm", solver)


def servoed_capsule(far: bool) -> bf.Model:
    """An arm of two capsules that beats the air; far: beside a box and another arm, 0.6 m away."""
    b = bf.Builder()
    for k, side in enumerate((0, 2)[: 1 + far]):
        for i, z in enumerate((-0.15, -0.45)):
            b.add_body(f"link{k}{i}", bf.Capsule(0.03, 0.24), position=(side, 0, z), group=f"arm{k}")
            above = f"link{k}{i - 1}" if i else "world"
            b.add_hinge(f"hinge{k}{i}", above, f"link{k}{i}", position=(side, 0, z + 0.15), axis=(0, 1, 0.2))
            b.add_servo(f"hinge{k}{i}", gain=20.0, max_velocity=10.0, max_torque=4.0)
    if far:
        b.add_body("box", bf.Box((0.3, 0.3, 0.3)), position=(0, 1.2, 0), mass=2.0)
        b.add_fixed("stand", "world", "box")
    return b.build()


FAR = [
    pytest.param(None, id="default"),
    pytest.param(0.0, id="interior point", marks=pytest.mark.slow),
    pytest.param(1e-4, id="smooth", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("smoothness", FAR)
def test_what_is_far_away_has_no_influence(law, smoothness):
    """On the central path λ w = κ: a contact `gap` away presses with no more than κ/gap."""
    smooth = smoothness is not None
    solver = bf.InteriorPoint(smoothness=smoothness) if smooth else SOLVERS[DEFAULT]
    targets = np.random.default_rng(0).normal(size=(10, 4)).repeat(10, 0)
    near, far = (servoed_capsule(is_far) for is_far in (False, True))
    paths = [
        run(model, bf.rest(model), dt=0.01, seconds=1, solver=solver, controls=targets[:, : model.controls])
        for model in (near, far)
    ]
    apart = jnp.abs(paths[1].v_WB[:, :2] - paths[0].v_WB[:, :2]).max()
    force = jnp.abs(paths[1].force[:, far.topology.layout.scalars :]).max()
    column = "interior point" if smooth else DEFAULT
    what = f", smoothness {smoothness:g} J" if smoothness else ""
    law(f"bodies 0.6 m apart: force{what}", 2 * (smoothness or 0) / 0.4 + 1e-9, force, "N", column)
    law(
        f"bodies 0.6 m apart: what they change in velocities{what}",
        1e-2 if smoothness else 1e-6,
        apart,
        "m/s",
        column,
    )


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
