"""What should not change does not: trajectories and gradients as stored, to rounding and what it grows to."""

import json

import numpy as np
import pytest
from golden.measure import FILE, ROBOTS, SOLVERS, measure

GOLDEN = json.loads(FILE.read_text("utf-8"))
LARGE = {"dog", "quadruped17"}
"""Slow to compile by interior point"""
LARGEST = {"struck_chain"}
"""Slow by either solver"""


def _slow(robot: str, solver: str) -> bool:
    return robot in LARGEST or (robot in LARGE and solver != "PGS")


CASES = [
    pytest.param(robot, solver, marks=[pytest.mark.slow] if _slow(robot, solver) else [])
    for robot in ROBOTS
    for solver in SOLVERS
]


@pytest.mark.parametrize(("robot", "solver"), CASES)
def test_robot_moves_as_it_did(robot: str, solver: str) -> None:
    stored = GOLDEN[f"{robot}, {solver}"]
    for what, value in measure(robot, solver).items():
        want = np.array(stored[what]).reshape(value.shape)
        np.testing.assert_allclose(value, want, rtol=1e-7, atol=1e-9, err_msg=f"{what} of {robot}, {solver}")
