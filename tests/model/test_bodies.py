"""Masses, centres of mass and inertias against closed forms, and their gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import backflip as bf
from backflip.model import bodies_of as add_up

bodies_of = jax.jit(add_up)


def dumbbell(r: float = 0.1, d: float = 0.5, **options) -> bf.Model:
    """Two balls on one body, d apart along x."""
    b = bf.Builder()
    b.add_body("dumbbell", **options)
    b.add_shape("dumbbell", bf.Sphere(r), position=(0, 0, 0))
    b.add_shape("dumbbell", bf.Sphere(r), position=(d, 0, 0))
    return b.build()


def test_a_given_mass_and_the_density_that_makes_it_give_the_same_body():
    volume = 2 * 4 / 3 * np.pi * 0.1**3
    heavy, dense = bodies_of(dumbbell(mass=800 * volume)), bodies_of(dumbbell(density=800))
    for a, b in zip(heavy, dense, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-16)


def test_water_is_the_default():
    np.testing.assert_allclose(bodies_of(dumbbell()).mass, [1000 * 2 * 4 / 3 * np.pi * 0.1**3])


def test_a_dumbbell_has_its_closed_form():
    m, r, d = 3.0, 0.1, 0.5
    bodies = bodies_of(dumbbell(r, d, mass=m))
    np.testing.assert_allclose(bodies.com[0], [d / 2, 0, 0], atol=1e-16)
    across = 2 / 5 * m * r**2 + m * d**2 / 4
    np.testing.assert_allclose(bodies.inertia[0], np.diag([2 / 5 * m * r**2, across, across]), atol=1e-15)
    np.testing.assert_allclose(bodies.inverse_inertia[0] @ bodies.inertia[0], np.eye(3), atol=1e-14)


def test_a_turned_box_off_centre_beside_a_lead_ball_adds_up():
    size, place, turn = np.array([0.2, 0.3, 0.5]), np.array([0.1, -0.2, 0.3]), np.array([0.3, -0.5, 0.7])
    b = bf.Builder()
    b.add_body("b")
    b.add_shape("b", bf.Box(tuple(size)), position=place, rotation=turn, density=500)
    b.add_shape("b", bf.Sphere(0.1), density=11_000)
    bodies, R = bodies_of(b.build()), np.asarray(b.build().R_BS[0])
    box, ball = 500 * size.prod(), 11_000 * 4 / 3 * np.pi * 0.1**3
    com = box * place / (box + ball)

    def steiner(m, d):
        return m * (d @ d * np.eye(3) - np.outer(d, d))

    own = R @ np.diag(box / 12 * (size @ size - size**2)) @ R.T
    inertia = own + steiner(box, place - com) + 2 / 5 * ball * 0.01 * np.eye(3) + steiner(ball, com)
    np.testing.assert_allclose(bodies.mass[0], box + ball)
    np.testing.assert_allclose(bodies.com[0], com, rtol=1e-13)
    np.testing.assert_allclose(bodies.inertia[0], inertia, rtol=1e-12, atol=1e-14)


def test_a_given_inertia_puts_the_centre_of_mass_at_the_origin():
    b = bf.Builder()
    b.add_body("b", mass=2.0, inertia=(0.1, 0.2, 0.25))
    b.add_shape("b", bf.Sphere(0.1), position=(1, 0, 0))
    bodies = bodies_of(b.build())
    assert not bodies.com.any()
    np.testing.assert_array_equal(bodies.inertia[0], np.diag([0.1, 0.2, 0.25]))


@pytest.mark.parametrize("given, mass_power, inertia_power", [("density", 3, 5), ("mass", 0, 2)])
def test_gradients_by_size_follow_the_powers_of_the_radius(given, mass_power, inertia_power):
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.3), **{given: 7.0})
    model = b.build()

    def by_radius(r):
        bodies = bodies_of(eqx.tree_at(lambda m: m.size, model, model.size.at[0, 0].set(r)))
        return bodies.mass[0], bodies.inertia[0, 0, 0]

    (mass, inertia), (dmass, dinertia) = jax.jvp(by_radius, (jnp.array(0.3),), (jnp.array(1.0),))
    np.testing.assert_allclose(dmass, mass_power * mass / 0.3, atol=1e-12)
    np.testing.assert_allclose(dinertia, inertia_power * inertia / 0.3)


def test_a_heavier_end_pulls_the_centre_of_mass():
    model = dumbbell(density=1000)
    slope = jax.jacfwd(lambda density: bodies_of(eqx.tree_at(lambda m: m.density, model, density)).com[0, 0])
    # com = d ρ₂/(ρ₁ + ρ₂)
    np.testing.assert_allclose(slope(model.density), [-0.5 / 4000, 0.5 / 4000], rtol=1e-12)


def rod(length: float, radius: float = 1e-3) -> bf.Builder:
    b = bf.Builder()
    b.add_body("rod")
    b.add_shape("rod", bf.Cylinder(radius, length), rotation=(0.3, 0.5, 0.7))
    return b


def test_a_rod_as_slender_as_float32_carries_turned_any_way_keeps_its_inverse_and_a_finite_gradient():
    with jax.enable_x64(False):
        model = rod(3.0).build()
        turns = Rotation.random(200, random_state=0).as_matrix().astype("float32")

        def inverse(R):
            return add_up(eqx.tree_at(lambda m: m.R_BS, model, R[None])).inverse_inertia[0]

        inverses = np.asarray(jax.jit(jax.vmap(inverse))(turns), float)
        slopes = jax.jit(jax.vmap(jax.grad(lambda R: inverse(R).sum())))(turns)
    mass = 1000 * np.pi * 1e-6 * 3
    principal = 1 / (mass * np.array([1e-6 / 4 + 9 / 12, 1e-6 / 4 + 9 / 12, 1e-6 / 2]))
    ratio = np.linalg.eigvalsh(inverses) / principal
    assert ratio.min() > 0.8 and ratio.max() < 1.25 and np.isfinite(slopes).all()


SLENDER = r"body \"rod\": its smallest principal inertia is .* of its largest; float32 carries .* thicker or"


def test_a_body_more_slender_than_float32_carries_is_refused_by_name():
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=SLENDER):
            rod(10.0).build()
        b = bf.Builder()
        b.add_body("rod", mass=1.0, inertia=(1.0, 1.0, 1e-7))
        with pytest.raises(ValueError, match=SLENDER):
            b.build()
        b = bf.Builder()
        b.add_body("rod", mass=2.0)
        for x in (-5.0, 5.0):
            b.add_shape("rod", bf.Sphere(1e-3), position=(x, 0, 0))
        with pytest.raises(ValueError, match=SLENDER):
            b.build()
        with pytest.raises(ValueError, match=SLENDER):
            bf.check(bf.replace(rod(1.0).build(), size={"rod/0": (1e-3, 10.0)}))


def test_float64_carries_more_slender_bodies():
    inverse = bodies_of(rod(10.0).build()).inverse_inertia[0]
    wanted = 1 / (1000 * np.pi * 1e-5 * 1e-6 / 2)
    np.testing.assert_allclose(np.linalg.eigvalsh(inverse)[2], wanted, rtol=1e-6)
