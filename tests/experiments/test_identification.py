"""What identification was asked for, held against its committed results; and its small parts."""

import json
from pathlib import Path

import numpy as np
import pytest

from backflip.experiments.chain import chain_mass
from backflip.experiments.quadruped import identify_robot, robot_runs

ROOT = Path(__file__).parents[2]


def record(name: str) -> dict:
    return json.loads((ROOT / f"results/{name}.json").read_text("utf-8"))


def test_the_mass_of_every_chain_is_found_from_every_guess():
    told = record("chain-mass")
    assert set(told["updates_from_1_kg"]) == {"2", "5", "10", "20"}
    assert max(told["updates_from_1_kg"].values()) <= 15 and told["error"] <= 0.01
    for counts in told["updates_from_other_guesses"].values():
        assert len(counts) == 10 and max(counts) <= 15


def test_all_parameters_of_a_chain_are_found_at_once():
    for found in record("chain-mass")["all_at_once"].values():
        assert max(found[k] for k in ("worst_mass_error", "friction_error", "restitution_error")) <= 0.01
        assert found["findings"] == []


def test_chains_are_a_hundred_times_faster_than_the_authors_engine():
    assert min(record("chain-mass")["times_faster_at_10_links"].values()) >= 100


def test_arriving_means_staying():
    assert chain_mass.updates_to(np.array([1.0, 7.01, 9.0, 7.05, 7.0]), 7.0) == 4
    assert chain_mass.updates_to(np.array([7.0, 7.0]), 7.0) == 1
    assert chain_mass.updates_to(np.array([7.0, 8.0]), 7.0) is None


def test_a_resumed_run_measures_only_what_is_missing(tmp_path):
    first = chain_mass.Parts(tmp_path, False)
    assert first.keep("a", lambda: {"x": 1}) == {"x": 1} == first.keep("a", lambda: {"x": 1})
    again = chain_mass.Parts(tmp_path, True)
    assert again.keep("a", lambda: pytest.fail("measured again")) == {"x": 1}
    assert again.keep("b", lambda: {"y": 2}) == {"y": 2}


ROBOT, LONG = "identify-robot", ("upper long inertia", "lower long inertia")


@pytest.mark.parametrize("group", identify_robot.GROUPS)
def test_constants_of_the_robot_are_recovered(group):
    rows = record(ROBOT)["table"]
    assert identify_robot.worst(rows, *identify_robot.GROUPS[group]) <= 0.05


def test_half_of_all_constants_are_within_2_percent_of_guesses_far_off():
    told = record(ROBOT)
    names = {row["name"] for row in told["table"]}
    assert names == set(identify_robot._flat(robot_runs.truth())) - set(LONG)
    assert np.median([row["error"] for row in told["table"]]) <= 0.02
    assert min(row["guess_error"] for row in told["table"]) >= 0.15 - 1e-9
    told_errors = [row["standard_error"] for row in told["table"] if row["name"] != "torso mass"]
    assert max(told_errors) < 0.05 and told["findings"] == []


def test_what_the_robots_sensors_cannot_tell_is_named():
    told = record(ROBOT)["all_free"]
    assert any("torso mass" in t for t in told["findings"])
    assert all((told["standard_errors"][name] or np.inf) > 0.3 for name in LONG)


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
    feet = model.p_BS[robot_runs._feet()]
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
    rows = record(ROBOT)["table"]
    stored = identify_robot.stored_theta(rows)
    assert set(stored) == set(robot_runs.truth()) - set(identify_robot.UNSEEN)
    assert stored["torso inertia"].shape == (3,)
