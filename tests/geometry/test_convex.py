"""Cylinders and hulls against everything: exact distance and depth, invariance, gradients, no NaN."""

import convex
import numpy as np
import pytest
from convex import NEW, N, collide_all, held_apart, moved, outlines, scene_of, shifted, still_scene

from backflip.geometry import ABSENT, PAIRS

EACH_NEW = pytest.mark.parametrize("kinds", NEW, ids="-".join)
CONVEX = pytest.mark.parametrize("kinds", [k for k in NEW if k[0] != "plane"], ids="-".join)


def nearest(touch) -> tuple[np.ndarray, np.ndarray]:
    """Gap (n,) and normal (n, 3) of the nearest candidate."""
    at = np.arange(len(touch.gap)), touch.gap.argmin(-1)
    return touch.gap[at], touch.normal[at]


@EACH_NEW
def test_touch_has_the_promised_number_of_candidates_and_unit_normals(kinds):
    touch, _ = collide_all(kinds, scene_of(kinds, N, seed=1))
    count = PAIRS[kinds].count
    assert (touch.gap.shape, touch.normal.shape, touch.point.shape) == ((N, count), *[(N, count, 3)] * 2)
    np.testing.assert_allclose(np.linalg.norm(touch.normal, axis=-1), 1, atol=1e-12)


@CONVEX
def test_the_smallest_gap_is_what_its_normal_holds_apart_and_no_other_holds_more(kinds):
    scene = scene_of(kinds, N, seed=1)
    gap, normal = nearest(collide_all(kinds, scene)[0])
    rows = list(zip(*scene, strict=True))
    own = np.array([held_apart(kinds, row, n) for row, n in zip(rows, normal, strict=True)])
    np.testing.assert_allclose(gap, own, atol=1e-9)
    theirs = [convex.coal_normal(kinds, row) for row in rows]
    best = np.array([held_apart(kinds, row, n) for row, n in zip(rows, theirs, strict=True)])
    known = np.isfinite(best)
    assert known.mean() > 0.95 and (gap < 0).sum() > N / 8 and (gap > 0).sum() > N / 8
    assert (gap > best - 1e-6)[known].all()
    same = known & (np.abs(gap - best) < 1e-9)
    np.testing.assert_allclose(normal[same], np.array(theirs)[same], atol=1e-3)


@pytest.mark.parametrize("kind", ["cylinder", "hull"])
def test_over_a_plane_the_smallest_gap_is_that_of_the_lowest_point(kind):
    kinds = ("plane", kind)
    scene = scene_of(kinds, N, seed=1)
    gap = collide_all(kinds, scene)[0].gap.min(-1)
    lowest = [
        (p - o) @ R[:, 2] - convex.reach(kind, form, R_WB, -R[:, 2])
        for _, o, R, form, p, R_WB in zip(*scene, strict=True)
    ]
    np.testing.assert_allclose(gap, lowest, atol=1e-9)


@EACH_NEW
def test_touch_moves_with_the_scene(kinds):
    scene = scene_of(kinds, N, seed=1)
    (before, _), (after, _) = collide_all(kinds, scene), collide_all(kinds, moved(scene))
    gap, normal = nearest(before)
    there, turned = nearest(after)
    np.testing.assert_allclose(there, gap, atol=1e-9)
    np.testing.assert_allclose(turned, normal @ convex.TURN.T, atol=1e-5)


@EACH_NEW
def test_gradients_are_those_of_central_differences_at_smooth_points(kinds):
    scene, h = scene_of(kinds, N, seed=1), convex.STEP
    rates = convex.rates_of(scene)
    here, slope = collide_all(kinds, scene, rates)
    up, down = (collide_all(kinds, shifted(scene, rates, s))[0] for s in (h, -h))
    there = (here.gap < ABSENT / 2) & (up.gap < ABSENT / 2) & (down.gap < ABSENT / 2)
    # at a smooth point the mean of both sides is the middle
    jump = np.max([np.abs(u + d - 2 * x).reshape(*x.shape[:2], -1).max(-1) for u, d, x in zip(up, down, here, strict=True)], 0)
    smooth = there & (jump < 1e-8)
    assert smooth.sum() > 0.9 * there.sum()
    for ours, u, d in zip(slope, up, down, strict=True):
        np.testing.assert_allclose(ours[smooth], ((u - d) / (2 * h))[smooth], rtol=2e-4, atol=2e-4)


@EACH_NEW
def test_nothing_is_ever_nan_where_things_coincide_touch_or_run_parallel(kinds):
    for part in collide_all(kinds, still_scene(kinds)):
        for x in part:
            assert np.isfinite(x).all()
