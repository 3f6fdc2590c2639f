"""The committed throws still land, and the search still finds one: in float32, as the command runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backflip.experiments.ball import ball

ROOT = Path(__file__).parents[2]

SCRIPT = """
import json
import numpy as np
from backflip.experiments.ball import ball
setup = ball.problem(1)
throws = np.array(json.load(open("results/ball.json"))["throws"])
misses = [np.asarray(setup.slopes(ball._single(t))[0], float) for t in throws]
search = ball.by_gradient(setup, 3)
print(json.dumps([[ball.landed(m) for m in misses], search.converged, search.evaluations]))
"""


def test_stored_throws_land_and_the_search_finds_one_again():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    hits, converged, iterations = json.loads(done.stdout.splitlines()[-1])
    assert all(hits) and len(hits) == ball.SEEDS
    assert converged and iterations <= 40


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    search = ball.Search(np.arange(6.0), 3, 0.5, True, [3.0, 1.0, 0.001])
    ball._save_partial(tmp_path, {"gradient 0": search})
    again = ball._load_partial(tmp_path)["gradient 0"]
    assert np.array_equal(again.throw, search.throw) and again[1:] == search[1:]


def test_resuming_from_an_empty_folder_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing to resume"):
        ball._load_partial(tmp_path)
