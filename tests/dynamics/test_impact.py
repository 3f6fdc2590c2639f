"""Time of impact and restitution of one unilateral row, against a point that falls."""

import jax.numpy as jnp
import numpy as np
import pytest

from backflip.dynamics.impact import BAUMGARTE, MAX_CORRECTION_SPEED, SLOP, impact

DT = 0.01


def of(gap, rate, rate_before=None, restitution=0.5, threshold=0.0):
    before = rate if rate_before is None else rate_before
    return impact(*map(jnp.asarray, (gap, rate, before, restitution, threshold)), DT)


@pytest.mark.parametrize("gap", [-0.004, 0.0, 0.003])
def test_a_point_in_uniform_motion_rebounds_at_its_time_of_impact(gap):
    hit = of(gap, -1.0)
    np.testing.assert_allclose([hit.target, hit.lead_time], [0.5, -gap], atol=1e-15)


def test_a_falling_point_rebounds_with_e_times_its_approach_velocity():
    g, approach, left = -9.81, -3.0, 0.007
    rate_before = approach - g * (DT - left)
    rate = rate_before + g * DT
    gap_at_end = approach * left + g * left**2 / 2
    hit = of(gap_at_end - DT / 2 * rate, rate, rate_before)
    np.testing.assert_allclose(hit.lead_time, left - DT / 2, rtol=1e-2)
    np.testing.assert_allclose(hit.target, -0.5 * approach + g * left, rtol=1e-3)


def test_a_gap_that_stays_open_may_close_by_the_end_of_the_step_and_no_faster():
    hit = of(0.02, -1.0)
    np.testing.assert_allclose([hit.target, hit.lead_time], [-0.02 / (DT / 2), 0])
    assert not hit.warm


def test_a_resting_row_has_no_impact_and_no_rebound():
    fall = -9.81 * DT
    hit = of(0.0, fall, 0.0, restitution=1.0, threshold=-fall)
    np.testing.assert_array_equal([hit.target, hit.lead_time], [0, 0])
    assert hit.warm


def test_penetration_beyond_the_slop_is_corrected_in_part_and_not_too_fast():
    shallow, deep = of(-SLOP - 0.01, 0.0), of(-SLOP - 1.0, 0.0)
    np.testing.assert_allclose(shallow.target, BAUMGARTE * 0.01 / DT)
    np.testing.assert_allclose(deep.target, MAX_CORRECTION_SPEED)
