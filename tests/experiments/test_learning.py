"""The committed controllers still do what their results say: in float32, as the command runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ARM = """
import json
import backflip as bf
from backflip.experiments import arm_fixed as task
policy = bf.load_weights("results/arm-fixed/weights-0.npz", task.network(0))
found = task.measure(task.problem(), policy)
print(json.dumps([found.error, found.fine_error, found.audit.ok]))
"""

GAIT = """
import json
import backflip as bf
from backflip.experiments import gait as task
policy = bf.load_weights("results/gait/weights-0.npz", task.network(0))
found = task.measure(task.problem(), lambda fine: task.controls(policy, fine))
print(json.dumps([found.speed, found.fine_speed, found.upright, found.audit.penetration]))
"""


def measured(script: str) -> list:
    flags = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=flags, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def record(name: str) -> dict:
    return json.loads((ROOT / f"results/{name}.json").read_text("utf-8"))


def test_the_stored_arm_reaches_its_target_with_both_time_steps():
    error, fine, honest = measured(ARM)
    assert error == pytest.approx(record("arm-fixed")["errors"][0], abs=2e-3)
    assert error <= 0.01 and fine <= 0.01 and honest


def test_the_arm_learned_as_fast_as_asked():
    told = record("arm-fixed")
    assert sorted(told["evaluations_to_4_cm"])[2] <= 60 and sorted(told["evaluations_to_1_cm"])[2] <= 100
    assert told["seconds_per_update"] <= 0.1
    assert told["cma_error"] > 0.01 and told["printed_torque_error"] > 0.1


def test_the_stored_gait_runs_upright_above_the_trot_tuned_by_hand():
    speed, _, upright, depth = measured(GAIT)
    assert speed > record("gait")["trot_by_hand"]["speed"]
    assert upright > 0.8 and depth <= 5e-3
