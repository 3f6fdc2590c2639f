"""Training several seeds one after the other, each to be resumed, and figures of how it went."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backflip.experiments.base import Progress
from backflip.storage.files import clear_folder

SEEDS = 5


def train_seeds(
    out: Path,
    seed: int,
    progress: Progress,
    resume: Path | None,
    train: Callable[..., tuple[Any, Any]],
    count: int = SEEDS,
    name: str = "seed",
) -> list[tuple[Any, Any]]:
    """`train(s, folder=, resume=, progress=, label=)` for each seed; a resumed run keeps what is done."""
    runs = (resume or out) / "runs"
    if resume and not runs.is_dir():
        raise FileNotFoundError(f"{runs}: there is nothing to resume here")
    if resume is None:
        clear_folder(runs / name)  # from now on there is something to resume
    return [
        train(s, folder=runs / name / str(s), resume=True, progress=progress, label=f"{name} {s}")
        for s in range(seed, seed + count)
    ]


def first_below(values: np.ndarray, bar: float) -> int | None:
    """How many evaluations it took to get below a bar; None: never."""
    under = np.flatnonzero(values < bar)
    return int(under[0]) + 1 if under.size else None


def simulations(log: Any, updates: int | None) -> int | None:
    """How many robots were simulated in so many updates, those that validate included; None: never."""
    return None if updates is None else int(log.column("simulations")[:updates].sum())


def median(values: Sequence[float | None]) -> float:
    """The median, with "never" as infinity."""
    return float(np.median([np.inf if v is None else v for v in values]))


def middle(values: list[float]) -> int:
    """Which of the seeds is the median one."""
    return int(np.argsort(values)[len(values) // 2])


def seconds_per_update(logs: list[Any]) -> float:
    """[s] median over all updates; the first of each, which compiles, weighs little."""
    return float(np.median(np.concatenate([log.column("seconds") for log in logs])))
