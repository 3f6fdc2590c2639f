"""Rotations against scipy, inverses against numpy, and guarded functions at their worst points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jax.test_util import check_grads
from scipy.spatial.transform import Rotation

from backflip import math as bm
from backflip.solve import soften

turns = arrays(float, 3, elements=st.floats(-1, 1, allow_subnormal=False))
vectors = arrays(float, 3, elements=st.floats(-10, 10, allow_subnormal=False))
quick = settings(max_examples=50, deadline=None)
rotation_about, orthonormal = jax.jit(bm.rotation_about), jax.jit(bm.orthonormal)
rotate, relative = jax.jit(bm.rotate), jax.jit(bm.relative_rotation_vector)


def angle_between(A, B) -> float:
    return Rotation.from_matrix(np.asarray(A).T @ B).magnitude()


@quick
@given(turns)
def test_rotation_about_is_orthogonal_and_its_angle_right_to_9e_4_of_the_seventh_power(turn):
    turn = turn / max(1, np.linalg.norm(turn))
    R = np.asarray(rotation_about(turn))
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-14)
    theta = np.linalg.norm(turn)
    assert angle_between(R, Rotation.from_rotvec(turn).as_matrix()) < 9e-4 * theta**7 + 1e-7


def test_a_turn_of_a_step_is_right_to_1e_12():
    turn = np.array([0.03, -0.04, 0.02])
    np.testing.assert_allclose(rotation_about(turn), Rotation.from_rotvec(turn).as_matrix(), atol=1e-12)


@quick
@given(turns, arrays(float, (3, 3), elements=st.floats(-1e-3, 1e-3)))
def test_orthonormal_squares_the_error(turn, noise):
    R = Rotation.from_rotvec(turn).as_matrix() + noise
    before, after = (np.abs(np.asarray(X).T @ X - np.eye(3)).max() for X in (R, orthonormal(R)))
    assert after <= 3 * before**2 + 1e-15


@quick
@given(turns, turns)
def test_rotate_turns_in_the_world_and_relative_rotation_finds_the_sine_of_it(turn, start):
    turn = turn / 2
    R = Rotation.from_rotvec(start).as_matrix()
    turned = rotate(turn, R)
    np.testing.assert_allclose(turned, Rotation.from_rotvec(turn).as_matrix() @ R, atol=3e-4)
    theta = np.linalg.norm(turn)
    sine = turn * np.sinc(theta / np.pi)
    np.testing.assert_allclose(relative(R, turned), sine, atol=3e-4)


@pytest.mark.parametrize("n", range(1, 7))
def test_whiten_is_a_lower_root_of_the_inverse(n):
    G = np.random.default_rng(n).normal(size=(20, n, n))
    A = G @ np.swapaxes(G, -1, -2) + 0.1 * np.eye(n)
    W = jax.jit(bm.whiten)(A)
    np.testing.assert_allclose(bm.transpose(W) @ W, np.linalg.inv(A), rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(jnp.triu(W, 1), 0)


def test_symmetric_products_are_those_of_numpy_and_so_are_their_derivatives():
    random = np.random.default_rng(0)
    A, R, B = random.normal(size=(2, 4, 5)), random.normal(size=(2, 3, 4)), random.normal(size=(2, 4, 4))
    B = B + B.swapaxes(-1, -2)
    np.testing.assert_allclose(bm.gram(A), A @ A.swapaxes(-1, -2), atol=1e-14)
    np.testing.assert_allclose(bm.turned(R, B), R @ B @ R.swapaxes(-1, -2), atol=1e-14)
    check_grads(bm.gram, (A,), 1, atol=1e-8, rtol=1e-8)
    check_grads(lambda R, half: bm.turned(R, half + bm.transpose(half)), (R, B), 1, atol=1e-8, rtol=1e-8)


@quick
@given(turns, arrays(float, (3, 3), elements=st.floats(-1e-3, 1e-3)))
def test_orthonormal_has_the_derivative_of_differences(turn, noise):
    R = Rotation.from_rotvec(turn).as_matrix() + noise
    check_grads(orthonormal, (R,), 1, eps=1e-5, atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("scale", [1e-16, 1e-13, 1.0, 1e13])
def test_inverse3_and_its_gradient_keep_to_the_range_of_float32(scale):
    A = (scale * np.array([(2.0, 0.1, 0.3), (0.1, 1.0, 0.2), (0.3, 0.2, 3.0)])).astype("float32")
    found, pull = jax.vjp(bm.inverse3, jnp.asarray(A))
    wanted = np.linalg.inv(A.astype(float))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    # d(A⁻¹) = −A⁻¹ dA A⁻¹
    slope = -wanted.T @ np.ones((3, 3)) @ wanted.T
    np.testing.assert_allclose(
        pull(jnp.ones((3, 3), "float32"))[0], slope, rtol=1e-4, atol=1e-5 * np.abs(slope).max()
    )


def test_inverse3_needs_no_symmetry():
    A = np.random.default_rng(0).normal(size=(20, 3, 3)) + 3 * np.eye(3)
    np.testing.assert_allclose(jax.jit(bm.inverse3)(A), np.linalg.inv(A), rtol=1e-9, atol=1e-12)


@quick
@given(vectors, vectors)
def test_products_are_those_of_numpy(a, b):
    np.testing.assert_allclose(bm.cross(a, b), np.cross(a, b), atol=1e-12)
    np.testing.assert_allclose(bm.skew(jnp.array(a)) @ b, np.cross(a, b), atol=1e-12)
    np.testing.assert_allclose(bm.norm(a), np.linalg.norm(a), rtol=1e-14, atol=1e-150)  # squares underflow


def test_norm_and_unit_at_zero_have_gradient_zero():
    zero = jnp.zeros(3)
    np.testing.assert_array_equal(jax.grad(bm.norm)(zero), 0)
    up = jnp.array([0.0, 0.0, 1.0])
    np.testing.assert_array_equal(bm.unit(zero, up), up)
    np.testing.assert_array_equal(jax.jacrev(bm.unit)(zero, up), 0)
    np.testing.assert_array_equal(jax.jacfwd(bm.unit)(zero, up), 0)


@pytest.mark.parametrize("small", [1e-300, 1e-160, 1e-30])
def test_unit_of_something_tiny_stays_finite(small):
    x, up = jnp.array([small, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0])
    assert np.isfinite(bm.unit(x, up)).all() and np.isfinite(jax.jacrev(bm.unit)(x, up)).all()


def test_a_division_by_nothing_is_what_was_asked_for_with_gradient_zero():
    value, slopes = jax.value_and_grad(bm.safe_divide, (0, 1))(1.0, 0.0, 1e-9, 7.0)
    assert value == 7 and slopes == (0, 0)
    np.testing.assert_allclose(bm.safe_divide(1.0, -4.0, 1e-9), -0.25)


def test_saturate_is_the_identity_within_and_the_limit_far_out():
    np.testing.assert_allclose(bm.saturate(1e-4, 1.0), 1e-4, rtol=1e-8)
    np.testing.assert_allclose(bm.saturate(jnp.array([-1e6, 1e6]), 2.0), [-2, 2])
    np.testing.assert_allclose(bm.saturate(3.0, 1e9), 3.0)
    assert jax.grad(bm.saturate)(50.0, 1.0) > 0


def test_soften_is_rigid_at_infinite_frequency_and_a_spring_at_small_steps():
    A, dt = jnp.array(0.5), 0.01
    gamma, rate = soften(jnp.array(1e9), jnp.array(1.0), A, dt)
    np.testing.assert_allclose([gamma, rate], [0, 1 / dt], atol=1e-6)
    # dt → 0: 1/γ = dt c and rate = k/c, with m = 1/A
    omega, ratio, dt = 2 * np.pi * 3.0, 0.4, 1e-7
    gamma, rate = soften(jnp.array(3.0), jnp.array(ratio), A, dt)
    np.testing.assert_allclose(1 / gamma / dt, 2 * ratio * omega / A, rtol=1e-5)
    np.testing.assert_allclose(rate, omega / (2 * ratio), rtol=1e-5)
