"""Boxes on boxes: stacks, planks, overhangs, edges."""

import numpy as np
import pytest
from scenes import collide, one, turn
from scipy.spatial.transform import Rotation

from backflip.geometry import ABSENT

I, O = np.eye(3), np.zeros(3)
BOXES = ("box", "box")


def assert_same_points(found: np.ndarray, wanted: list, atol: float = 1e-9) -> None:
    distance = np.linalg.norm(found[:, None] - np.array(wanted)[None], axis=-1)
    assert len(found) == len(wanted)
    assert (distance.min(0) < atol).all() and (distance.min(1) < atol).all(), found


@pytest.mark.parametrize("overlap", [0.0, 0.01, -0.01])
def test_equal_aligned_boxes_touch_at_four_corners(overlap):
    touch = one(BOXES, (1, 1, 1), O, I, (1, 1, 1), (0, 0, 1 - overlap), I)
    np.testing.assert_allclose(touch.gap, -overlap, atol=1e-12)
    np.testing.assert_allclose(touch.normal, [[0, 0, 1]] * 4)
    height = 0.5 - overlap / 2
    assert_same_points(touch.point, [(x, y, height) for x in (-0.5, 0.5) for y in (-0.5, 0.5)])


def test_overhanging_box_touches_at_the_corners_of_the_overlap():
    touch = one(BOXES, (1, 1, 1), O, I, (1, 1, 0.5), (0.3, -0.2, 0.75), I)
    assert_same_points(touch.point, [(x, y, 0.5) for x in (-0.2, 0.5) for y in (-0.5, 0.3)])


def test_small_box_on_or_under_a_large_one_touches_with_its_own_corners():
    corners = [(0.3 + x, 0.1 + y, 0.5) for x in (-0.1, 0.1) for y in (-0.1, 0.1)]
    on = one(BOXES, (3, 3, 1), O, I, (0.2, 0.2, 0.2), (0.3, 0.1, 0.6), I)
    under = one(BOXES, (0.2, 0.2, 0.2), (0.3, 0.1, 0.6), I, (3, 3, 1), O, I)
    for touch, z in ((on, 1), (under, -1)):
        assert_same_points(touch.point, corners)
        np.testing.assert_allclose(touch.normal, [[0, 0, z]] * 4)


@pytest.mark.parametrize("angle", [np.pi / 2, np.pi / 4, 0.7])
def test_crossed_planks_touch_at_the_corners_of_the_crossing(angle):
    touch = one(BOXES, (2, 0.2, 0.1), O, I, (2, 0.2, 0.1), (0, 0, 0.1), turn(0, 0, angle))
    # lines y = ±0.1 and −x sin + y cos = ±0.1
    rows = np.array([[0, 1], [-np.sin(angle), np.cos(angle)]])
    wanted = [(*np.linalg.solve(rows, [p, q]), 0.05) for p in (-0.1, 0.1) for q in (-0.1, 0.1)]
    np.testing.assert_allclose(touch.gap, 0, atol=1e-12)
    assert_same_points(touch.point, wanted)


def test_box_turned_on_its_equal_stands_on_four_points_of_the_octagon():
    touch = one(BOXES, (1, 1, 1), O, I, (1, 1, 1), (0, 0, 1), turn(0, 0, np.pi / 4))
    np.testing.assert_allclose(touch.gap, 0, atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(touch.point[:, :2], axis=-1), 0.5 / np.cos(np.pi / 8), atol=1e-9
    )
    np.testing.assert_allclose(touch.point[:, :2].mean(0), 0, atol=0.2)


def test_corner_over_a_face_touches_with_that_corner():
    R = turn(0.6, 0.5, 0.1)
    lowest = np.abs(R[2]).sum() / 2
    touch = one(BOXES, (4, 4, 1), O, I, (1, 1, 1), (0, 0, 0.5 + lowest - 0.02), R)
    np.testing.assert_allclose(touch.gap.min(), -0.02, atol=1e-12)
    np.testing.assert_allclose(touch.normal, [[0, 0, 1]] * 4, atol=1e-12)


@pytest.mark.parametrize("gap", [-0.05, 0.05])
def test_crossing_edges_touch_in_one_point(gap):
    # roof edges along x and along y, one above the other
    half = 0.5 * np.sqrt(2)
    touch = one(
        BOXES,
        (1, 1, 1),
        O,
        turn(np.pi / 4, 0, 0),
        (1, 1, 1),
        (0.1, -0.2, 2 * half + gap),
        turn(0, np.pi / 4, 0),
    )
    np.testing.assert_allclose(touch.gap, [gap, ABSENT, ABSENT, ABSENT], atol=1e-12)
    np.testing.assert_allclose(touch.normal[0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(touch.point[0], [0.1, 0, half + gap / 2], atol=1e-12)


def rocking_stack(n: int, rock: float) -> list[np.ndarray]:
    """Boxes set down on others, off centre, turned about z at random or not at all, and tilted a little."""
    rng = np.random.default_rng(0)
    size_a, size_b = rng.uniform(0.3, 1.0, (2, n, 3))
    size_b[::3] = size_a[::3]
    yaw = rng.uniform(-1, 1, n) * (np.arange(n) % 2)
    shift = rng.uniform(-0.4, 0.4, (n, 2)) * (size_a + size_b)[:, :2] / 2 * (np.arange(n) % 4 < 3)[:, None]
    tilt = Rotation.from_rotvec(rock * rng.normal(size=(n, 3))).as_matrix()
    R_WB = tilt @ Rotation.from_euler("z", yaw[:, None]).as_matrix()
    p_WB = np.concatenate([shift, (size_a + size_b)[:, 2:] / 2], -1)
    return [size_a, np.zeros((n, 3)), np.broadcast_to(I, (n, 3, 3)), size_b, p_WB, R_WB]


def area(p: np.ndarray) -> np.ndarray:
    """Area of the hull of four points (n, 4, 2) that stand around their mean."""
    r = p - p.mean(1, keepdims=True)
    order = np.argsort(np.arctan2(r[..., 1], r[..., 0]), -1)
    r = np.take_along_axis(r, order[..., None], 1)
    s = np.roll(r, -1, 1)
    return np.abs((r[..., 0] * s[..., 1] - r[..., 1] * s[..., 0]).sum(-1)) / 2


@pytest.mark.parametrize("rock", [0.0, 1e-7, 1e-5, 1e-3, 1e-2])
def test_a_stack_stands_on_most_of_the_overlap_however_it_rocks(rock):
    n = 400
    scene = rocking_stack(n, rock)
    touch = collide(BOXES, scene)
    x = np.random.default_rng(1).uniform(-1, 1, (4000, 3))[None, :, :2] * scene[0][:, None, :2] / 2
    local = np.einsum("nij,nki->nkj", scene[5][:, :2, :2], x - scene[4][:, None, :2])
    overlap = (np.abs(local) <= scene[3][:, None, :2] / 2).all(-1).mean(-1) * scene[0][:, 0] * scene[0][:, 1]
    there = touch.gap < ABSENT / 2
    assert there.all()
    assert np.abs(touch.gap).max() < 10 * rock + 1e-9
    assert (touch.normal[..., 2] > 1 - 100 * rock**2 - 1e-9).all()
    assert (area(touch.point[..., :2]) > 0.55 * overlap).all()


def test_the_four_points_keep_their_order_while_a_stack_rocks():
    n = 50
    tilts = Rotation.from_rotvec(1e-3 * np.random.default_rng(0).normal(size=(n, 3))).as_matrix()
    still = [np.broadcast_to(x, (n, *np.shape(x))) for x in ((1.0, 1, 1), O, I, (1.0, 1, 1), (0.2, 0.1, 1))]
    points = collide(BOXES, [*still, tilts]).point
    np.testing.assert_allclose(points, np.broadcast_to(points[:1], points.shape), atol=0.01)
