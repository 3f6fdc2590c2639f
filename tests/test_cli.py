"""The command line, tried with a made-up experiment."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from backflip import cli, experiments
from backflip.experiments.base import Claim, Progress, read_result, revision, save_result
from backflip.storage import load_weights, save_weights


def run_well(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict:
    with progress.task("throwing", total=2) as task:
        task.advance(error=0.5)
        task.advance(error=0.25)
    (out / "curve.txt").write_text("1 2 3")
    return {"evaluations": np.int64(2), "error": jnp.float32(0.25), "files": ["curve.txt"]}


def run_until_stopped(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict:
    with progress.task("throwing") as task:
        task.advance(error=0.5, evaluations=7)
        raise KeyboardInterrupt


def verify_curve(out: Path) -> list[Claim]:
    read_result(out.parent / "toss.json")["seed"]
    curve = (out / "curve.txt").read_text()
    return [Claim("toss", "the curve is kept", "1 2 3", curve, np.bool_(curve == "1 2 3"))]


@pytest.fixture
def toss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """An experiment called toss, alone in the register; the current folder is a fresh one."""
    module = ModuleType("backflip.experiments.toss.toss")
    vars(module).update(NAME="toss", SUMMARY="Toss a coin.", run=run_well, verify=verify_curve)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(experiments, "NAMES", ("toss",))
    monkeypatch.setattr(experiments, "FOLDERS", {"toss": "toss"})
    monkeypatch.setattr(cli, "_cache_compilations", lambda: None)
    monkeypatch.chdir(tmp_path)
    return module


def last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_run_keeps_the_result_and_what_is_needed_to_trace_it(toss, capsys) -> None:
    assert cli.main(["run", "toss", "--seed", "3", "--json"]) == 0
    told = last_json(capsys)
    assert told == json.loads(Path("runs/toss.json").read_text())
    assert told["seed"] == 3 and told["evaluations"] == 2 and told["error"] == 0.25
    assert told["revision"] and told["seconds"] >= 0 and told["versions"]["jax"]
    assert Path("runs/toss", *told["files"]).is_file()


def test_json_is_all_that_stdout_has(toss, capsys) -> None:
    cli.main(["run", "toss", "--json"])
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_run_all_runs_every_experiment(toss, capsys) -> None:
    assert cli.main(["run", "all", "--json", "--out", "elsewhere"]) == 0
    assert [record["name"] for record in last_json(capsys)["results"]] == ["toss"]
    assert Path("elsewhere/toss.json").is_file()


def test_verify_passes_after_a_run(toss, capsys) -> None:
    cli.main(["run", "toss"])
    assert cli.main(["verify", "--json", "--out", "runs"]) == 0
    claim = {"name": "toss", "claim": "the curve is kept", "asked": "1 2 3", "measured": "1 2 3", "ok": True}
    assert last_json(capsys) == {"ok": True, "claims": [claim]}


def test_verify_fails_when_a_file_was_changed(toss, capsys) -> None:
    cli.main(["run", "toss"])
    Path("runs/toss/curve.txt").write_text("1 2 4")
    assert cli.main(["verify", "toss", "--json", "--out", "runs"]) == 1
    assert last_json(capsys)["ok"] is False


def test_verify_fails_when_nothing_was_run(toss, capsys) -> None:
    Path("results").mkdir()
    assert cli.main(["verify"]) == 1
    assert "FAILED toss" in capsys.readouterr().out


def test_an_interrupted_run_leaves_its_figures_and_says_where(toss, capsys) -> None:
    toss.run = run_until_stopped
    assert cli.main(["run", "toss"]) == 130
    partial = json.loads(Path("runs/toss.partial.json").read_text())
    assert partial["interrupted"] and partial["evaluations"] == 7
    told = capsys.readouterr().err
    assert "runs/toss.partial.json" in told and "--resume runs/toss" in told
    assert "Traceback" not in told
    assert not Path("runs/toss.json").exists()


def test_an_interrupted_run_does_not_touch_an_earlier_result(toss) -> None:
    cli.main(["run", "toss"])
    before = Path("runs/toss.json").read_text()
    toss.run = run_until_stopped
    cli.main(["run", "toss"])
    assert Path("runs/toss.json").read_text() == before


@pytest.mark.parametrize("command", ["run", "verify"])
def test_an_unknown_name_is_answered_with_the_known_ones(toss, capsys, command: str) -> None:
    assert cli.main([command, "tos"]) == 2
    told = capsys.readouterr().err
    assert "Did you mean 'toss'?" in told and "Known: toss." in told


def test_resuming_from_nowhere_is_refused(toss, capsys) -> None:
    assert cli.main(["run", "toss", "--resume", "nowhere"]) == 2
    assert "nowhere: there is no such folder" in capsys.readouterr().err


def test_list_tells_names_and_summaries(toss, capsys) -> None:
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().out == "toss  Toss a coin.\n"


def test_viewing_a_missing_file_is_refused(capsys) -> None:
    assert cli.main(["view", "missing.html"]) == 2
    assert "missing.html: there is no such file" in capsys.readouterr().err


def test_viewing_a_folder_opens_its_page_or_names_them(tmp_path, monkeypatch, capsys) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: not opened.append(address))
    assert cli.main(["view", str(tmp_path)]) == 2
    assert f"{tmp_path}: a folder with no page" in capsys.readouterr().err
    (tmp_path / "replay.html").touch()
    assert cli.main(["view", str(tmp_path)]) == 0
    assert opened == [(tmp_path / "replay.html").as_uri()]
    (tmp_path / "another.html").touch()
    assert cli.main(["view", str(tmp_path)]) == 2
    assert "name one of another.html, replay.html" in capsys.readouterr().err


def test_help_needs_no_jax() -> None:
    code = (
        "import sys\n"
        "from backflip.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert 'jax' not in sys.modules, 'importing backflip.cli imports jax'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_compilations_are_kept_in_a_folder_of_the_user_alone(tmp_path, monkeypatch) -> None:
    import jax

    told: dict[str, str] = {}
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("BACKFLIP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cli._cache_compilations()
    assert told == {"jax_compilation_cache_dir": str(tmp_path / "backflip" / "xla")}
    assert (tmp_path / "backflip" / "xla").stat().st_mode & 0o777 == 0o700


def test_a_failed_write_leaves_the_old_result(tmp_path) -> None:
    path = tmp_path / "a.json"
    save_result(path, "a", {"error": 1.0}, seed=0, seconds=0.0)
    before = path.read_text()
    with pytest.raises((TypeError, ValueError)):
        save_result(path, "a", {("not", "a key"): 1.0}, seed=0, seconds=0.0)
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


def test_revision_is_a_hash_or_unknown() -> None:
    told = revision()
    assert told == "unknown" or (len(told) == 40 and int(told, 16) >= 0)


def test_weights_come_back_as_they_went(tmp_path) -> None:
    tree = {"layers": [{"w": jnp.arange(6.0).reshape(2, 3), "act": jnp.tanh}], "b": jnp.ones(2)}
    empty = {"layers": [{"w": jnp.zeros((2, 3)), "act": jnp.tanh}], "b": jnp.zeros(2)}
    back = load_weights(save_weights(tmp_path / "w.npz", tree), empty)
    assert (back["layers"][0]["w"] == tree["layers"][0]["w"]).all() and (back["b"] == 1).all()
    assert back["layers"][0]["act"] is jnp.tanh


def test_weights_that_do_not_fit_are_refused_by_name(tmp_path) -> None:
    path = save_weights(tmp_path / "w.npz", {"w": jnp.ones(2)})
    with pytest.raises(ValueError, match=r"\['w'\] has shape \(2,\); \(3,\) is wanted"):
        load_weights(path, {"w": jnp.ones(3)})
    with pytest.raises(ValueError, match="names do not fit"):
        load_weights(path, {"v": jnp.ones(2)})


def test_weights_that_would_run_code_are_refused(tmp_path) -> None:
    np.savez(tmp_path / "w.npz", **{"['w']": np.array([print], dtype=object)}, allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        load_weights(tmp_path / "w.npz", {"w": jnp.ones(1)})
