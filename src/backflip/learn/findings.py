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
UNREACHED = "start in contact, add a reaching term to the cost, or Implicit(smoothness=...) for the gradient"
"""what to try where nothing that the policy does reaches the cost"""


class Finding(NamedTuple):
    """What was seen, and what to try."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def still_gains(log: Log) -> bool:
    """Whether the best policy is of the last quarter of the updates."""
    return log.best_cost < _first_cost(log) and log.best_update > 0.75 * len(log.rows)


def describe(log: Log) -> str:
    """One line: how far the training came, and whether it still gains."""
    first, count = _first_cost(log), len(log.rows)
    if not np.isfinite(log.best_cost):
        return f"training: {count:,} updates, and no validation cost was finite"
    trend = "it still gains" if still_gains(log) else "it no longer gains"
    return (
        f"training: {count:,} updates, validation cost from {first:.3g} to {log.best_cost:.3g}, the best "
        f"after update {max(log.best_update, 0):,}: {trend}"
    )


def no_gradient(log: Log) -> Finding | None:
    """Most updates had a gradient of exactly 0."""
    norm = log.column("norm")
    zeros = int((norm == 0).sum())
    if zeros <= norm.size / 2:
        return None
    which = "every update" if zeros == norm.size else f"{zeros:,} of {norm.size:,} updates"
    return Finding(f"nothing the policy does reaches the cost (its gradient was 0 in {which})", UNREACHED)


def skipped(log: Log) -> Finding | None:
    """Updates whose gradient was not finite."""
    if len(log.skipped) <= 0.01 * len(log.rows):
        return None
    return Finding(
        f"{len(log.skipped)} of {len(log.rows)} updates were skipped, first because {log.skipped[0]}",
        "look at that step of that robot; a smaller time step, or gradients.clip(1.0) if it is not there yet",
    )


def _first_cost(log: Log) -> float:
    measured = log.validation[np.isfinite(log.validation)]
    return float(measured[0]) if measured.size else np.nan


def no_progress(log: Log) -> Finding | None:
    """Many updates, and hardly any gain."""
    first = _first_cost(log)
    if len(log.rows) < STUCK or not first - log.best_cost <= HARDLY * abs(first):
        return None
    return Finding(
        f"{len(log.rows):,} updates brought the validation cost from {first:.3g} to {log.best_cost:.3g} only",
        "begin with an easier task (a shorter rollout, a start near the goal), or a first policy that moves",
    )


def stuck(log: Log) -> Finding | None:
    """The best policy is long ago."""
    since = len(log.rows) - max(log.best_update, 0)
    if since < max(STUCK, len(log.rows) / 4):
        return None
    return Finding(
        f"no improvement for {since:,} updates: the best validation cost, {log.best_cost:.3g}, was at update "
        f"{max(log.best_update, 0)} of {len(log.rows):,}",
        "go on from log.best with a tenth of the learning rate, or with more robots to an update",
    )


def wild(log: Log) -> Finding | None:
    """A few gradients are far longer than the others."""
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
        f"optax.clip_by_global_norm({np.median(norm):.1g}), and gradients.clip_per_robot in the cost, "
        "if they are not there yet",
    )
