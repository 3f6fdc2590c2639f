"""The gradient matrix: a part of it measured anew."""

import numpy as np
import pytest

from backflip.experiments.certificates.gradients import (
    CASES,
    DIFFERENCES,
    TOLERANCE,
    Case,
    compare,
    plateau,
)


# one test per case, since both lengths share its compiled programs
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name.replace(" ", "-")) for case in CASES])
def test_both_modes_agree_with_differences(case: Case) -> None:
    for steps in (1, 10):
        cell = compare(case, steps)
        assert cell.happens, f"{case.name} does not happen within {steps} steps"
        assert cell.error <= TOLERANCE, f"{steps} steps: {cell.leaf} is off by {cell.error:.1e}"
        print(f"{case.name}, {steps} steps: {cell.error:.1e} at {cell.leaf}")


def test_both_modes_agree_with_differences_by_interior_point() -> None:
    rolling = next(case for case in CASES if case.name == "rolling")
    cell = compare(rolling, 10, elements=4, solver="interior point")
    assert cell.happens and cell.error <= TOLERANCE, f"{cell.leaf} is off by {cell.error:.1e}"


def test_plateau_finds_the_slope_between_events_and_rounding() -> None:
    # |x − 1e-4| + x³ at 0 has slope −1: a step of 1e-3 straddles the kink
    x = np.array(DIFFERENCES)

    def f(x: np.ndarray) -> np.ndarray:
        return np.abs(x - 1e-4) + x**3

    slopes = (f(x) - f(-x)) / (2 * x)
    assert abs(slopes[0] + 1) > 0.5
    np.testing.assert_allclose(plateau(slopes[:, None]), -1, rtol=1e-8)
