"""What every experiment has in common: its protocol, its claims, and how results are written and read."""

import json
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from backflip.storage.files import write_atomically
from backflip.storage.progress import Progress

UNKNOWN = "unknown"
"""Stands for a revision or version that cannot be found out."""


class Unable(ValueError):
    """Something cannot be done here; the text names the culprit and says what to do."""


@dataclass(frozen=True)
class Claim:
    """One sentence that can be measured."""

    name: str
    """the experiment it belongs to"""
    claim: str
    """the sentence"""
    asked: str
    """what would make it true, in words or figures with units"""
    measured: str
    """what was measured, in the same units"""
    ok: bool
    """whether that is enough"""

    def __post_init__(self) -> None:
        # a comparison of arrays gives numpy's or JAX's bool, which JSON does not know
        object.__setattr__(self, "ok", bool(self.ok))


class Experiment(Protocol):
    """A module of `backflip.experiments`."""

    NAME: str
    """the module's own name, with - for _"""
    SUMMARY: str
    """one line for `backflip list`"""

    def run(self, out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
        """Do the experiment, write its files into `out`, and return what was found.

        The result has at least `evaluations` (how many rollouts it took), `error` (how far from the
        goal it ended) and `files` (names inside `out`). What an interrupted run should leave behind is
        written to `out` on the way; `resume` is such a folder.
        """
        ...

    def verify(self, out: Path) -> list[Claim]:
        """Measure every claim again from the files in `out`, trusting no figure of the run."""
        ...


def save_result(
    path: Path, name: str, result: dict[str, Any], *, seed: int, seconds: float
) -> dict[str, Any]:
    """Write a result with what is needed to trace it, whole or not at all; returns what was written."""
    record = {
        "name": name,
        "seed": seed,
        "seconds": round(seconds, 3),
        "revision": revision(),
        "versions": {package: _version(package) for package in ("backflip", "jax", "numpy")},
        **result,
    }
    text = json.dumps(_finite(json.loads(json.dumps(record, default=_plain))), indent=2)
    write_text(path, text + "\n")
    return json.loads(text)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with write_atomically(path) as draft:
        draft.write_text(text, encoding="utf-8")


class _Record(dict):
    """A result whose missing entries are named together with its file."""

    path: Path

    def __missing__(self, key: str) -> Any:
        raise Unable(f"{self.path}: it has no {key!r}; run the experiment again")


def read_result(path: Path) -> dict[str, Any]:
    """What a run has written; Unable names a file that is broken."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as reason:
        raise Unable(f"{path}: it is not whole ({reason}); run the experiment again") from reason
    if not isinstance(entries, dict):
        raise Unable(f"{path}: it is no result; run the experiment again")
    record = _Record(entries)
    record.path = path
    return record


def revision() -> str:
    """The git revision of this source, or "unknown" where it does not lie in a checkout of it."""
    here = Path(__file__)
    try:
        # ls-files fails for a copy installed inside somebody else's checkout
        for command in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
            output = subprocess.run(
                ["git", *command], cwd=here.parent, capture_output=True, text=True, check=True, timeout=10
            )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return output.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN


def _finite(value: Any) -> Any:
    """null for numbers that JSON does not know: NaN and infinity."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _plain(value: Any) -> Any:
    """JSON for numpy and JAX numbers and arrays, and for paths."""
    if isinstance(value, Path):
        return str(value)
    return np.asarray(value).tolist()
