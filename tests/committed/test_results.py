"""What the committed results say, held against what was asked for.

These tests read files and simulate nothing: they fail when a result is missing, incomplete or too bad, and
never because the engine has changed. `backflip verify` measures the same claims from the same files, and
the tests in tests/experiments measure a part of them.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from backflip.experiments import NAMES
from backflip.experiments.ball import ball
from backflip.experiments.bench.claims import claims
from backflip.experiments.bench.plan import FULL
from backflip.experiments.quadruped import identify_robot, robot_runs

RESULTS = Path(__file__).parents[2] / "results"
LONG = ("upper long inertia", "lower long inertia")


def record(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_result_that_can_be_traced(name):
    result = record(name)
    assert result["name"] == name and len(result["revision"]) == 40 and result["versions"]["jax"]
    assert all((RESULTS / name / file).is_file() for file in result["files"])


def test_every_throw_was_found_faster_than_by_cma():
    result = record("ball")
    assert result["converged"] == ball.SEEDS and np.median(result["iterations"]) <= 40
    assert result["times_faster"] >= 5


def test_the_arm_learned_as_fast_as_asked():
    result = record("arm-fixed")
    assert sorted(result["evaluations_to_4_cm"])[2] <= 60 and sorted(result["evaluations_to_1_cm"])[2] <= 100
    assert result["seconds_per_update"] <= 0.1
    assert result["cma_error"] > 0.01 and result["printed_torque_error"] > 0.1


def test_the_arm_learned_to_reach_targets_that_it_never_saw():
    result = record("arm-random")
    assert sorted(result["unseen_errors"])[2] <= 0.02
    assert sorted(result["updates_to_10_cm"])[2] <= 200 and sorted(result["updates_to_5_cm"])[2] <= 800


def test_the_gait_is_as_fast_as_asked_with_both_time_steps():
    result = record("gait")
    assert sorted(result["speeds"])[2] >= 1.3 and sorted(result["speeds_at_quarter_step"])[2] >= 1.3
    assert result["evaluations"] <= 500


def test_the_lifelike_gait_never_fell():
    result = record("gait-lifelike")
    assert min(result["slowest"]) >= 0.8
    assert max(result["falls"]) == max(result["falls_at_quarter_step"]) == 0


def test_a_quadruped_with_sensors_did_not_fall_where_the_open_loop_did():
    result = record("gait-sensors")
    for kind in ("elman", "lstm"):
        assert sorted(result[kind]["falls"])[2] == sorted(result[kind]["at_quarter_step"]["falls"])[2] == 0
    assert sorted(result["gait_lifelike"]["falls"])[2] > 0


def test_the_mass_of_every_chain_was_found_from_every_guess():
    result = record("chain-mass")
    assert set(result["updates_from_1_kg"]) == {"2", "5", "10", "20"}
    assert max(result["updates_from_1_kg"].values()) <= 15 and result["error"] <= 0.01
    for counts in result["updates_from_other_guesses"].values():
        assert len(counts) == 10 and max(counts) <= 15


def test_all_parameters_of_a_chain_were_found_at_once():
    for chain in record("chain-mass")["all_at_once"].values():
        assert max(chain[k] for k in ("worst_mass_error", "friction_error", "restitution_error")) <= 0.01
        assert chain["findings"] == []


def test_chains_were_a_hundred_times_faster_than_the_authors_engine():
    assert min(record("chain-mass")["times_faster_at_10_links"].values()) >= 100


@pytest.mark.parametrize("group", identify_robot.GROUPS)
def test_constants_of_the_robot_were_recovered(group):
    rows = record("identify-robot")["table"]
    assert identify_robot.worst(rows, *identify_robot.GROUPS[group]) <= 0.05


def test_half_of_all_constants_were_within_2_percent_of_guesses_far_off():
    result = record("identify-robot")
    rows = result["table"]
    assert {row["name"] for row in rows} == set(identify_robot._flat(robot_runs.truth())) - set(LONG)
    assert np.median([row["error"] for row in rows]) <= 0.02
    assert min(row["guess_error"] for row in rows) >= 0.15 - 1e-9
    errors = [row["standard_error"] for row in rows if row["name"] != "torso mass"]
    assert max(errors) < 0.05 and result["findings"] == []


def test_what_the_robots_sensors_cannot_tell_was_named():
    result = record("identify-robot")["all_free"]
    assert any("torso mass" in finding for finding in result["findings"])
    assert all((result["standard_errors"][name] or np.inf) > 0.3 for name in LONG)


def test_the_bench_made_every_claim():
    result = record("bench")
    wanted = [claim.name for claim in claims({}, FULL.many, FULL.wide)]
    assert [claim["name"] for claim in result["claims"]] == wanted
    assert not any(claim["measured"] == "not measured" for claim in result["claims"])
    assert result["machine"]["cpu"]
    assert all((RESULTS / "bench" / file).is_file() for file in result["files"])
