"""Spheres, capsules and planes where the answer is known."""

import numpy as np
from scenes import one, turn

from backflip.geometry import ABSENT

I, O = np.eye(3), np.zeros(3)
LYING = turn(0, np.pi / 2, 0)  # takes z to x


def test_sphere_on_a_tilted_plane_touches_along_the_plane_normal():
    R = turn(0.3, 0.2, 0)
    touch = one(("plane", "sphere"), O, O, R, (0.5, 0, 0), R @ [0.1, 0.2, 0.4], I)
    np.testing.assert_allclose(touch.gap, [-0.1])
    np.testing.assert_allclose(touch.normal[0], R[:, 2])
    np.testing.assert_allclose(touch.point[0], R @ [0.1, 0.2, -0.05], atol=1e-12)


def test_capsule_lying_on_a_plane_rests_on_both_ends():
    touch = one(("plane", "capsule"), O, O, I, (0.1, 1, 0), (0, 0, 0.1), LYING)
    np.testing.assert_allclose(touch.gap, 0, atol=1e-12)
    np.testing.assert_allclose(np.sort(touch.point[:, 0]), [-0.5, 0.5])


def test_box_on_its_corner_has_the_lowest_corner_among_its_four():
    R = turn(0.9, -0.4, 0.2)
    touch = one(("plane", "box"), O, O, I, (1, 2, 0.5), (0, 0, 1), R)
    lowest = 1 - np.abs(R[2] * [0.5, 1, 0.25]).sum()
    np.testing.assert_allclose(touch.gap.min(), lowest)


def test_sphere_inside_a_box_leaves_by_the_nearest_face():
    touch = one(("sphere", "box"), (0.1, 0, 0), (0, 0.3, 0.1), I, (1, 1, 1), O, I)
    np.testing.assert_allclose(touch.gap, [-0.3])
    np.testing.assert_allclose(touch.normal[0], [0, -1, 0])
    np.testing.assert_allclose(touch.point[0], [0, 0.35, 0.1])


def test_parallel_capsules_rest_on_the_ends_of_what_they_share():
    touch = one(("capsule", "capsule"), (0.1, 1, 0), O, LYING, (0.1, 1, 0), (0.4, 0, 0.2), LYING)
    np.testing.assert_allclose(touch.gap, 0, atol=1e-12)
    np.testing.assert_allclose(touch.normal, [[0, 0, 1]] * 3, atol=1e-12)
    np.testing.assert_allclose(np.sort(touch.point[:, 0]), [-0.1, 0.2, 0.5])


def test_crossing_capsules_touch_in_one_point():
    across = turn(np.pi / 2, 0, 0)
    touch = one(("capsule", "capsule"), (0.1, 1, 0), O, LYING, (0.1, 1, 0), (0.3, -0.2, 0.25), across)
    np.testing.assert_allclose(touch.gap, [0.05, ABSENT, ABSENT], atol=1e-12)
    np.testing.assert_allclose(touch.point[0], [0.3, 0, 0.125], atol=1e-12)


def test_short_capsule_on_a_box_rests_on_its_ends():
    touch = one(("capsule", "box"), (0.1, 0.4, 0), (0.1, 0.2, 0.6), LYING, (1, 1, 1), O, I)
    np.testing.assert_allclose(touch.gap, 0, atol=1e-12)
    np.testing.assert_allclose(touch.normal, [[0, 0, -1]] * 3, atol=1e-12)
    np.testing.assert_allclose(np.sort(touch.point[:, 0]), [-0.1, 0.1, 0.3])


def test_long_capsule_lies_across_a_box_like_a_beam():
    touch = one(("capsule", "box"), (0.1, 4, 0), (0.3, 0.2, 0.6), LYING @ turn(0, 1e-5, 0), (1, 1, 1), O, I)
    np.testing.assert_allclose(touch.gap, 0, atol=1e-4)
    np.testing.assert_allclose(np.sort(touch.point[:, 0]), [-0.5, 0, 0.5], atol=1e-4)


def test_capsule_standing_on_a_box_touches_with_its_end():
    touch = one(("capsule", "box"), (0.1, 1, 0), (0.2, 0, 1.1), turn(0.3, 0, 0), (1, 1, 1), O, I)
    end = 1.1 - 0.5 * np.cos(0.3) - 0.1 - 0.5
    np.testing.assert_allclose(touch.gap[0], end)
    np.testing.assert_allclose(touch.gap.min(), end)


def test_capsule_crossing_an_edge_touches_it_where_it_crosses():
    # the core slopes down along (1, 0, −1), yawed, and passes the edge x = z = 0.5 at distance 0.2
    R = turn(0, 3 * np.pi / 4, 0) @ turn(0.5, 0, 0)
    c = np.array([0.5, 0.1, 0.5]) + 0.2 * np.array([1, 0, 1]) / np.sqrt(2)
    touch = one(("capsule", "box"), (0.25, 1, 0), c, R, (1, 1, 1), O, I)
    np.testing.assert_allclose(touch.gap[0], -0.05, atol=1e-12)
    np.testing.assert_allclose(touch.normal[0], np.array([-1, 0, -1]) / np.sqrt(2), atol=1e-12)
    np.testing.assert_allclose(touch.point[0], c + touch.normal[0] * 0.225, atol=1e-12)
