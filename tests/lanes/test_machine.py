"""Building machine code: modules at once, checked on their way, and Python free meanwhile."""

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip import lanes
from backflip.lanes import kernel, machine, notice, pieces, store, worker
from backflip.lanes.kernel import kernel_ir
from backflip.lanes.machine import build, load
from backflip.lanes.program import Program

X = jnp.ones(4)


def modules(fn=jnp.sin) -> list[machine.Module]:
    return kernel_ir(jax.make_jaxpr(fn)(X), (False,), True, 4, 1)


@pytest.fixture
def in_parts(monkeypatch) -> None:
    """Kernels of several modules, however short they are and however few cores there are."""
    monkeypatch.setattr(kernel, "SHORT", 1)
    monkeypatch.setattr(kernel, "cores", lambda: 3)
    monkeypatch.setenv("BACKFLIP_CACHE", "off")
    monkeypatch.setattr(pieces, "LENGTH", 5)


def test_python_does_something_else_while_llvm_works():
    done = []
    code = build(modules(), lambda: done.append(True))
    assert done and load(code)


def test_what_goes_wrong_meanwhile_is_raised():
    with pytest.raises(ZeroDivisionError):
        build(modules(), lambda: 1 / 0)


def test_derivatives_that_were_asked_for_are_traced_while_their_function_is_compiled(monkeypatch):
    monkeypatch.setenv("BACKFLIP_CACHE", "off")
    program = Program.of(jax.make_jaxpr(lambda x: x * 2.5 + 0.75)(X))
    pullback = program.pullback((True,))
    assert "closed" not in vars(pullback)
    program.kernel((False,), 3)
    assert "closed" in vars(pullback)


# --- other processes --------------------------------------------------------------------------------------


def kernels_of_processes(monkeypatch) -> list[bool]:
    """For every module that was given to another process, whether that made it."""
    made: list[bool] = []
    elsewhere = machine._assemble_elsewhere

    def watched(*args):
        code = elsewhere(*args)
        made.append(code is not None)
        return code

    monkeypatch.setattr(machine, "_assemble_elsewhere", watched)
    return made


def check_wave() -> None:
    """A function that no test has compiled before is computed well."""
    pitch = np.random.default_rng().uniform(1, 2)

    def wave(x: jax.Array) -> jax.Array:
        return jnp.sin(x) + jnp.cos(pitch * x) * jnp.exp(x[0]) + x @ x

    xs = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_allclose(jax.jit(jax.vmap(lanes.compile(wave)))(xs), jax.vmap(wave)(xs), rtol=1e-12)


NOISE = """
import os, sys
print("a start-up file of Python that prints", flush=True)
os.write(1, b"\\x7fELF")
open({seen!r}, "a").write("run ")
"""


def test_a_start_up_file_that_prints_does_not_matter(in_parts, tmp_path: Path, monkeypatch):
    seen = tmp_path / "seen"
    for name in ("sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(NOISE.format(seen=str(seen)))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    subprocess.run([sys.executable, "-c", ""], check=True, stdout=subprocess.DEVNULL)
    assert "run" in seen.read_text()  # as others would meet it
    made = kernels_of_processes(monkeypatch)
    check_wave()
    assert made == [True, True]


@pytest.mark.parametrize("python", [None, "", "/usr/bin/blender", "/there/is/no/python3"])
def test_without_an_interpreter_all_is_compiled_here(in_parts, monkeypatch, python):
    monkeypatch.setattr(sys, "executable", python)
    made = kernels_of_processes(monkeypatch)
    check_wave()
    assert made == [False, False]


def test_where_no_process_can_be_started_all_is_compiled_here(in_parts, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", refuse)
    check_wave()


GOOD = worker.seal(b"\x7fELF and so on")
BAD = {
    "nothing": b"",
    "what is printed": b"hello\n",
    "a part": GOOD[:-1],
    "more": GOOD + b"\n",
    "another length": GOOD.replace(b" 14 ", b" 13 "),
    "no object": worker.seal(b"hello"),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_what_a_process_returns_is_checked(in_parts, monkeypatch, content: bytes):
    def write(command: list[str], **_) -> None:
        Path(command[6]).write_bytes(content)

    monkeypatch.setattr(subprocess, "run", write)
    check_wave()


def test_an_object_without_its_functions_is_not_stored(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("BACKFLIP_CACHE", str(tmp_path))
    code = build(modules())
    head, _, rest = code.partition(b"\n")
    [[size, _]] = json.loads(head)
    wrong = json.dumps([[size, ["elsewhere"]]]).encode() + b"\n" + rest
    with pytest.raises(RuntimeError, match="without the functions"):
        machine._address("ab", lambda: wrong)
    assert not list(tmp_path.iterdir())


# --- threads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_threads_that_need_a_kernel_at_once_register_it_once(warm: bool, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("BACKFLIP_CACHE", str(tmp_path))
    key = sha256(f"{warm} {os.urandom(9)!r}".encode()).hexdigest()
    together, built = threading.Barrier(8), []

    def write() -> list[machine.Module]:
        built.append(True)
        return modules()

    if warm:
        store.fetch(key, lambda: build(modules()))

    def ask(_: int) -> str:
        together.wait(60)
        return machine.register(key, write, lambda: None)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert len(built) == (not warm)


def test_threads_may_jit_the_same_function_at_once(monkeypatch):
    monkeypatch.setenv("BACKFLIP_CACHE", "off")
    together, turn = threading.Barrier(4), float(np.random.default_rng().uniform(1, 2))
    compiled = lanes.compile(lambda x: jnp.sin(turn * x) @ x)

    def ask(_: int) -> np.ndarray:
        together.wait(60)
        return np.asarray(jax.jit(jax.grad(compiled))(X))

    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(ask, range(4)):
            np.testing.assert_allclose(got, jnp.sin(turn * X) + turn * jnp.cos(turn * X) * X, rtol=1e-12)


# --- patience ---------------------------------------------------------------------------------------------


def sway(x: jax.Array) -> jax.Array:
    return jnp.sin(x + 0.123) @ x


@pytest.fixture
def impatient(monkeypatch) -> None:
    """A notice comes while the first module is being made."""
    monkeypatch.setenv("BACKFLIP_CACHE", "off")
    monkeypatch.setattr(notice, "PATIENCE", 0.0)
    assemble = worker.assemble

    def slow(*args) -> bytes:
        threading.Event().wait(0.1)
        return assemble(*args)

    monkeypatch.setattr(worker, "assemble", slow)


def test_a_long_compile_says_what_it_does_and_how_long_it_took(impatient, capsys):
    jax.jit(jax.grad(lanes.compile(sway)))(X)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "backflip: compiling the gradient of sway for 1 robot at a time ..."
    assert last.startswith("backflip: compiled the gradient of sway for 1 robot at a time in 0.")


def test_a_quick_compile_is_silent_and_so_is_any_with_BACKFLIP_QUIET(impatient, capsys, monkeypatch):
    monkeypatch.setenv("BACKFLIP_QUIET", "1")
    jax.jit(jax.vmap(lanes.compile(lambda x: sway(2 * x))))(X[None])
    monkeypatch.delenv("BACKFLIP_QUIET")
    monkeypatch.setattr(notice, "PATIENCE", 60.0)
    jax.jit(jax.vmap(lanes.compile(lambda x: sway(3 * x))))(X[None])
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_last_line_replaces_the_first(monkeypatch, capsys):
    monkeypatch.setattr(notice, "PATIENCE", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with notice.if_slow("it"):
        threading.Event().wait(0.1)
    first, last = capsys.readouterr().err.split("\r\x1b[K")[1:]
    assert first == "backflip: compiling it ..." and last.startswith("backflip: compiled it in 0.1 s")
    assert last.endswith("\n")
