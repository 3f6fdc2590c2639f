"""Identification of a chain and of a robot: one search, and the small parts of the others."""

import json
from pathlib import Path

import numpy as np
import pytest

import backflip as bf
from backflip.experiments.base import Progress
from backflip.experiments.chain import chain_mass
from backflip.experiments.quadruped import identify_robot, robot_runs

ROOT = Path(__file__).parents[2]


def test_the_mass_of_a_chain_is_found_from_two_seconds(monkeypatch):
    monkeypatch.setattr(chain_mass, "STEPS", 60)
    try:
        theta, log = chain_mass.find(2, chain_mass.FIRST, Progress(quiet=True))
    finally:
        chain_mass.unrolled.cache_clear()
    assert float(theta["mass"]) == pytest.approx(chain_mass.TRUE, rel=1e-3)
    assert chain_mass.updates_to(log.column("mass"), chain_mass.TRUE) <= 15


def test_arriving_means_staying():
    assert chain_mass.updates_to(np.array([1.0, 7.01, 9.0, 7.05, 7.0]), 7.0) == 4
    assert chain_mass.updates_to(np.array([7.0, 7.0]), 7.0) == 1
    assert chain_mass.updates_to(np.array([7.0, 8.0]), 7.0) is None


def test_a_resumed_run_measures_only_what_is_missing(tmp_path):
    first = chain_mass.Parts(tmp_path, False)
    assert first.measured("a", lambda: {"x": 1}) == {"x": 1} == first.measured("a", lambda: {"x": 1})
    again = chain_mass.Parts(tmp_path, True)
    assert again.measured("a", lambda: pytest.fail("measured again")) == {"x": 1}
    assert again.measured("b", lambda: {"y": 2}) == {"y": 2}


def test_five_seconds_are_recorded_and_every_guess_is_15_to_30_percent_off():
    u = robot_runs.targets(0)
    assert u.shape == (20, 125, 8) and u.shape[0] * u.shape[1] * robot_runs.SAMPLE == pytest.approx(5)
    assert np.array_equal(u, robot_runs.targets(0)) and identify_robot.CLOSE != robot_runs.OWN
    true, guess = robot_runs.truth(), identify_robot.data_sheet(0)
    off = np.concatenate([np.ravel(np.abs(guess[k] / true[k] - 1)) for k in true])
    assert off.min() >= 0.15 - 1e-9 and off.max() <= 0.3 + 1e-9


def test_the_true_constants_give_the_true_robot_standing_on_its_feet():
    model = robot_runs.model_of(robot_runs.truth())
    for name in ("mass", "inertia", "p_AJ", "p_BJ", "p_BS", "gain", "max_velocity", "max_torque", "damping"):
        assert np.allclose(getattr(model, name), getattr(robot_runs.robot(), name), rtol=1e-6, atol=1e-8)
    start = robot_runs.starts(model)
    feet = np.stack([bf.get(model, "p_BS", f"{leg} foot") for leg in ("fl", "fr", "bl", "br")])
    stand = robot_runs.FALLS
    lowest = start.p_WB[stand, 2::2, 2] + np.einsum("bj,bj->b", start.R_WB[stand, 2::2, 2], feet)
    assert np.allclose(lowest, 0.03, atol=1e-6)


def test_a_robot_is_weighed_whole():
    theta = {"upper mass": 1.0, "lower mass": 0.5}
    true = robot_runs.truth()
    whole = true["torso mass"] + 4 * (true["upper mass"] + true["lower mass"])
    assert identify_robot.weighed(theta) + 4 * 1.5 == pytest.approx(whole)


def test_a_search_cannot_go_on_with_another_seed(tmp_path):
    (tmp_path / "runs/seed-0").mkdir(parents=True)
    assert identify_robot._folder(tmp_path / "new", 0, tmp_path) == tmp_path / "runs/seed-0"
    with pytest.raises(FileNotFoundError, match=r"nothing to resume.*same seed"):
        identify_robot._folder(tmp_path / "new", 1, tmp_path)


def test_stored_constants_are_where_a_search_goes_on():
    rows = json.loads((ROOT / "results/identify-robot.json").read_text("utf-8"))["table"]
    stored = identify_robot.stored_theta(rows)
    assert set(stored) == set(robot_runs.truth()) - set(identify_robot.UNSEEN)
    assert stored["torso inertia"].shape == (3,)
