"""The CPU that kernels are compiled for: this machine's, or what BACKFLIP_TARGET names.

    BACKFLIP_TARGET=native        this CPU with all it has (the default)
    BACKFLIP_TARGET=sse2          an instruction set: sse2 (x86-64), avx, avx2, avx512; elsewhere generic
    BACKFLIP_TARGET=avx2,-fma     one with features added or taken away, by LLVM's names
    BACKFLIP_TARGET=native,-fma   this CPU without fused multiply-add

It is read when a kernel is compiled, so a test may set it (`monkeypatch.setenv`) and jit a function anew;
what jit has compiled before stays as it is. Kernels on disk are named by it.
"""

import os
import platform
from functools import cache
from typing import NamedTuple

X86 = {
    "sse2": "",
    "avx": "avx sse3 ssse3 sse4.1 sse4.2 popcnt",
    "avx2": "avx2 fma f16c bmi bmi2 lzcnt movbe",
    "avx512": "avx512f avx512bw avx512cd avx512dq avx512vl",
}
"""What every instruction set adds to the one before"""
ALIASES = {"x86-64": "sse2", "x86-64-v3": "avx2", "x86-64-v4": "avx512"}
NEEDS = {"avx512": ("avx2", "fma", "f16c"), "avx2": ("avx",), "fma": ("avx",), "f16c": ("avx",)}
"""By how a feature's name begins: the features without which it cannot be"""


class Target(NamedTuple):
    """A CPU in LLVM's words."""

    cpu: str
    features: str
    """+feature or -feature, separated by commas"""

    @property
    def vector_bytes(self) -> int:
        """Of a register."""
        features = self.features.split(",")
        return 64 if "+avx512f" in features else 32 if "+avx" in features else 16


def target() -> Target:
    """What to compile for now."""
    return _read(os.environ.get("BACKFLIP_TARGET", "") or "native")


@cache
def _read(text: str) -> Target:
    name, *changes = (part.strip().lower() for part in text.split(","))
    here, host = _host()
    if name == "native":
        cpu, features = here, dict(host)
    else:
        cpu, features = _level(text, ALIASES.get(name, name), host)
    for change in changes:
        feature = change[1:]
        if change[:1] not in ("+", "-") or feature not in host:
            raise ValueError(
                f"BACKFLIP_TARGET is {text!r}: LLVM knows no feature {change!r} of this machine; "
                "give +feature or -feature, such as -fma"
            )
        features[feature] = change[0] == "+"
    _remove_orphans(features)
    missing = [f for f, wanted in features.items() if wanted and not host[f]]
    if missing:
        raise ValueError(
            f"BACKFLIP_TARGET is {text!r}: this CPU ({here}) has no {', '.join(missing)}; "
            "kernels would not run. Give a smaller set, or unset it"
        )
    # LLVM reads from left to right, and a feature brings its basis: what is not wanted comes last
    order = sorted(features, key=lambda f: (not features[f], f))
    return Target(cpu, ",".join(f"{'+' if features[f] else '-'}{f}" for f in order))


@cache
def _host() -> tuple[str, dict[str, bool]]:
    """Name and features of this machine's CPU."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


def _level(text: str, name: str, host: dict[str, bool]) -> tuple[str, dict[str, bool]]:
    """The CPU and features of an instruction set."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    levels = X86 if x86 else {"generic": ""}
    if name not in levels:
        known = ", ".join(["native", *levels, *(ALIASES if x86 else ())])
        raise ValueError(
            f"BACKFLIP_TARGET is {text!r}: there is no target {name!r}; give one of {known}, "
            "with features behind it if need be (avx2,-fma), or unset it"
        )
    if not x86:
        return "generic", {}
    names = list(X86)
    wanted = {f for level in names[: names.index(name) + 1] for f in X86[level].split()}
    optional = {f for level in X86.values() for f in level.split()}
    return "x86-64", {f: f in wanted for f in sorted(optional & host.keys())}


def _remove_orphans(features: dict[str, bool]) -> None:
    """Take away features whose basis was taken away: without fma there is no AVX-512."""
    for begin, basis in reversed(NEEDS.items()):
        if not all(features.get(b, True) for b in basis):
            features.update({f: False for f in features if f.startswith(begin)})
