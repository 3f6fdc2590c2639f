"""Volume and inertia, against sampling and against limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip.geometry import KINDS, Box, Capsule, Cylinder, Plane, Shape, Sphere

SOLIDS: list[Shape] = [Sphere(0.4), Capsule(0.3, 0.8), Box((0.4, 0.9, 1.3)), Cylinder(0.5, 0.7)]


def inside(kind: str, size: np.ndarray, x: np.ndarray) -> np.ndarray:
    if kind == "box":
        return (np.abs(x) <= size / 2).all(-1)
    if kind == "cylinder":
        return (np.hypot(x[:, 0], x[:, 1]) <= size[0]) & (np.abs(x[:, 2]) <= size[1] / 2)
    length = size[1] if kind == "capsule" else 0.0
    core = np.clip(x[:, 2], -length / 2, length / 2)
    return np.linalg.norm(x - core[:, None] * [0, 0, 1], axis=-1) <= size[0]


@pytest.mark.parametrize("shape", SOLIDS, ids=lambda s: s.kind())
def test_volume_and_inertia_are_those_of_a_cloud_of_points(shape):
    size = np.array(shape.pack())
    x = np.random.default_rng(0).uniform(-1, 1, (400_000, 3))
    kept = x[inside(shape.kind(), size, x)]
    square = (kept**2).mean(0)
    bulk = shape.bulk(jnp.array(size))
    np.testing.assert_allclose(bulk.volume, 8 * len(kept) / len(x), rtol=0.03)
    np.testing.assert_allclose(np.diag(bulk.inertia), square.sum() - square, rtol=0.03)


def test_capsule_without_length_is_a_sphere():
    size = jnp.array([0.3, 0.0, 0.0])
    for a, b in zip(Capsule.bulk(size), Sphere.bulk(size), strict=True):
        np.testing.assert_allclose(a, b)


def test_long_thin_capsule_is_a_rod():
    np.testing.assert_allclose(
        np.diag(Capsule.bulk(jnp.array([1e-6, 2.0, 0.0])).inertia)[:2], 4 / 12, rtol=1e-5
    )


@pytest.mark.parametrize("shape", SOLIDS, ids=lambda s: s.kind())
def test_slopes_are_those_of_central_differences(shape):
    size, h = jnp.array(shape.pack()), 1e-6
    slope = jax.jacobian(shape.bulk)(size)
    ups, downs = (jax.vmap(shape.bulk)(size + s * h * jnp.eye(3)) for s in (1, -1))
    for ours, up, down in zip(slope, ups, downs, strict=True):
        np.testing.assert_allclose(ours, np.moveaxis(np.asarray(up - down) / (2 * h), 0, -1), atol=1e-8)


def test_plane_has_no_volume():
    with pytest.raises(ValueError, match='"plane"'):
        Plane.bulk(jnp.zeros(3))


def test_every_shape_packs_three_numbers_and_has_a_place_in_the_order():
    for shape in [Plane(), *SOLIDS]:
        assert len(shape.pack()) == 3 and type(shape) in KINDS
