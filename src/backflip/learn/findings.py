"""What stands out in a training's log, and what to try."""

from typing import NamedTuple

import numpy as np

from backflip.learn.train import Log

STUCK = 50
"""updates without improvement from which on a training is stuck, if they are a quarter of it too"""
HARDLY = 0.02
"""part of the first cost: to gain less than this over STUCK updates is to learn next to nothing"""
WILD = 100.0
"""ratio of long gradients (one in a hundred) to those around them, from which on they are wild"""


class Finding(NamedTuple):
    """What was seen, and what to try."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def log_findings(log: Log) -> list[Finding]:
    """The gravest first."""
    checks = (_skipped(log), _no_progress(log), _stuck(log), _wild(log))
    return [finding for finding in checks if finding is not None]


def _skipped(log: Log) -> Finding | None:
    if len(log.skipped) <= 0.01 * len(log.rows):
        return None
    return Finding(
        f"{len(log.skipped)} of {len(log.rows)} updates were skipped, first because {log.skipped[0]}",
        "look at that step of that robot; a smaller time step, or gradients.clip(1.0)",
    )


def _first_cost(log: Log) -> float:
    measured = log.validation[np.isfinite(log.validation)]
    return float(measured[0]) if measured.size else np.nan


def _no_progress(log: Log) -> Finding | None:
    first = _first_cost(log)
    if len(log.rows) < STUCK or not first - log.best_cost <= HARDLY * abs(first):
        return None
    return Finding(
        f"{len(log.rows):,} updates brought the validation cost from {first:.3g} to {log.best_cost:.3g} only",
        "begin with an easier task (a shorter rollout, a start near the goal), or a first policy that moves",
    )


def _stuck(log: Log) -> Finding | None:
    since = len(log.rows) - max(log.best_update, 0)
    if since < max(STUCK, len(log.rows) / 4):
        return None
    return Finding(
        f"no improvement for {since:,} updates: the best validation cost, {log.best_cost:.3g}, was at update "
        f"{max(log.best_update, 0)} of {len(log.rows):,}",
        "go on from log.best with a tenth of the learning rate, or with more robots to an update",
    )


def _wild(log: Log) -> Finding | None:
    norm = log.column("norm")
    norm = norm[np.isfinite(norm) & (norm > 0)]
    if norm.size < STUCK:
        return None
    # beside those of about the same time: in a training that converges all become short
    around = np.lib.stride_tricks.sliding_window_view(np.pad(norm, STUCK // 2, mode="reflect"), STUCK)
    ratio = np.quantile(norm / np.median(around, -1)[: norm.size], 0.99)
    if ratio < WILD:
        return None
    return Finding(
        f"one gradient in a hundred is {ratio:.0f} times as long as those around it",
        f"optax.clip_by_global_norm({np.median(norm):.1g}), and gradients.clip_per_robot in the cost",
    )
