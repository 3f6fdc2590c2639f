"""What identification was asked for, held against its committed results; and its small parts."""

import json
from pathlib import Path

import numpy as np
import pytest

from backflip.experiments import chain_mass, identify_robot

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


def test_most_constants_of_the_robot_are_nearer_than_its_data_sheet():
    told = record("identify-robot")
    nearer = [row["error"] < row["guess_error"] for row in told["table"]]
    assert len(nearer) == 14 and sum(nearer) >= 9
    assert identify_robot.worst(told["table"], "gain", "max", "friction") < 0.05
    assert told["findings_without_scales"]


def test_the_robot_is_asked_for_the_same_poses_again_and_its_data_sheet_is_a_third_off():
    u = identify_robot.targets(0)
    assert u.shape == (5, 100, 8) and np.array_equal(u, identify_robot.targets(0))
    true, guess = identify_robot.truth(), identify_robot.data_sheet(0)
    worst = max(float(np.abs(np.log(guess[k] / true[k])).max()) for k in true)
    assert 0.2 < worst <= 0.3
