"""Recorded problems are those of the steps, and the table tells how well they are solved."""

import json

import jax
import numpy as np

import backflip as bf
from backflip.experiments.certificates import problems, solver_table
from backflip.experiments.certificates.problems import SCENES, Scene

ARM = next(scene for scene in SCENES if scene.name == "an arm against its stop")


def test_every_step_s_problem_is_recorded_in_float32():
    [found] = problems.record((ARM,), 0.01, bf.PGS(20), 5)
    rows, delassus, velocity = found
    assert velocity.shape == (5, rows.layout.rows) and velocity.dtype == np.float32
    assert delassus.factor.shape[:2] == velocity.shape
    assert (rows.initial_impulse[0] == 0).all() and (rows.initial_impulse[1:] != 0).any()


def test_recording_changes_nothing():
    scheme = bf.Scheme(0.01, problems.Recorder(bf.PGS(20), lambda problem: None))
    model = ARM.model()
    with bf.backend("xla"):
        told = bf.step(scheme, model, bf.rest(model), np.array([0.1, 0.2]))
        plain = bf.step(bf.Scheme(0.01, bf.PGS(20)), model, bf.rest(model), np.array([0.1, 0.2]))
    assert jax.tree.all(jax.tree.map(lambda a, b: np.allclose(a, b, atol=1e-12), told, plain))


def test_a_table_of_residuals_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(solver_table, "TIMES", (0.01,))
    quick = {"60 sweeps": bf.PGS(60), "1 sweep": bf.PGS(1)}
    monkeypatch.setattr(solver_table, "solvers", lambda: quick)
    text = solver_table.write_table(tmp_path, [ARM], steps=6)
    stored = json.loads((tmp_path / "solvers.json").read_text("utf-8"))["scenes"]
    assert [row["scene"] for row in stored] == [ARM.name, "all"] and stored[0]["problems"] == 6
    many, one = (stored[0]["solvers"][name] for name in quick)
    assert many["median"] <= many["p90"] <= many["p99"] <= many["max"]
    assert many["max"] < 1e-3 < one["max"] and many["solved"] > one["solved"]
    assert text.startswith("| scene | problems | nobody solves | 60 sweeps | 1 sweep |")


def test_what_nobody_solves_is_counted():
    part = {"a": np.array([1e-6, 1.0, np.inf]), "anybody": np.array([1e-6, 1e-6, 1.0])}
    row = solver_table.summary("scene", [part, part])
    assert row["problems"] == 6 and row["unsolved"] == 2 and row["solvers"]["a"]["max"] == np.inf


def test_every_scene_has_a_name_and_controls_that_fit():
    assert len({scene.name for scene in SCENES}) == len(SCENES)
    for scene in SCENES[10:]:
        assert isinstance(scene, Scene)
        assert scene.controls(0.01 * np.arange(7)).shape == (7, scene.model().controls)
