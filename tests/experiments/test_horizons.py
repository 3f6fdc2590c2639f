"""What gradients over a horizon are worth is measured, told, and marked."""

import numpy as np
import pytest

import backflip as bf
from backflip.experiments.certificates import horizons
from backflip.experiments.certificates.horizons import DIFFERENCES


@pytest.mark.slow
def test_a_short_trot_s_gradient_is_that_of_differences():
    [one] = horizons.compare("trotting", "20 sweeps", bf.PGS(20), (5,))
    assert one.seconds == 0.05 and one.believed
    assert one.error < 1e-5 and one.cosine > 0.999 and one.reach >= 1e-5


def row(gradient, slopes) -> horizons.Horizon:
    return horizons._beside("trotting", "a", 0.1, np.array(gradient), np.array(slopes))


def test_a_gradient_unlike_its_differences_is_marked():
    steady = np.tile([3.0, 4.0], (len(DIFFERENCES), 1))
    right, wrong = row([3.0, 4.0], steady), row([0.0, 4.0], steady)
    assert right.believed and right.norm == 5 and right.error == 0 and right.reach == DIFFERENCES[0]
    assert not wrong.believed and wrong.error == 0.6 and wrong.reach == 0
    assert horizons.table([vars(right)]).endswith("| trotting, 0.1 s | 5, 0e+00, 1e-02 |")
    assert horizons.table([vars(wrong)]).endswith("| trotting, 0.1 s | 4, 6e-01, 0e+00 ✗ |")


def test_differences_that_agree_at_no_step_are_put_in_brackets():
    wild = 10.0 ** np.arange(len(DIFFERENCES))[:, None] * [3.0, 4.0]
    assert "(" in horizons.table([vars(row([3.0, 4.0], wild))])
