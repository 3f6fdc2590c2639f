"""This computer: its vectors, and kernels turned from text into callable code on all cores.

Pieces of a kernel are assembled in processes of their own. What they return is checked, and where they cannot
be started, or return nothing whole, the work is done in this process.
"""

import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import llvmlite

from backflip.lanes import store, worker
from backflip.lanes.notice import if_slow
from backflip.lanes.target import Target, target


def lane_count(size: int = 4) -> int:
    """Robots per vector: as many floats of so many bytes as a register of the target holds."""
    return target().vector_bytes // size


def thread_limit() -> int | None:
    """BACKFLIP_LANES_THREADS, or None: as many as XLA has."""
    text = os.environ.get("BACKFLIP_LANES_THREADS", "")
    if text and not (text.isdecimal() and int(text)):
        raise ValueError(
            f"BACKFLIP_LANES_THREADS is {text!r}; give a whole number of at least 1, or unset it"
        )
    return int(text) if text else None


def key_of(*parts: str) -> str:
    """A digest of what a kernel depends on: the program, the target, the versions."""
    import llvmlite.binding as llvm

    versions = [llvmlite.__version__, jax.__version__, llvm.get_process_triple(), _sources()]
    return hashlib.sha256("\0".join([*versions, *target(), *parts]).encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of the compiler itself, so that a change to it builds kernels anew."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Module(NamedTuple):
    """LLVM text, and the functions in it that others look for.

    The first of several modules has a @table, to be filled with the functions of the others, in order.
    """

    text: str
    exports: list[str]


def build(modules: list[Module], meanwhile: Callable[[], Any] = lambda: None) -> bytes:
    """Object code: the first module's made here, the others' at the same time in processes of their own.

    LLVM leaves Python free, so `meanwhile` something else can be done.
    """
    goal = target()
    with ThreadPoolExecutor(len(modules)) as pool:
        first = pool.submit(worker.assemble, modules[0].text, *goal)
        others = [pool.submit(_assemble_elsewhere, module.text, goal) for module in modules[1:]]
        meanwhile()
        objects = [first.result()]
        for module, other in zip(modules[1:], others, strict=True):
            code = other.result()
            if code is None or code[:4] != objects[0][:4]:  # none, or no object of this machine's format
                code = worker.assemble(module.text, *goal)
            objects.append(code)
    contents = [(len(o), m.exports) for o, m in zip(objects, modules, strict=True)]
    return json.dumps(contents).encode() + b"\n" + b"".join(objects)


def _assemble_elsewhere(text: str, goal: Target) -> bytes | None:
    """Object code made in another process; None if there can be none, or it did not end well."""
    python = _interpreter()
    if python is None:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="backflip-") as folder:  # which only this user can enter
            source, result = Path(folder, "text"), Path(folder, "object")
            source.write_text(text, "utf-8")
            libraries = str(Path(llvmlite.__file__).parents[1])
            # -I -S: neither the environment nor start-up files of Python change what the worker does
            command = [python, "-I", "-S", worker.__file__, libraries, str(source), str(result), *goal]
            quiet = subprocess.DEVNULL
            subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=True)
            return worker.unseal(result.read_bytes())
    except (OSError, subprocess.SubprocessError):
        return None


def _interpreter() -> str | None:
    """The Python that runs this; None where Python is part of another program, which must not start again."""
    path = sys.executable or ""
    name = Path(path).name.lower()
    known = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return path if known else None


_ENGINES: list[Any] = []
"""Owners of all loaded code: it must live as long as XLA may call it."""


def load(code: bytes) -> int:
    """The address of the first function of what `build` made."""
    contents, _, rest = code.partition(b"\n")
    engines, addresses = [], []
    for size, exports in json.loads(contents):
        engine = _engine(rest[:size])
        engines.append(engine)
        addresses += [engine.get_function_address(name) for name in exports]
        rest = rest[size:]
    if not all(addresses):
        raise RuntimeError("lanes: LLVM made object code without the functions it was given")
    if addresses[1:]:
        table = engines[0].get_global_value_address("table")
        (ctypes.c_uint64 * len(addresses[1:])).from_address(table)[:] = addresses[1:]
    _ENGINES.extend(engines)
    return addresses[0]


def _engine(code: bytes) -> Any:
    """The owner of object code, ready to run."""
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), worker.generator(*target()))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


_REGISTERED: set[str] = set()
_LOCKS: dict[str, threading.Lock] = {}
"""By the name of a kernel: the first thread that needs it makes it, others wait"""


def register(
    key: str, modules: Callable[[], list[Module]], meanwhile: Callable[[], Any], what: str = "a kernel"
) -> str:
    """Name of the XLA custom call for a kernel; built, or fetched from disk, if it is not there yet.

    If that takes long, a line says what is being compiled.
    """
    name = f"backflip_lanes_{key[:32]}"
    with _LOCKS.setdefault(name, threading.Lock()):
        if name not in _REGISTERED:
            with if_slow(what):
                address = _address(key, lambda: build(modules(), meanwhile))
            capsule = jax.ffi.pycapsule(ctypes.CFUNCTYPE(ctypes.c_void_p)(address))
            jax.ffi.register_ffi_target(name, capsule, platform="cpu")
            _REGISTERED.add(name)
    return name


def _address(key: str, make: Callable[[], bytes]) -> int:
    """The entry of a kernel from disk or made now; one that does not load is not stored."""
    loaded: list[int] = []

    def make_and_load() -> bytes:
        code = make()
        loaded.append(load(code))
        return code

    code = store.fetch(key, make_and_load)
    return loaded[0] if loaded else load(code)
