"""Every point of a body is given in its frame, from its origin; the state is about centres of mass."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import backflip as bf

P = (0.3, -0.2, 0.1)


@pytest.fixture(scope="module")
def lopsided() -> bf.Model:
    """A body whose centre of mass is far from its origin, which turns and moves."""
    b = bf.Builder()
    b.add_body(
        "stick",
        density=500.0,
        position=(1, 2, 3),
        rotation=(0.3, 0.5, -0.2),
        velocity=(1, 0, 2),
        spin=(3, -1, 2),
    )
    b.add_shape("stick", bf.Sphere(0.1))
    b.add_shape("stick", bf.Box((0.2, 0.3, 0.4)), position=(0.5, 0.2, 0))
    b.add_sensor(bf.IMU("stick", position=P), bf.Distance("stick", target=(0, 0, 0), position=P))
    return b.build()


def test_the_origin_is_where_the_body_was_put(lopsided):
    state = bf.rest(lopsided)
    np.testing.assert_allclose(bf.point(lopsided, state, "stick").position, [1, 2, 3], atol=1e-14)
    assert np.abs(state.p_WB[0] - np.array([1, 2, 3])).max() > 0.1


def test_the_velocity_of_a_point_is_the_rate_of_its_position(lopsided):
    h, s = 1e-6, bf.rest(lopsided)
    from scipy.spatial.transform import Rotation

    def after(t):
        turn = Rotation.from_rotvec(t * np.asarray(s.w_WB[0])).as_matrix()
        moved = bf.replace(lopsided, s, p_WB=s.p_WB + t * s.v_WB, R_WB=(turn @ s.R_WB[0])[None])
        return bf.point(lopsided, moved, "stick", P).position

    np.testing.assert_allclose(
        bf.point(lopsided, s, "stick", P).velocity, (after(h) - after(-h)) / (2 * h), rtol=1e-8
    )


def test_a_distance_sensor_sits_at_the_point_of_its_position(lopsided):
    state = bf.rest(lopsided)
    at = bf.point(lopsided, state, "stick", P).position
    np.testing.assert_allclose(bf.readings(lopsided, state)["Distance(stick)"], [np.linalg.norm(at)])


def test_an_imu_in_free_fall_feels_the_centripetal_pull_of_its_distance_from_the_centre_of_mass(lopsided):
    b = bf.Builder()
    b.add_body("stick", mass=1.0, spin=(0, 0, 5.0))
    b.add_shape("stick", bf.Sphere(0.1), position=(0.4, 0, 0))
    b.add_sensor(bf.IMU("stick", position=(1, 0, 0), name="tip"), bf.IMU("stick", position=(0.4, 0, 0)))
    model = b.build()
    free = bf.replace(model, bf.rest(model), a_WB={"stick": model.gravity})
    read = bf.readings(model, free)
    np.testing.assert_allclose(read["tip"], [0, 0, 5, -25 * 0.6, 0, 0], atol=1e-12)
    np.testing.assert_allclose(read["IMU(stick)"], [0, 0, 5, 0, 0, 0], atol=1e-12)


def test_points_come_in_batches_and_under_vmap(lopsided):
    state = bf.rest(lopsided)
    many = bf.point(lopsided, state, "stick", np.array([P, (0, 0, 0)]))
    np.testing.assert_allclose(many.position[1], [1, 2, 3], atol=1e-14)
    states = jax.tree.map(lambda x: jnp.stack([x, x]), state)
    each = jax.vmap(lambda s: bf.point(lopsided, s, "stick", P))(states)
    np.testing.assert_allclose(each.velocity[1], many.velocity[0], atol=1e-14)
    with pytest.raises(ValueError, match=r"point: state.p_WB has shape \(2, 1, 3\).*vmap"):
        bf.point(lopsided, states, "stick", P)


def test_gradients_of_a_point_are_central_differences(lopsided):
    state = bf.rest(lopsided)

    def f(density, v, p_B):
        model = bf.replace(lopsided, density={"stick/0": density})
        at = bf.point(model, bf.replace(model, state, v_WB={"stick": v}), "stick", p_B)
        return jnp.sin(at.position).sum() + jnp.sin(at.velocity).sum()

    at = (jnp.asarray(500.0), jnp.array([1.0, 0, 2]), jnp.array(P))
    check_grads(f, at, order=1, modes=("rev", "fwd"), eps=1e-5, rtol=1e-6)
