"""Cylinders and hulls: standing, lying, rolling, sliding, stacked, and a hull that is a box."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import DEFAULT, SOLVERS, run, slope_gravity, slow_but_by_default

import backflip as bf

MU, SPEED, RADIUS = 0.4, 0.6, 0.1
SCHEME = bf.Scheme(dt=0.01, solver=bf.PGS(sweeps=20))
TETRAHEDRON = 0.1 * np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)])
LYING = (0, np.pi / 2, 0)


def block(x: float, y: float, z: float) -> bf.Hull:
    """A box as the hull of its corners."""
    return bf.Hull([(a * x / 2, b * y / 2, c * z / 2) for a, b, c in product((-1, 1), repeat=3)])


def on_face() -> np.ndarray:
    """The rotation that lays the tetrahedron's first face down: its far corner up."""
    z = np.ones(3) / np.sqrt(3)
    x = np.array([1, -1, 0]) / np.sqrt(2)
    return np.stack([x, np.cross(z, x), z])


@pytest.fixture(
    scope="module",
    params=[n if n == DEFAULT else pytest.param(n, marks=pytest.mark.slow) for n in SOLVERS],
)
def yard(request):
    """Bodies side by side, which do not touch each other, how the yard moves for 2 s, and by which solver."""
    b = bf.Builder()
    b.add_ground(friction=MU)
    tumble = {"rotation": (0.4, 0.3, 0.2), "spin": (1, -2, 1), "velocity": (0.3, 0.2, 0), "group": "yard"}
    b.add_body("can", bf.Cylinder(RADIUS, 0.3), position=(0, 0, 0.15), group="yard")
    b.add_body("log", bf.Cylinder(RADIUS, 0.3), position=(0, 1, RADIUS), rotation=LYING, group="yard")
    height = 0.1 / np.sqrt(3)
    b.add_body("stone", bf.Hull(TETRAHEDRON), position=(1, 0, height), rotation=on_face(), group="yard")
    b.add_body("hull", block(0.2, 0.3, 0.4), position=(2, 0, 0.4), **tumble)
    b.add_body("box", bf.Box((0.2, 0.3, 0.4)), position=(2, 0, 0.4), **tumble)
    model, scheme = b.build(), bf.Scheme(dt=0.01, solver=SOLVERS[request.param])
    move = jax.jit(lambda m: bf.rollout(scheme, m, bf.rest(m), None, steps=200).state)
    return model.topology.bodies.index, model, move, request.param


def test_a_can_a_log_and_a_tetrahedron_on_its_face_stay_at_rest(law, yard):
    of, model, move, solver = yard
    states = move(model)
    for name in ("can", "log", "stone"):
        p, v = states.p_WB[:, of(name)], states.v_WB[:, of(name)]
        name = "a cylinder on its cap, on its side, a hull at rest"
        law(f"{name}: speed", 1, 1e3 * jnp.abs(v).max(), "mm/s", solver)
        law(f"{name}: place", 1, 1e3 * jnp.abs(p - p[0]).max(), "mm", solver)


def test_a_cylinder_sliding_at_v_ends_rolling_at_two_thirds_of_v(law, yard):
    of, model, move, solver = yard
    pushed = model.velocity.at[of("log"), 1].set(SPEED)
    states = move(eqx.tree_at(lambda m: m.velocity, model, pushed))
    v, w = states.v_WB[-1, of("log"), 1], states.w_WB[-1, of("log"), 0]
    assert abs(v + RADIUS * w) < 1e-6
    law("a sliding cylinder ends rolling at 2/3 v", 1, 100 * abs(v / (2 / 3 * SPEED) - 1), "%", solver)


def test_a_hull_of_a_boxs_corners_moves_as_the_box(law, yard):
    of, model, move, solver = yard
    states = move(model)
    apart = [jnp.abs(x[:, of("hull")] - x[:, of("box")]).max() for x in (states.p_WB, states.R_WB)]
    law("a hull of a box's corners against the box, 2 s of tumbling", 1e-6, max(apart), "m", solver)


def test_cylinders_and_hulls_stick_below_and_slide_above_the_friction_angle(law, yard):
    of, model, move, solver = yard
    for side in (-1, 1):
        degrees = np.rad2deg(np.arctan(MU)) + side
        states = move(eqx.tree_at(lambda m: m.gravity, model, jnp.array(slope_gravity(degrees))))
        angle = np.deg2rad(degrees)
        slip = 9.81 * (np.sin(angle) - MU * np.cos(angle)) * 2**2 / 2
        for name in ("can", "stone"):
            way = states.p_WB[-1, of(name), 0] - states.p_WB[0, of(name), 0]
            if side < 0:
                law("a cylinder, a hull 1° below atan μ creep in 2 s", 1, 1e3 * abs(way), "mm", solver)
            else:
                name = "a cylinder, a hull 1° above atan μ slide as they should"
                law(name, 5, 100 * abs(way / slip - 1), "%", solver)


@slow_but_by_default
def test_a_hull_set_crooked_on_a_hull_comes_to_rest(law, solver):
    b = bf.Builder()
    b.add_ground(friction=MU)
    b.add_body("low", block(0.3, 0.3, 0.2), position=(0, 0, 0.1))
    b.add_body("high", block(0.3, 0.3, 0.2), position=(0.02, 0.01, 0.3), rotation=(0, 0, 0.3))
    b.ignore_contact("world", "high")
    model = b.build()
    start = bf.rest(model)
    states = run(model, start, dt=0.01, seconds=10, solver=solver)
    # as with boxes, a crooked stack is set down with a start of 1.5 mm/s
    speed, away = jnp.abs(states.v_WB[10:]).max(), jnp.abs(states.p_WB - start.p_WB).max()
    law("a crooked stack of two hulls, from 0.1 s to 10 s: speed", 1, 1e3 * speed, "mm/s", solver)
    law("a crooked stack of two hulls, 10 s: place", 1, 1e3 * away, "mm", solver)


def test_gradients_of_corners_through_a_landing_are_those_of_differences():
    b = bf.Builder()
    b.add_ground(friction=MU)
    b.add_body("stone", bf.Hull(TETRAHEDRON), position=(0, 0, 0.15), rotation=(0.3, 0.2, 0.1))
    model = b.build()
    weight = np.random.default_rng(0).normal(size=(1, 3))

    def loss(vertices):
        changed = eqx.tree_at(lambda m: m.vertices, model, vertices)
        end = bf.rollout(SCHEME, changed, bf.rest(changed), None, steps=12).state
        return jnp.sum(weight * end.v_WB[-1])

    slope = jax.jit(jax.grad(loss))(model.vertices)
    value, h = jax.jit(loss), 1e-6
    rates = np.random.default_rng(1).normal(size=(3, *model.vertices.shape))
    differences = [(value(model.vertices + h * r) - value(model.vertices - h * r)) / (2 * h) for r in rates]
    np.testing.assert_allclose(jnp.sum(slope * rates, (1, 2)), jnp.stack(differences), rtol=1e-5)
