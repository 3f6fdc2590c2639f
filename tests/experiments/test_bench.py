"""The bench measures, survives an interruption, and claims what its figures say; no speeds are tested."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backflip import cli
from backflip.experiments.base import Progress
from backflip.experiments.bench import report
from backflip.experiments.bench import run as bench
from backflip.experiments.bench.accuracy import slip_of
from backflip.experiments.bench.claims import claims
from backflip.experiments.bench.job import ACCURACY, FIGURES, Job
from backflip.experiments.bench.machine import machine, sentence
from backflip.experiments.bench.plan import FULL, QUICK, plan
from backflip.experiments.bench.work import prepare

pytest.importorskip("mujoco")

TINY = replace(QUICK, rounds=2, links=(1, 2))
SETTING = {"size": "tiny"}
CHAIN = Job("xla", "forward", "chain 2", 3, 4)
PEERS = (Job("mujoco", "forward", "quadruped", 2, 5), Job("mujoco", "gradient", "quadruped", 1, 5))


@pytest.fixture
def book(tmp_path: Path) -> bench.Book:
    return bench.Book(tmp_path / "bench" / "measurements.json", SETTING)


def test_engines_are_sampled_in_turn_and_written_down(book):
    bench.measure([(CHAIN, *PEERS)], book, TINY, Progress(quiet=True))
    stored = json.loads(book.path.read_text("utf-8"))["found"]
    for job in (CHAIN, *PEERS):
        assert len(stored[job.name]["samples"]) == 2 and min(stored[job.name]["samples"]) > 0
        assert "failed" not in stored[job.name]
    assert stored[CHAIN.name]["compile_seconds"] > 0
    assert 0 < stored[PEERS[1].name]["gradient_norm"] < float("inf")


def test_what_the_book_has_is_not_measured_again(book, monkeypatch):
    for sample in (1.0, 2.0):
        book.add(CHAIN, sample)
    book.add(PEERS[0], 1.0)
    again = bench.Book(book.path, SETTING)
    again.read()
    started = []
    real = bench.Worker

    def note(job, *rest):
        started.append(job)
        return real(job, *rest)

    monkeypatch.setattr(bench, "Worker", note)
    bench.measure([(CHAIN, PEERS[0])], again, TINY, Progress(quiet=True))
    assert started == [PEERS[0]]
    assert again.measurements[CHAIN.name]["samples"] == [1.0, 2.0]
    assert len(again.measurements[PEERS[0].name]["samples"]) == 2


def test_a_book_of_something_else_is_refused(book):
    with pytest.raises(bench.Unable, match="nothing to resume"):
        book.read()
    book.add(CHAIN, 1.0)
    with pytest.raises(bench.Unable, match="another size"):
        bench.Book(book.path, {"size": "full"}).read()


def test_a_process_that_fails_says_why_and_the_others_go_on(book):
    broken = replace(PEERS[0], robot="nothing")
    bench.measure([(broken, PEERS[0])], book, TINY, Progress(quiet=True))
    assert "nothing.xml" in book.measurements[broken.name]["failed"]
    assert len(book.measurements[PEERS[0].name]["samples"]) == 2


def test_beside_every_speed_stands_how_well_steps_were_solved():
    found = {
        (engine, what): prepare(Job(engine, what, "quadruped", 1, 30))()[0]
        for engine in ("lanes", "newton", "mujoco")
        for what in ACCURACY
    }
    assert all(np.isfinite(x) and x >= 0 for x in found.values())
    assert found["lanes", "overlap"] < 1e-3 and found["lanes", "slip"] < 0.1
    assert found["newton", "residual"] < 1e-4 and found["newton", "slip"] < 0.1
    assert found["mujoco", "overlap"] < 1e-2 and found["mujoco", "slip"] < 0.1
    [row, *_] = report.speeds(report.Findings(made_up(FULL)), FULL)
    assert [row[what] for what in ACCURACY] == [1e-5] * 3


def test_only_standing_feet_slip():
    heights, velocities = np.array([0.0, 1e-4, 0.01]), np.array([[0.3, 0.4, 9.0], [0, 0, 9.0], [7.0, 0, 0]])
    assert slip_of(heights, velocities) == 0.25 and slip_of(heights[2:], velocities[2:]) == 0


def made_up(size) -> dict:
    """A book in which every job has figures: lanes takes 1 µs a step, Newton half, others a thousand."""
    measurements = {}
    for job in (job for race in plan(size) for job in race):
        slow = {"lanes": 1.0, "newton": 0.5}.get(job.engine, 1000.0)
        links = int(job.robot.split()[1]) if job.robot.startswith("chain") else 1
        each = 1e-6 * slow * links / job.cores * (2 if job.derives else 1)
        once = {"cold": 5.0, "warm": 2.0, "drift": 1e-4, "memory": 1e6 * job.steps**0.5}
        once |= dict.fromkeys(ACCURACY, 1e-5)
        sample = once[job.what] if job.what in FIGURES else each * job.robots * job.steps
        measurements[job.name] = {"job": vars(job), "samples": [sample] * 3, "compile_seconds": 0.1 * links}
    return measurements


def test_claims_follow_the_figures(tmp_path):
    measurements = made_up(FULL)
    answer = claims(measurements, FULL.many, FULL.wide)
    assert all(claim.ok for claim in answer), [c for c in answer if not c.ok]
    measurements[Job("lanes", "forward", "quadruped", 128, 1).name]["samples"] = [128 * 50e-6 * FULL.steps]
    wrong = {claim.name for claim in claims(measurements, FULL.many, FULL.wide) if not claim.ok}
    assert wrong == {"bench-forward-128-xla"}  # 20 times faster than XLA, asked 30
    assert {"speed.png", "chains.png", "table1.png"} == set(report.draw(tmp_path, measurements, FULL))
    assert all((tmp_path / file).stat().st_size > 1000 for file in ("speed.png", "chains.png", "table1.png"))


def test_nothing_measured_is_nothing_claimed(capsys):
    answer = claims({}, FULL.many, FULL.wide)
    assert len({c.name for c in answer}) == len(answer)
    assert not any(claim.ok for claim in answer) and all(claim.measured == "not measured" for claim in answer)
    record = report.summary({}, FULL) | {"machine": machine(), "load_average": {"before": [0, 0, 0]}}
    report.show(record, FULL)
    assert "not measured" in capsys.readouterr().out


def test_every_measurement_has_a_name_of_its_own():
    jobs = [job for race in plan(FULL) for job in race]
    assert len({job.name for job in jobs}) == len(jobs)
    assert [Job.from_json(job.to_json()) for job in jobs] == jobs


def test_the_machine_is_named():
    assert machine()["cpu"] in sentence(machine()) and machine()["cores"] >= 1


def test_the_command_prints_the_claims_and_tells_by_its_code(tmp_path, monkeypatch, capsys):
    def measure(races, book, size, progress):
        book.measurements = made_up(size)

    monkeypatch.setattr(bench, "measure", measure)
    assert cli.main(["bench", "--quick", "--json", "--out", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer.keys() == {"ok", "claims"} and answer["ok"] is True
    assert all(c.keys() == {"name", "claim", "asked", "measured", "ok"} for c in answer["claims"])
    assert json.loads((tmp_path / "bench.json").read_text("utf-8"))["claims"] == answer["claims"]
    monkeypatch.setattr(bench, "measure", lambda *_: None)
    assert cli.main(["bench", "--quick", "--json", "--out", str(tmp_path)]) == 1


def test_resuming_a_quick_run_needs_its_folder(tmp_path, capsys):
    assert cli.main(["bench", "--quick", "--resume"]) == 2
    assert cli.main(["bench", "--resume", "--out", str(tmp_path)]) == 2
    assert "nothing to resume" in capsys.readouterr().err
