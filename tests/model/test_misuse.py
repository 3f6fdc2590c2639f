"""Mistakes that once passed unnoticed."""

import numpy as np
import pytest

import backflip as bf


def test_a_model_without_bodies_is_refused():
    b = bf.Builder()
    b.add_ground()
    with pytest.raises(ValueError, match="no body"):
        b.build()


def test_a_universal_joint_with_one_axis_is_refused():
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1))
    b.add_universal("u", "world", "a", position=(0, 0, 0), axes=((0, 0, 1),))
    with pytest.raises(ValueError, match='joint "u": 1 axes'):
        b.build()


def test_a_shape_density_beside_a_body_mass_is_refused():
    b = bf.Builder()
    b.add_body("a", mass=1.0)
    b.add_shape("a", bf.Sphere(0.1), density=500.0)
    with pytest.raises(ValueError, match="both mass and density"):
        b.build()


def test_thin_plates_that_overlap_are_warned_of():
    b = bf.Builder()
    b.add_body("a", bf.Box((1, 1, 0.01)))
    b.add_body("b", bf.Box((1, 1, 0.01)), position=(0, 0, 0.005))
    with pytest.warns(UserWarning, match="inside each other"):
        b.build()


def test_sensors_given_arrays_stay_hashable():
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1))
    b.add_sensor(bf.Distance("a", target=np.array([1.0, 0, 0])))
    model = b.build()
    hash(model.topology)
    assert np.allclose(bf.observe(model, bf.rest(model)), [1.0])
