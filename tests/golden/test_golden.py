"""What should not change does not: trajectories and gradients as stored, to rounding and what it grows to."""

import json

import numpy as np
import pytest
from golden.measure import FILE, ROBOTS, SOLVERS, measure

GOLDEN = json.loads(FILE.read_text("utf-8"))
LARGE = {"dog", "quadruped17", "struck_chain"}
"""Slow to compile by interior point"""

CASES = [
    pytest.param(robot, solver, marks=[pytest.mark.slow] if robot in LARGE and solver != "PGS" else [])
    for robot in ROBOTS
    for solver in SOLVERS
]


@pytest.mark.parametrize(("robot", "solver"), CASES)
def test_robot_moves_as_it_did(robot: str, solver: str) -> None:
    stored = GOLDEN[f"{robot}, {solver}"]
    for what, value in measure(robot, solver).items():
        want = np.array(stored[what]).reshape(value.shape)
        np.testing.assert_allclose(value, want, rtol=1e-7, atol=1e-9, err_msg=f"{what} of {robot}, {solver}")
