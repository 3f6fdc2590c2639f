"""A search from one or several starts, each through growing horizons, in a folder of its own."""

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.fit_quality import FitQuality, fit_quality
from backflip.learn.least_squares import Problem, SearchState, advance, begin, is_first_order
from backflip.learn.loop import Loop, Outcome, Row
from backflip.learn.problem import scaled
from backflip.storage import Task, hold_folder, remove_checkpoints, remove_folder

STALLED, LITTLE = 6, 1e-6
"""updates in a row that lower the cost by no more than this part, after which a search ends"""
SHOWN, NUMBER = 50, 12
"""letters of parameters on the progress bar, and of a number among them: more would hide the bar"""
LABEL = 8
"""letters of a label that are shown on one line beside long figures"""
GOOD = 1.5
"""reduced χ² of a start after which no other is tried"""


@dataclass(frozen=True)
class SearchResult:
    """The best of several starts."""

    outcome: Outcome
    """of its last horizon"""
    rows: list[Row]
    """of all its horizons"""
    costs: list[float]
    """of all starts"""
    guess: Array
    """(p,) free numbers it began with"""


@dataclass(frozen=True)
class Search:
    """One start after the other, each through all horizons."""

    problem: Problem
    optimizer: Any
    stages: tuple[int, ...]
    """samples that are compared, one number for each horizon"""
    loop: Loop
    starts: int
    noise_given: bool

    def best_of(self, starts: list[Array]) -> SearchResult:
        """The start that ends with the lowest cost; one that explains the readings ends the search."""
        if self.loop.folder is None:
            return self._best_of(starts)
        folder = Path(self.loop.folder)
        with hold_folder(folder):
            if not self.loop.resume:
                _remove_searches(folder)
            return self._best_of(starts)

    def _best_of(self, starts: list[Array]) -> SearchResult:
        best: tuple[Outcome, list[Row]] | None = None
        guess = starts[0]
        costs: list[float] = []
        refused: ValueError | None = None
        for s, free in enumerate(starts):
            try:
                outcome, rows = self._through_horizons(s, free)
            except _CannotStart as error:
                refused = refused or error
                costs.append(np.inf)
                continue
            costs.append(float(outcome.state.cost))
            if best is None or costs[-1] < float(best[0].state.cost):
                best, guess = (outcome, rows), free
            if outcome.interrupted or (self.starts > 1 and self.quality(outcome.state.free).chi2 < GOOD):
                break
        if best is None:
            raise ValueError(str(refused)) from refused
        return SearchResult(*best, costs, guess)

    def _through_horizons(self, s: int, free: Array) -> tuple[Outcome, list[Row]]:
        rows: list[Row] = []
        outcome: Outcome | None = None
        for samples in self.stages:
            problem = _first_samples(self.problem, samples)
            try:
                problem = scaled(problem, free)
            except ValueError as error:
                raise _CannotStart(str(error)) from error
            state = begin(problem, self.optimizer, free, problem.data_digest())
            growing = {"samples": samples} if len(self.stages) > 1 else {}
            updates = _Updates(problem, self.optimizer, state.first, state.digest, growing)
            outcome = self._loop_of(s, samples).run(updates, state)
            free = outcome.state.free
            rows += [self._marked(row, len(rows), s, samples) for row in outcome.rows]
            if outcome.interrupted:
                break
        assert outcome is not None
        return outcome, rows

    def _loop_of(self, s: int, samples: int) -> Loop:
        """The loop of one search, with a folder of its own where there are several."""
        if self._is_single:
            return replace(self.loop, held=True)
        folder = None if self.loop.folder is None else Path(self.loop.folder)
        place = folder and folder / f"start-{s}" / f"samples-{samples}"
        label = start_label(s, self.starts) if self.starts > 1 else self.loop.label
        return replace(self.loop, folder=place, label=label)

    def _marked(self, row: Row, before: int, s: int, samples: int) -> Row:
        if self._is_single:
            return row
        return row | {"update": before + row["update"], "start": s, "samples": samples}

    @property
    def _is_single(self) -> bool:
        return self.starts == 1 and len(self.stages) == 1

    def quality(self, free: Array) -> FitQuality:
        """How well the readings are explained."""
        problem = self.problem
        off, present = np.asarray(_off(problem, free), float), np.asarray(problem.present, float)
        roots = np.asarray(problem.residual_cost.signed_root(jnp.asarray(off)), float)[present > 0]
        chi2 = problem.residual_cost.variance(roots, free.size) if self.noise_given else np.nan
        return fit_quality(off, np.asarray(problem.recorded.observed / problem.noise, float), present, chi2)


def start_label(s: int, starts: int) -> str:
    """What the bar of start s is called: a longer label takes several lines where a window has 80 columns."""
    label = f"try {s + 1}/{starts}"
    return label if len(label) <= LABEL else label.replace(" ", "")


def shown_names(names: tuple[str, ...]) -> list[str]:
    """The first parameters, as many as the bar has room for."""
    ends = np.cumsum([len(name) + NUMBER for name in names])
    return [name for name, end in zip(names, ends, strict=True) if end <= SHOWN]


class _CannotStart(ValueError):
    """A guess at which the simulation, or its derivative, says nothing."""


_off = eqx.filter_jit(lambda problem, free: problem.off(free))


@dataclass(frozen=True)
class _Updates:
    """The updates of one search, as Loop wants them."""

    problem: Problem
    optimizer: Any
    first: Array
    """(p,) free numbers it begins with"""
    digest: Array
    """(8,) of the data"""
    shown: dict[str, int]
    """what the bar shows before the cost"""

    def check(self, state: SearchState, file: Path) -> None:
        if not np.array_equal(state.digest, self.digest):
            raise ValueError(
                f"{file}: that search had other data (readings, controls, initial states or noise); resume "
                "with the same, or choose a new folder"
            )
        if not np.allclose(state.first, self.first, rtol=1e-4, atol=1e-6):
            layout = self.problem.layout
            theta = np.asarray(layout.flat(layout.theta(state.first)))
            raise ValueError(
                f"{file}: that search began at {theta}; resume from there, or choose a new folder"
            )

    def stop_reason(self, state: SearchState, rows: list[Row]) -> str:
        return stop_reason(self.optimizer, state, rows)

    def advance(self, state: SearchState, task: Task) -> tuple[SearchState, Row]:
        began = time.perf_counter()
        after = advance(self.problem, self.optimizer, state)
        layout = self.problem.layout
        cost = float(after.cost)
        values = np.asarray(layout.flat(layout.theta(after.free)), float).tolist()
        named = dict(zip(layout.names, values, strict=True))
        seconds = round(time.perf_counter() - began, 4)
        task.advance(1, **self.shown, cost=cost, **{name: named[name] for name in shown_names(layout.names)})
        return after, {"update": int(state.done), "cost": cost, "seconds": seconds, **named}


def stop_reason(optimizer: Any, state: SearchState, rows: list[Row]) -> str:
    """Why a search is at its end, or "" while it is not."""
    if bool(state.ended):
        return "at a minimum: the optimizer's steps and gains are below its tolerances"
    costs = [row["cost"] for row in rows[-STALLED - 1 :]]
    if is_first_order(optimizer) or len(costs) <= STALLED:
        return ""
    if all(before - after <= LITTLE * after for before, after in pairwise(costs)):
        return f"no more gain: the last {STALLED} updates lowered the cost by less than {LITTLE:g} of it"
    return ""


def _remove_searches(folder: Path) -> None:
    """Remove the checkpoints of earlier searches, of one or of several starts and horizons."""
    remove_checkpoints(folder)
    for start in folder.glob("start-*"):
        if start.is_symlink():
            start.unlink()
            continue
        for stage in start.glob("samples-*"):
            remove_folder(stage)
        if start.is_dir() and not any(start.iterdir()):
            start.rmdir()


def _first_samples(problem: Problem, samples: int) -> Problem:
    """The problem with the first samples of every run only; nothing is compiled again."""
    seen = jnp.arange(problem.present.shape[1]) < samples
    return eqx.tree_at(lambda p: p.present, problem, problem.present * seen[:, None])
