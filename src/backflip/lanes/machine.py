"""This computer: its vectors, LLVM for it, and kernels turned from text into callable code."""

import ctypes
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax

from backflip.lanes import store


@cache
def lane_count(size: int = 4) -> int:
    """Robots per vector: as many floats of so many bytes as a register of this machine holds."""
    from backflip.lanes.worker import target

    features = target()[2].split(",")
    return (64 if "+avx512f" in features else 32 if "+avx" in features else 16) // size


def thread_limit() -> int | None:
    """BACKFLIP_LANES_THREADS, or None: as many as XLA has."""
    text = os.environ.get("BACKFLIP_LANES_THREADS", "")
    if text and not (text.isdecimal() and int(text)):
        raise ValueError(
            f"BACKFLIP_LANES_THREADS is {text!r}; give a whole number of at least 1, or unset it"
        )
    return int(text) if text else None


def key_of(*parts: str) -> str:
    """A digest of what a kernel depends on: the program, this machine, the versions."""
    import llvmlite

    from backflip.lanes.worker import target

    text = "\0".join([llvmlite.__version__, jax.__version__, *target(), _sources(), *parts])
    return hashlib.sha256(text.encode()).hexdigest()


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

    LLVM leaves Python alone, so `meanwhile` something else can be done.
    """
    from backflip.lanes.worker import assemble

    with ThreadPoolExecutor(len(modules)) as pool:
        first = pool.submit(assemble, modules[0].text)
        others = pool.map(_assemble_elsewhere, [module.text for module in modules[1:]])
        meanwhile()
        objects = [first.result(), *others]
    contents = [(len(o), m.exports) for o, m in zip(objects, modules, strict=True)]
    return json.dumps(contents).encode() + b"\n" + b"".join(objects)


def _assemble_elsewhere(text: str) -> bytes:
    from backflip.lanes import worker

    done = subprocess.run([sys.executable, worker.__file__], input=text.encode(), capture_output=True)
    # whatever kept the process from its work, here it can be done
    return done.stdout if done.returncode == 0 else worker.assemble(text)


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
    if addresses[1:]:
        table = engines[0].get_global_value_address("table")
        (ctypes.c_uint64 * len(addresses[1:])).from_address(table)[:] = addresses[1:]
    _ENGINES.extend(engines)
    return addresses[0]


def _engine(code: bytes) -> Any:
    """The owner of object code, ready to run."""
    import llvmlite.binding as llvm

    from backflip.lanes.worker import machine

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def register(key: str, modules: Callable[[], list[Module]], meanwhile: Callable[[], Any]) -> str:
    """Name of the XLA custom call for a kernel; built, or fetched from disk, if it is not there yet."""
    name = f"backflip_lanes_{key[:32]}"
    if name not in _REGISTERED:
        code = store.fetch(key, lambda: build(modules(), meanwhile))
        capsule = jax.ffi.pycapsule(ctypes.CFUNCTYPE(ctypes.c_void_p)(load(code)))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        _REGISTERED.add(name)
    return name


_REGISTERED: set[str] = set()
