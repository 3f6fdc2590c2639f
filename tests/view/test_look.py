"""What is made visible of a model and its motion: bones, forces, and what the camera follows."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import backflip as bf
from backflip.geometry import Box, Capsule, Sphere
from backflip.robots import pendulum, quadruped
from backflip.view import Forces, Part, Scene, scene_of
from backflip.view.look import arrow_scale, look_at


def still(model: bf.Model) -> SimpleNamespace:
    start = bf.rest(model)
    return SimpleNamespace(p_WB=start.p_WB[None], R_WB=start.R_WB[None])


def pair(far: float, n: int = 2, f: float = 10.0) -> Scene:
    """n balls in a row of a metre that go `far` [m] along x in two seconds."""
    T = 101
    p_WB = np.zeros((T, n, 3))
    p_WB[..., 1] = np.linspace(0, 1, n)
    p_WB[..., 0] = np.linspace(0, far, T)[:, None]
    parts = tuple(Part(Sphere, (0.1, 0, 0), b) for b in range(n))
    forces = Forces(np.full((T, 1, 3), f) * [0, 0, 1], p_WB[:, :1])
    return Scene(parts, p_WB, np.tile(np.eye(3), (T, n, 1, 1)), np.linspace(0, 2, T), forces)


def test_a_body_known_by_its_inertia_is_drawn_as_the_box_that_has_it() -> None:
    model = quadruped()
    torso, *links = (part for part in scene_of(model, still(model), 0.01).parts if part.kind is Box)
    np.testing.assert_allclose(sorted(torso.form), [0.1, 0.3, 0.6], rtol=1e-3)
    assert len(links) == 8
    for link in links:
        np.testing.assert_allclose(sorted(link.form), [0.04, 0.04, 0.15], rtol=1e-3)


def test_a_rod_leads_from_a_shape_to_its_joint() -> None:
    model = pendulum(length=1.0)
    bob, rod = scene_of(model, still(model), 0.01).parts
    assert (bob.kind, rod.kind) == (Sphere, Capsule)
    # from the bob's centre to the pivot, 1 m above it
    np.testing.assert_allclose(rod.form[1], 1.0, atol=1e-6)
    np.testing.assert_allclose(rod.p_CS, [0, 0, 0.5], atol=1e-6)


def test_shapes_that_show_the_body_get_no_bones() -> None:
    b = bf.Builder()
    b.add_body("box", bf.Box((1, 1, 1)), mass=1.0)
    model = b.build()
    assert [part.kind for part in scene_of(model, still(model), 0.01).parts] == [Box]


def test_the_ground_is_seen_to_carry_a_ball() -> None:
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(radius=0.5), mass=2.0, position=(1, 0, 0.5))
    b.add_ground()
    model = b.build()
    path = jax.jit(lambda m: bf.rollout(bf.Scheme(dt=0.01), m, bf.rest(m), steps=20))(model)
    scene = scene_of(model, path, 0.01)
    assert scene.forces is not None
    np.testing.assert_allclose(scene.forces.f[-1], [[0, 0, 2 * 9.81]], atol=1e-3)
    np.testing.assert_allclose(scene.forces.p[-1], [[1, 0, 0]], atol=1e-3)


@pytest.mark.parametrize("contacts", [True, False])
def test_without_told_forces_there_are_none(contacts) -> None:
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(radius=0.5), mass=2.0, position=(0, 0, 0.5))
    if contacts:
        b.add_ground()
    model = b.build()
    states = still(model)
    if not contacts:
        states.force = np.zeros((1, 0))
    assert scene_of(model, states, 0.01).forces is None


def test_what_goes_far_is_followed() -> None:
    assert look_at(pair(far=9)).follow
    assert not look_at(pair(far=1)).follow
    assert not look_at(pair(far=9, n=1)).follow  # a lone body is seen by its path


def test_the_camera_keeps_up_with_a_steady_walk() -> None:
    scene = pair(far=9)
    np.testing.assert_allclose(look_at(scene).path, scene.p_WB.mean(axis=1), atol=1e-9)


def test_arrows_have_a_round_scale() -> None:
    look = look_at(pair(far=1, f=250.0))
    assert 0.3 < look.per_newton * 250.0 / 0.6 < 0.75  # near the robot's size
    assert arrow_scale(0.0004) == "1 kN = 0.4 m"
    assert arrow_scale(0.001) == "100 N = 0.1 m"
    assert arrow_scale(0.05) == "10 N = 0.5 m"
