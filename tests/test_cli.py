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
    output = last_json(capsys)
    assert output == json.loads(Path("runs/toss.json").read_text())
    assert output["seed"] == 3 and output["evaluations"] == 2 and output["error"] == 0.25
    assert output["revision"] and output["seconds"] >= 0 and output["versions"]["jax"]
    assert Path("runs/toss", *output["files"]).is_file()


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
    output = capsys.readouterr().err
    assert "runs/toss.partial.json" in output and "--resume runs/toss" in output
    assert "Traceback" not in output
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
    output = capsys.readouterr().err
    assert "Did you mean 'toss'?" in output and "Known: toss." in output


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

    output: dict[str, str] = {}
    monkeypatch.setattr(jax.config, "update", output.__setitem__)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("BACKFLIP_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cli._cache_compilations()
    assert output == {"jax_compilation_cache_dir": str(tmp_path / "backflip" / "xla")}
    assert (tmp_path / "backflip" / "xla").stat().st_mode & 0o777 == 0o700


def test_a_failed_write_leaves_the_old_result(tmp_path) -> None:
    path = tmp_path / "a.json"
    save_result(path, "a", {"error": 1.0}, seed=0, seconds=0.0)
    before = path.read_text()
    with pytest.raises((TypeError, ValueError)):
        save_result(path, "a", {("not", "a key"): 1.0}, seed=0, seconds=0.0)
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


def test_revision_is_a_hash_or_unknown() -> None:
    output = revision()
    assert output == "unknown" or (len(output) == 40 and int(output, 16) >= 0)
