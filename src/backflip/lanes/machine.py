"""This computer: its vectors, LLVM for it, and kernels turned from text into callable code."""

import ctypes
import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import jax

from backflip.lanes import store


@cache
def _target() -> tuple[str, str, str]:
    """Triple, CPU and features of this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def lane_count() -> int:
    """Robots per vector: as many float32 as a register of this machine holds."""
    features = _target()[2].split(",")
    if "+avx512f" in features:
        return 16
    return 8 if "+avx" in features else 4


def thread_limit() -> int | None:
    """BACKFLIP_LANES_THREADS, or None: as many as XLA has."""
    text = os.environ.get("BACKFLIP_LANES_THREADS", "")
    return int(text) if text else None


def key_of(*parts: str) -> str:
    """A digest of what a kernel depends on: the program, this machine, the versions."""
    import llvmlite

    text = "\0".join([llvmlite.__version__, jax.__version__, *_target(), _sources(), *parts])
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of the compiler itself, so that a change to it builds kernels anew."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(f.read_bytes() for f in files)).hexdigest()


def build(text: str) -> bytes:
    """Object code of LLVM text, for this machine."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    # the text is lean already; inlining and loop passes would cost more time than they give
    return machine.emit_object(module)


def _machine() -> Any:
    import llvmlite.binding as llvm

    triple, cpu, features = _target()
    target = llvm.Target.from_triple(triple)
    return target.create_target_machine(
        cpu=cpu, features=features, opt=1, reloc="pic", codemodel="jitdefault"
    )


_ENGINES: list[Any] = []
"""Owners of all loaded code: it must live as long as XLA may call it."""


def load(code: bytes, name: str) -> int:
    """The address of function `name` in object code."""
    import llvmlite.binding as llvm

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ENGINES.append(engine)
    return engine.get_function_address(name)


def register(key: str, make_text: Any) -> str:
    """Name of the XLA custom call for a kernel; built, or fetched from disk, if it is not there yet."""
    name = f"backflip_lanes_{key[:32]}"
    if name not in _REGISTERED:
        code = store.fetch(key, lambda: build(make_text()))
        capsule = jax.ffi.pycapsule(ctypes.CFUNCTYPE(ctypes.c_void_p)(load(code, "entry")))
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
        _REGISTERED.add(name)
    return name


_REGISTERED: set[str] = set()
