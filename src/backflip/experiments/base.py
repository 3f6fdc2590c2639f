"""What every experiment shares: its protocol, its progress on screen, and how results are kept."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

UNKNOWN = "unknown"
"""Stands for a revision or version that cannot be found out."""


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


class Experiment(Protocol):
    """A module of `backflip.experiments`."""

    NAME: str
    """the module's own name"""
    SUMMARY: str
    """one line for `backflip list`"""

    def run(self, out: Path, seed: int, progress: "Progress", resume: Path | None) -> dict[str, Any]:
        """Do the experiment, write its files into `out`, and return what was found.

        The result has at least `evaluations` (how many rollouts it took), `error` (how far from the
        goal it ended) and `files` (names inside `out`). What an interrupted run should leave behind is
        written to `out` on the way; `resume` is such a folder.
        """
        ...

    def verify(self, out: Path) -> list[Claim]:
        """Measure every claim again from the files in `out`, trusting no figure of the run."""
        ...


@dataclass
class Progress:
    """Progress on stderr, so that stdout stays clean for results; `figures` are the latest told."""

    quiet: bool = False
    figures: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def task(self, label: str, total: int | None = None) -> Iterator["Task"]:
        """A line with a bar; without a total it only tells that something moves."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[told]}"),
        )
        with Bars(*columns, console=Console(stderr=True), disable=self.quiet) as bars:
            yield Task(self, bars, bars.add_task(label, total=total, told=""))


@dataclass(frozen=True)
class Task:
    """One line of Progress."""

    progress: Progress
    bars: Any
    line: Any

    def advance(self, count: int = 1, **figures: Any) -> None:
        """Go on by `count`, and tell figures by name: `task.advance(error=0.1, evaluations=12)`."""
        self.progress.figures.update(figures)
        told = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
        self.bars.update(self.line, advance=count, **({"told": told} if told else {}))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


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
    text = json.dumps(record, indent=2, default=_plain)
    with _replacing(path) as draft:
        draft.write_text(text + "\n", encoding="utf-8")
    return json.loads(text)


def revision() -> str:
    """The git revision of this source, or "unknown" where it does not lie in a checkout of it."""
    here = Path(__file__)
    try:
        # ls-files fails for a copy installed inside somebody else's checkout
        for command in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
            told = subprocess.run(
                ["git", *command], cwd=here.parent, capture_output=True, text=True, check=True, timeout=10
            )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return told.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN


def _plain(value: Any) -> Any:
    """JSON for numpy and JAX numbers and arrays, and for paths."""
    if isinstance(value, Path):
        return str(value)
    return np.asarray(value).tolist()


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def save_weights(path: Path, tree: Any) -> Path:
    """Write the arrays of a pytree by name as .npz; functions and other leaves stay in the code."""
    with _replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: np.asarray(leaf) for name, leaf in _arrays(tree)})
    return path


def load_weights(path: Path, like: Any) -> Any:
    """A pytree like `like` with the arrays of a file; nothing in the file is ever executed."""
    import jax
    import jax.numpy as jnp

    with np.load(path, allow_pickle=False) as file:
        stored = {name: file[name] for name in file.files}
    wanted = dict(_arrays(like))
    if stored.keys() != wanted.keys():
        raise ValueError(f"{path}: names do not fit: {', '.join(sorted(stored.keys() ^ wanted.keys()))}")
    for name, leaf in wanted.items():
        if stored[name].shape != leaf.shape:
            raise ValueError(f"{path}: {name} has shape {stored[name].shape}; {leaf.shape} is wanted")

    def fill(place: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(place)
        return jnp.asarray(stored[name], leaf.dtype) if name in wanted else leaf

    return jax.tree_util.tree_map_with_path(fill, like)


def _arrays(tree: Any) -> list[tuple[str, Any]]:
    """(name, array) of every array leaf; a name is its place in the tree."""
    import equinox as eqx
    import jax

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves if eqx.is_array(leaf)]
