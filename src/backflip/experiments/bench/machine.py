"""The machine that figures were measured on, by name."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SIMD = ("avx512f", "avx2", "avx", "sse2", "asimd")
"""Widest first, as Linux names them."""
PACKAGES = ("jax", "jaxlib", "llvmlite", "mujoco", "numpy")


def machine() -> dict[str, Any]:
    """Processor, cores, SIMD and versions; unknown where the system does not tell."""
    cpu = _cpuinfo()
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return {
        "cpu": cpu.get("model name") or platform.processor() or "unknown",
        "architecture": platform.machine(),
        "cores": len(cores),
        "simd": next((name for name in SIMD if name in flags), "unknown"),
        "fma": "fma" in flags,
        "cache": cpu.get("cache size", "unknown"),
        "memory_gb": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def sentence(facts: dict[str, Any]) -> str:
    """The machine in a line."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return f"{facts['cpu']}, {facts['cores']} cores, {facts['simd']}; Python {facts['python']}, {versions}"


def _cpuinfo() -> dict[str, str]:
    """The first processor's entry of /proc/cpuinfo."""
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return {}
    first = file.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError):
        return None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
