"""Laws by the interior-point solver: what sweeps keep, it keeps too, and some that sweeps do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import last, on_ground, run, slope_gravity

import backflip as bf
from backflip.robots import four_bar

SOLVER, NAME = bf.InteriorPoint(), "interior point"


def slab(mu, **options):
    return on_ground(bf.Box((0.4, 0.4, 0.1)), friction=mu, position=(0, 0, 0.05), **options)


def test_a_sliding_box_stops_after_v_squared_over_2_mu_g(law):
    mu, v = 0.4, 2.0
    model = slab(mu, velocity=(v, 0, 0))
    end = last(run(model, bf.rest(model), dt=0.01, seconds=1.5, solver=SOLVER))
    assert float(jnp.abs(end.v_WB).max()) < 1e-6
    error = abs(end.p_WB[0, 0] / (v**2 / (2 * mu * 9.81)) - 1)
    law("sliding stops after v²/2μg", 1, 100 * error, "%", NAME)


@pytest.mark.parametrize("mu", [0.3, 0.8])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_box_sticks_below_and_slides_above_the_friction_angle(law, mu, side):
    degrees = np.rad2deg(np.arctan(mu)) + side
    model = slab(mu, gravity=slope_gravity(degrees))
    end = last(run(model, bf.rest(model), dt=0.01, seconds=2, solver=SOLVER))
    angle = np.deg2rad(degrees)
    slip = 9.81 * (np.sin(angle) - mu * np.cos(angle)) * 2**2 / 2
    if side < 0:
        law("a box 1° below atan μ creeps in 2 s", 1, 1e3 * abs(end.p_WB[0, 0]), "mm", NAME)
    else:
        law("a box 1° above atan μ slides as it should", 5, 100 * abs(end.p_WB[0, 0] / slip - 1), "%", NAME)


def test_a_driven_four_bar_loop_stays_closed(law):
    model, steps = four_bar(), 5000
    states = run(
        model, bf.rest(model), dt=2e-3, seconds=10, solver=SOLVER, controls=jnp.full((steps, 1), 0.3)
    )
    error = jax.vmap(lambda s: bf.joint_error(model, s))(states).max()
    law("joint error of a driven four-bar loop, 10 s at 2 ms", 1, 1e3 * error, "mm", NAME)


def test_a_ball_a_hundred_times_heavier_rests_on_a_light_one(law):
    b = bf.Builder(planar=True)
    b.add_ground(friction=0.5)
    b.add_body("light", bf.Sphere(0.1), mass=1.0, position=(0, 0, 0.1))
    b.add_body("heavy", bf.Sphere(0.1), mass=100.0, position=(0, 0, 0.3))
    model = b.build()
    states = run(model, bf.rest(model), dt=0.01, seconds=1, solver=SOLVER)
    speed = 1e3 * jnp.abs(states.v_WB).max()
    law("a ball 100 times heavier rests on a light one for 1 s: speed", 1, speed, "mm/s", NAME)
