"""Cylinders and hulls against everything: exact distance and depth, invariance, gradients, no NaN.

One test for each pair: compiling takes longer than all it checks.
"""

import convex
import numpy as np
import pytest
from convex import N, collide_all, moved, shifted, still_scenes
from scenes import candidates

from backflip.experiments.certificates.shapes import NEW, coal_normal, held_apart, scenes
from backflip.geometry import ABSENT, Touch

AT_RANDOM = np.arange(N) % 4 < 2
"""scenes whose two shapes are turned at random"""


def nearest(touch: Touch) -> tuple[np.ndarray, np.ndarray]:
    """Gap (n,) and normal (n, 3) of the nearest candidate."""
    at = np.arange(len(touch.gap)), touch.gap.argmin(-1)
    return touch.gap[at], touch.normal[at]


@pytest.mark.parametrize("kinds", NEW, ids="-".join)
def test_a_pair_is_exact_moves_with_its_scene_has_right_gradients_and_is_never_nan(kinds):
    scene = scenes(kinds, N, seed=1)
    rates = convex.rates_of(scene)
    touch, slope = collide_all(kinds, scene, rates)
    check_shapes(kinds, touch)
    check_gap(kinds, scene, touch)
    check_moved(kinds, scene, touch)
    check_slopes(kinds, scene, rates, touch, slope)
    for still in still_scenes(kinds, N):
        for part in collide_all(kinds, still):
            assert all(np.isfinite(x).all() for x in part)


def check_shapes(kinds, touch):
    """The promised number of candidates, and unit normals."""
    count = candidates(kinds)
    assert (touch.gap.shape, touch.normal.shape, touch.point.shape) == ((N, count), *[(N, count, 3)] * 2)
    np.testing.assert_allclose(np.linalg.norm(touch.normal, axis=-1), 1, atol=1e-12)


def check_gap(kinds, scene, touch):
    """The smallest gap is what its normal holds apart, and no normal of coal's holds more."""
    gap, normal = nearest(touch)
    rows = list(zip(*scene, strict=True))
    own = np.array([held_apart(kinds, row, n) for row, n in zip(rows, normal, strict=True)])
    np.testing.assert_allclose(gap, own, atol=2e-5)
    theirs = np.array([coal_normal(kinds, row) for row in rows])
    best = np.array([held_apart(kinds, row, n) for row, n in zip(rows, theirs, strict=True)])
    known = np.isfinite(best)
    assert known.mean() > 0.95 and (gap < 0).sum() > N / 20 and (gap > 0).sum() > N / 20
    assert (gap > best - 1e-4)[known].all()


def check_moved(kinds, scene, touch):
    gap, normal = nearest(touch)
    there, turned = nearest(collide_all(kinds, moved(scene))[0])
    # directions within MARGIN of each other may change places where things run parallel
    np.testing.assert_allclose(there, gap, atol=2e-6)
    np.testing.assert_allclose(turned[AT_RANDOM], (normal @ convex.TURN.T)[AT_RANDOM], atol=1e-5)


def check_slopes(kinds, scene, rates, here, slope):
    """Slopes are those of central differences where the mean of both sides is the middle.

    Only for turns at random: within a milliradian of parallel, places on rims and edges have none.
    """
    h = convex.STEP
    up, down = (collide_all(kinds, shifted(scene, rates, s))[0] for s in (h, -h))
    there = (here.gap < ABSENT / 2) & (up.gap < ABSENT / 2) & (down.gap < ABSENT / 2)
    there &= AT_RANDOM[:, None]
    bends = [np.abs(u + d - 2 * x) for u, d, x in zip(up, down, here, strict=True)]
    jump = np.max([x.reshape(*here.gap.shape, -1).max(-1) for x in bends], 0)
    smooth = there & (jump < 1e-8)
    assert smooth.sum() > 0.9 * there.sum()
    for ours, u, d in zip(slope, up, down, strict=True):
        np.testing.assert_allclose(ours[smooth], ((u - d) / (2 * h))[smooth], rtol=2e-4, atol=2e-4)
