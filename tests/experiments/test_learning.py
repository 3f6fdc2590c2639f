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
from backflip.experiments.arm import arm_fixed as task
policy = bf.load_weights("results/arm-fixed/weights-0.npz", task.network(0))
found = task.measure(task.problem(), policy)
print(json.dumps([found.error, found.fine_error, found.audit.ok]))
"""

GAIT = """
import json
import backflip as bf
from backflip.experiments.quadruped import gait as task
policy = bf.load_weights("results/gait/weights-0.npz", task.network(0))
found = task.measure(task.problem(dt=task.OWN_DT), policy)
print(json.dumps([found.speed, found.fine_speed, found.upright, found.audit.penetration]))
"""

LIFELIKE = """
import json, jax, jax.numpy as jnp
import backflip as bf
from backflip.experiments.quadruped import gait, gait_lifelike as task, trot, walk
setup = gait.problem(dt=gait.OWN_DT)
policy = bf.load_weights("results/gait-lifelike/weights-0.npz", trot.network(0))
def one(key):
    found = walk.walk_of(setup.model, *task.walk(setup, policy, key, 20.0))
    return found.speed, found.fell, found.cost_of_transport
speed, fell, transport = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(7), 8))
print(json.dumps([float(speed.min()), bool(fell.any()), float(transport.max())]))
"""

SENSORS = """
import json
import backflip as bf
from backflip.experiments.quadruped import gait, gait_sensors as task
task.TESTED, task.LONG = 16, 10.0
policy = bf.load_weights("results/gait-sensors/lstm-0.npz", task.policy_of("lstm", 0))
[found] = task.measure(gait.problem(dt=gait.OWN_DT), [policy])
print(json.dumps([found.falls, min(found.friction)]))
"""

RANDOM = """
import json
import backflip as bf
from backflip.experiments.arm import arm_random as task
task.UNSEEN = 128
told = json.load(open("results/arm-random.json"))
policy = bf.load_weights("results/arm-random/weights.npz", task.network(told["stored_seed"]))
print(json.dumps([float(task.unseen_errors(task.problem(), policy).mean())]))
"""


def measured(script: str) -> list:
    flags = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=flags, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def record(name: str) -> dict:
    return json.loads((ROOT / f"results/{name}.json").read_text("utf-8"))


def test_the_stored_arm_reaches_its_target_with_both_time_steps():
    error, fine, physical = measured(ARM)
    assert error == pytest.approx(record("arm-fixed")["errors"][0], abs=2e-3)
    assert error <= 0.01 and fine <= 0.01 and physical


def test_the_stored_gait_runs_upright_as_fast_as_asked():
    speed, fine, upright, depth = measured(GAIT)
    assert min(speed, fine) >= 1.3 and upright > 0.8 and depth <= 5e-3


def test_the_lifelike_gait_walks_on_from_disturbed_starts():
    slowest, fell, transport = measured(LIFELIKE)
    assert slowest >= 0.8 and not fell and transport < 0.7


def test_the_stored_arm_reaches_targets_that_it_never_saw():
    assert measured(RANDOM)[0] <= 0.025


def test_a_quadruped_with_senses_walks_where_the_open_loop_falls():
    falls, lowest = measured(SENSORS)
    assert falls <= 1 and lowest < 0.6
