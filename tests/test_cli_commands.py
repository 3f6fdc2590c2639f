"""Every command in a short form, and what each answers when something is in its way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from backflip import cli, experiments
from backflip.experiments import running
from backflip.experiments.base import Claim, read_result
from backflip.experiments.bench import run as bench
from backflip.experiments.certificates import gradient_table, horizons, shapes, solver_table
from backflip.experiments.tables import put_table

ROOT = Path(__file__).parents[1]


def throw(out, seed, progress, resume) -> dict:
    (out / "path.png").touch()
    figures = {"evaluations": 3, "error": 0.1, "converged": 2, "iterations": [3, 3], "times_faster": 9.0}
    return figures | {"files": ["path.png"]}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """One experiment, a made-up ball, in a fresh checkout that has committed results of it."""
    ball = ModuleType("backflip.experiments.ball.ball")
    claims = [Claim("ball", "it lands", "true", "true", np.bool_(True)), Claim("ball", "so", "1", "1", True)]
    vars(ball).update(NAME="ball", SUMMARY="Throw.", run=throw, verify=lambda out: claims)
    monkeypatch.setitem(sys.modules, ball.__name__, ball)
    monkeypatch.setattr(experiments, "NAMES", ("ball",))
    monkeypatch.setattr(cli, "_cache_compilations", lambda: None)
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))  # which `gradients` adds to
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    cell = gradient_table.Cell("free flight", 1, True, 1e-7, "model.mass", 1e-7, 1e-7, 1, 1)
    monkeypatch.setattr(gradient_table, "STEPS", (1,))
    monkeypatch.setattr(gradient_table, "compare_or_fail", lambda *_: cell)
    monkeypatch.setattr(shapes, "SCENES", 4)
    monkeypatch.setattr(shapes, "NEW", shapes.NEW[:1])
    monkeypatch.setattr(solver_table, "record", lambda scenes, *_: scenes)
    monkeypatch.setattr(solver_table, "residuals", lambda _: {"20 sweeps": np.ones(1), "anybody": np.ones(1)})
    monkeypatch.setattr(horizons, "compare", lambda *_: [])
    monkeypatch.setattr(bench, "measure", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / ".gitignore", ".gitignore")
    Path("results/ball").mkdir(parents=True)
    Path("results/ball.json").write_text('{"seed": 0}')
    Path("results/ball/path.png").write_text("a picture")
    Path("page.html").touch()
    for command in ("init", "add .", "-c user.name=a -c user.email=a@b commit -m all"):
        subprocess.run(["git", *command.split()], check=True, capture_output=True)
    return ball


FREE = ("--solver", "PGS", "--case", "free flight")
COMMANDS = {
    "demo": (["demo"], 0),
    "list": (["list"], 0),
    "list --json": (["list", "--json"], 0),
    "run": (["run", "ball"], 0),
    "run --json": (["run", "ball", "--json"], 0),
    "run all --json": (["run", "all", "--json"], 0),
    "verify": (["verify"], 0),
    "verify --json": (["verify", "--json"], 0),
    "view": (["view", "page.html"], 0),
    "gradients": (["gradients", *FREE], 0),
    "shapes": (["shapes"], 0),
    "problems": (["problems"], 0),
    "horizons": (["horizons"], 0),
    "bench": (["bench", "--quick"], 1),  # nothing is measured, so no claim holds
    "bench --json": (["bench", "--quick", "--json"], 1),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_runs_and_leaves_the_checkout_clean(command, short, capsys) -> None:
    words, code = COMMANDS[command]
    if words[0] == "shapes":
        pytest.importorskip("coal")
    if words[0] == "bench":
        pytest.importorskip("mujoco")
    assert cli.main(words) == code
    if "--json" in words:
        assert isinstance(json.loads(capsys.readouterr().out.splitlines()[-1]), dict)
    changed = subprocess.run(["git", "status", "--porcelain"], check=True, capture_output=True, text=True)
    assert changed.stdout == ""


def test_every_command_is_tried_here(capsys) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out.partition("COMMAND\n")[2]
    names = [line.split()[0] for line in shown.splitlines() if line.startswith("    ") and line[4] != " "]
    assert set(names) == {words[0] for words, _ in COMMANDS.values()}


def test_committed_results_are_renewed_only_by_name(short) -> None:
    before = Path("results/ball.json").read_text()
    assert cli.main(["run", "ball"]) == 0
    assert Path("results/ball.json").read_text() == before and Path("runs/ball.json").is_file()
    assert cli.main(["run", "ball", "--out", "results"]) == 0
    assert json.loads(Path("results/ball.json").read_text())["evaluations"] == 3


def test_a_claim_that_numpy_or_jax_decided_can_be_printed() -> None:
    for ok in (np.bool_(True), jnp.array(1.0) > 0, np.array(1) == 1):
        assert json.dumps(vars(Claim("a", "b", "c", "d", ok))).endswith('"ok": true}')


def test_tables_go_into_a_page_only_if_it_is_named(short, capsys) -> None:
    page = Path("page.md")
    page.write_text("a\n<!-- matrix -->\nold\n<!-- /matrix -->\nb\n")
    assert cli.main(["gradients", *FREE, "--page", "page.md"]) == 0
    table = capsys.readouterr().out
    assert page.read_text() == f"a\n<!-- matrix -->\n{table}<!-- /matrix -->\nb\n"
    assert cli.main(["shapes", "--page", "missing.md"]) == 2
    assert "missing.md: there is no such file" in capsys.readouterr().err


def test_a_page_without_a_place_for_the_table_is_refused(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n<!-- a -->\n")
    with pytest.raises(experiments.Unable, match=r"page.md: there is no place .* <!-- a --> and <!-- /a -->"):
        put_table(page, "a", "| |")
    assert page.read_text() == "nothing\n<!-- a -->\n"


def refusal(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """The one line that a command is refused with."""
    assert cli.main(words) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


WRITING = (["run", "ball"], ["demo"], ["gradients"], ["shapes"], ["problems"], ["horizons"], ["bench"])


@pytest.mark.parametrize("words", WRITING, ids=lambda words: words[0])
def test_a_file_in_place_of_the_folder_is_refused(words, short, capsys) -> None:
    for out in ("page.html", "page.html/deeper"):
        line = refusal(capsys, [*words, "--out", out])
        assert line == f"backflip: {out}: there is a file in its place; name a folder"


def test_a_folder_that_cannot_be_written_is_refused(short, capsys, monkeypatch) -> None:
    def forbidden(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(running.tempfile, "TemporaryFile", forbidden)
    line = refusal(capsys, ["run", "ball", "--out", "locked"])
    assert "locked: nothing can be written there (Permission denied); name another folder" in line


def test_a_disk_that_fills_up_is_one_line(short, capsys) -> None:
    def full(*_):
        raise OSError(28, "No space left on device")

    short.run = full
    assert refusal(capsys, ["run", "ball"]) == "backflip: [Errno 28] No space left on device"


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "{}", "\udcff"], ids=ascii)
def test_a_broken_result_fails_by_name(text, short, capsys) -> None:
    Path("results/ball.json").write_text(text, errors="surrogateescape")
    short.verify = lambda out: read_result(out.parent / "ball.json")["seed"]
    assert cli.main(["verify"]) == 1
    assert "FAILED ball" in (line := capsys.readouterr().out) and "results/ball.json: it " in line


@pytest.mark.parametrize("folder", ["results", "runs"])
def test_verifying_nothing_says_where_own_runs_are(folder, short, capsys) -> None:
    shutil.rmtree("results")
    line = refusal(capsys, ["verify", "--out", folder])
    assert line == f"backflip: {folder}: there is no such folder; --out runs measures what you ran yourself"


def test_a_broken_table_is_not_added_to(short, capsys) -> None:
    Path("runs").mkdir()
    Path("runs/gradients.json").write_text("{")
    assert "runs/gradients.json: it is not whole" in refusal(capsys, ["gradients", *FREE])


def test_a_broken_folder_to_resume_is_refused(short, capsys) -> None:
    def broken(*_):
        raise ValueError("half a checkpoint")

    short.run = broken
    assert "half a checkpoint" in refusal(capsys, ["run", "ball", "--resume", "results"])
    with pytest.raises(ValueError, match="half"):  # without it the fault is ours, and its place is shown
        cli.main(["run", "ball"])


@pytest.mark.parametrize("seed", ["-1", "2000000001", "9" * 400, "1e3", "x"], ids=lambda text: text[:12])
def test_a_seed_that_no_generator_takes_is_refused(seed, short, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["run", "ball", "--seed", seed])
    assert end.value.code == 2
    assert "is no whole number from 0 to 2000000000" in capsys.readouterr().err


def test_no_home_is_no_reason_to_stop(monkeypatch) -> None:
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cli._cache_compilations()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a terminal: what is started in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_during_an_import_ends_at_once_without_a_traceback() -> None:
    # raised in the callback of a collection, as happens while JAX is imported, it would be lost
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from backflip import cli\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'equinox': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "sys.exit(cli.main(['list']))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 130 and ended.stderr == "backflip: interrupted\n"


def test_an_interrupt_later_is_a_line_and_a_code(short, interruptible, capsys) -> None:
    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)

    short.verify = interrupted
    assert cli.main(["verify"]) == 130
    assert "backflip: interrupted" in capsys.readouterr().err


def test_an_interrupt_is_not_lost_while_garbage_is_collected(short, interruptible) -> None:
    def _xla_gc_callback() -> None:  # what JAX calls its own; exceptions inside it are printed and dropped
        signal.raise_signal(signal.SIGINT)

    def collecting(*_):
        _xla_gc_callback()
        time.sleep(5)

    short.verify = collecting
    assert cli.main(["verify"]) == 130


def test_a_run_that_has_just_begun_can_be_resumed(tmp_path) -> None:
    from backflip.experiments.ball import ball
    from backflip.experiments.quadruped import identify_robot
    from backflip.experiments.training import train_seeds

    def stop(*_, **__):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_seeds(tmp_path, 0, None, None, stop)
    with pytest.raises(KeyboardInterrupt):  # and not FileNotFoundError
        train_seeds(tmp_path, 0, None, tmp_path, stop)
    assert identify_robot._folder(tmp_path, 0, None) == identify_robot._folder(tmp_path, 0, tmp_path)
    ball._save_partial(tmp_path, {})
    assert ball._load_partial(tmp_path) == {}
