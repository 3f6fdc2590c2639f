"""The gradient matrix: a part of it measured anew."""

from collections.abc import Callable

import numpy as np
import pytest

from backflip.experiments.certificates.differences import STEPS, plateau
from backflip.experiments.certificates.gradients import CASES, TOLERANCE, Case, compare


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


def central(f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Differences (k, n) of f at 0."""
    x = np.array(STEPS)[:, None]
    return (f(x) - f(-x)) / (2 * x)


def test_plateau_finds_the_slope_between_events_and_rounding() -> None:
    # |x − 1e-4| + x³ at 0 has slope −1: a step of 1e-3 straddles the kink
    slopes = central(lambda x: np.abs(x - 1e-4) + x**3)
    assert abs(slopes[0, 0] + 1) > 0.5
    np.testing.assert_allclose(plateau(slopes), -1, rtol=1e-8)


def test_plateau_finds_the_slope_where_the_curvature_jumps() -> None:
    # x + 10 x |x| with rounding: no step is good enough by itself
    noise = 1e-10 * np.random.default_rng(0).uniform(-1, 1, (len(STEPS), 100))
    slopes = central(lambda x: x + 10 * x * np.abs(x) + noise * np.sign(x))
    assert np.abs(slopes - 1).max(1).min() > 5e-5
    np.testing.assert_allclose(plateau(slopes), 1, rtol=2e-6)
