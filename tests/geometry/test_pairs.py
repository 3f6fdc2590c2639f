"""Every pair: distance against MuJoCo, invariance, exact gradients, no NaN anywhere."""

from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scenes import candidates, collide, compile_fast, degenerate_scene, random_scene
from scipy.spatial.transform import Rotation

from backflip.experiments.certificates.shapes import collider
from backflip.geometry import ABSENT, KINDS, PAIRS, Touch

NAMES = [(a.kind(), b.kind()) for a, b in PAIRS]
SIMPLE = [kinds for kinds in NAMES if not {"cylinder", "hull"} & set(kinds)]  # test_convex.py has the rest
EACH_PAIR = pytest.mark.parametrize("kinds", SIMPLE, ids="-".join)
CONVEX = [kinds for kinds in SIMPLE if kinds[0] != "plane"]


def mujoco_distance(kinds, scene) -> np.ndarray:
    types = {name: getattr(mujoco.mjtGeom, f"mjGEOM_{name.upper()}") for name in kinds}
    spec = mujoco.MjSpec()
    for kind in kinds:
        body = spec.worldbody.add_body()
        body.add_freejoint()
        body.add_geom(type=types[kind], size=[1, 1, 1])
    model = spec.compile()
    data = mujoco.MjData(model)
    halves = {"sphere": [1, 0, 0], "capsule": [1, 0.5, 0], "box": [0.5, 0.5, 0.5]}
    found = []
    for row in zip(*scene, strict=True):
        for k, kind in enumerate(kinds):
            size, p, R = row[3 * k : 3 * k + 3]
            model.geom_size[k], data.geom_xpos[k], data.geom_xmat[k] = size * halves[kind], p, R.ravel()
        found.append(mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None))
    return np.array(found)


def test_every_pair_of_kinds_but_two_planes_collides_in_order():
    assert set(PAIRS) == set(combinations_with_replacement(KINDS, 2)) - {(KINDS[0], KINDS[0])}


@EACH_PAIR
def test_touch_has_the_promised_number_of_candidates_and_unit_normals(kinds):
    touch = collide(kinds, random_scene(kinds, 500, seed=1))
    count = candidates(kinds)
    assert (touch.gap.shape, touch.normal.shape, touch.point.shape) == ((500, count), *[(500, count, 3)] * 2)
    np.testing.assert_allclose(np.linalg.norm(touch.normal, axis=-1), 1, atol=1e-12)


@pytest.mark.parametrize("kinds", CONVEX[:-1], ids="-".join)
def test_smallest_gap_is_the_distance_of_shapes_apart(kinds):
    scene = random_scene(kinds, 500, seed=2)
    distance = mujoco_distance(kinds, scene)
    apart = distance > 1e-3
    assert apart.sum() > 100
    np.testing.assert_allclose(collide(kinds, scene).gap.min(-1)[apart], distance[apart], atol=1e-6)


def test_gap_of_boxes_apart_is_their_distance_or_more_and_exact_but_for_near_misses():
    kinds = ("box", "box")
    scene = random_scene(kinds, 3000, seed=2)
    distance, gap = mujoco_distance(kinds, scene), collide(kinds, scene).gap.min(-1)
    apart, near = distance > 1e-3, (distance > 1e-3) & (distance < 0.03)
    assert near.sum() > 50
    assert (gap > distance - 1e-5)[apart].all()
    assert (gap < 1.05 * distance + 1e-3)[near].mean() > 0.93  # the rest pass by each other's corners


@pytest.mark.parametrize("kinds", CONVEX, ids="-".join)
def test_shapes_that_overlap_have_a_negative_gap(kinds):
    scene = random_scene(kinds, 500, seed=3, distance=0.4)
    overlap = mujoco_distance(kinds, scene) < -1e-3
    assert overlap.sum() > 100
    assert (collide(kinds, scene).gap.min(-1)[overlap] < 0).all()


@EACH_PAIR
def test_touch_moves_with_the_scene(kinds):
    scene = random_scene(kinds, 500, seed=4)
    before = collide(kinds, scene)
    Q, shift = Rotation.from_rotvec([0.3, -1.1, 0.7]).as_matrix(), np.array([0.4, -0.2, 0.9])
    moved = [scene[0], scene[1] @ Q.T + shift, Q @ scene[2], scene[3], scene[4] @ Q.T + shift, Q @ scene[5]]
    after = collide(kinds, moved)
    np.testing.assert_allclose(after.gap, before.gap, atol=1e-9)
    np.testing.assert_allclose(after.normal, before.normal @ Q.T, atol=1e-9)
    np.testing.assert_allclose(after.point, before.point @ Q.T + shift, atol=1e-9)


@pytest.mark.parametrize("kind", ["sphere", "capsule", "box"])
def test_swapping_the_two_shapes_turns_the_normal_round(kind):
    scene = random_scene((kind, kind), 500, seed=5)
    one, other = collide((kind, kind), scene), collide((kind, kind), scene[3:] + scene[:3])
    gap = one.gap.min(-1)
    same = np.abs(gap - other.gap.min(-1)) < 1e-9
    assert same.mean() > 0.98  # boxes whose axes tie within the margin may choose another
    at = (np.arange(500), one.gap.argmin(-1)), (np.arange(500), other.gap.argmin(-1))
    clear = same & (gap < ABSENT / 2)
    np.testing.assert_allclose(one.normal[at[0]][clear], -other.normal[at[1]][clear], atol=1e-9)


def directions(n: int) -> list[np.ndarray]:
    """Random rates of change of the scene: sizes, centres, and turning rates of the rotations."""
    return [np.random.default_rng(6 + k).normal(size=(n, 3)) for k in range(6)]


def shifted(scene: list, rates: list, h: float) -> list:
    turned = [Rotation.from_rotvec(h * rates[k]).as_matrix() @ scene[k] for k in (2, 5)]
    size_a, size_b = (scene[k] * (1 + h * rates[k]) for k in (0, 3))
    return [size_a, scene[1] + h * rates[1], turned[0], size_b, scene[4] + h * rates[4], turned[1]]


def tangent(scene: list, rates: list) -> list:
    spun = [np.cross(rates[k][:, None], scene[k].swapaxes(1, 2)).swapaxes(1, 2) for k in (2, 5)]
    return [scene[0] * rates[0], rates[1], spun[0], scene[3] * rates[3], rates[4], spun[1]]


@EACH_PAIR
def test_gradients_are_those_of_central_differences_at_smooth_points(kinds):
    scene, h = random_scene(kinds, 500, seed=7, distance=0.5), 1e-6
    rates = directions(500)
    arrays = (tuple(jnp.asarray(x) for x in part) for part in (scene, tangent(scene, rates)))
    _, slope = compile_fast(lambda x, dx: jax.jvp(jax.vmap(collider(kinds)), x, dx))(*arrays)
    up, down, here = (collide(kinds, shifted(scene, rates, s)) for s in (h, -h, 0))
    jump = sum(np.abs(u + d - 2 * x).reshape(500, -1).max(-1) for u, d, x in zip(up, down, here, strict=True))
    smooth = jump < 1e-8
    assert smooth.mean() > 0.9
    for ours, u, d in zip(slope, up, down, strict=True):
        np.testing.assert_allclose(
            np.asarray(ours)[smooth], ((u - d) / (2 * h))[smooth], rtol=2e-3, atol=2e-3
        )


@EACH_PAIR
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_ever_nan_where_things_coincide_touch_or_run_parallel(kinds, dtype):
    scene = [jnp.asarray(x, dtype) for x in degenerate_scene(kinds)]

    def weigh(*x):
        touch = collider(kinds)(*x)
        return sum(jnp.sin(part).sum() for part in touch), touch

    each = jax.value_and_grad(weigh, argnums=tuple(range(6)), has_aux=True)
    (_, touch), slopes = compile_fast(jax.vmap(each))(*scene)
    for x in (*touch, *slopes):
        assert x.dtype == dtype and np.isfinite(np.asarray(x)).all()
    np.testing.assert_allclose(np.linalg.norm(np.asarray(Touch(*touch).normal), axis=-1), 1, atol=1e-5)
