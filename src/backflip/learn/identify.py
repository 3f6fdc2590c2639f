"""System identification: find the parameters with which a simulation does what was observed."""

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics import Scheme
from backflip.learn.certainty import Certainty, certainty
from backflip.learn.fit_quality import FitQuality, fit_quality
from backflip.learn.least_squares import Problem, SearchState, advance, begin, is_first_order, look
from backflip.learn.loop import Loop, Outcome, Row, check_count
from backflip.learn.parameters import lay_out
from backflip.learn.problem import check_functions, check_optimizer, make_problem, scaled
from backflip.learn.recording import Recording, as_runs
from backflip.learn.residual_cost import ResidualCost, Square
from backflip.learn.starts import spread_starts
from backflip.model import Model
from backflip.sense import observe
from backflip.storage import Progress, Task, hold_folder, remove_checkpoints, remove_folder

if TYPE_CHECKING:
    import optax
    import optimistix as optx

STALLED, LITTLE = 6, 1e-6
"""updates in a row that lower the cost by no more than this part, after which a search ends"""
SHOWN = 4
"""parameters on the progress bar"""
GOOD = 1.5
"""reduced χ² of a start after which no other is tried"""


@dataclass(frozen=True)
class Identified:
    """How an identification went."""

    rows: list[Row]
    """one per update of the best start: update, cost, seconds, and every parameter by name; with several
    starts or horizons also which start it was, and how many samples were compared"""
    certainty: Certainty
    """standard errors, correlations, and what cannot be identified"""
    quality: FitQuality
    """how well the readings are explained"""
    stopped: str
    """why the search ended"""
    converged: bool
    """whether it came to a minimum, local or not, before the updates ended"""
    start_costs: tuple[float, ...] = ()
    """cost that every start came to; infinity where it could not begin"""

    def column(self, name: str) -> np.ndarray:
        """One figure over the updates; NaN where it is missing."""
        return np.array([row.get(name, np.nan) for row in self.rows], float)

    @property
    def cost(self) -> np.ndarray:
        """(updates,) of the best parameters so far"""
        return self.column("cost")

    def report(self) -> str:
        """The parameters with their errors, how well they explain the readings, and what nobody can tell."""
        lines = [self.certainty.report(), *self.quality.findings, f"stopped: {self.stopped}"]
        if len(self.start_costs) > 1:
            costs = ", ".join(f"{cost:.3g}" for cost in self.start_costs)
            lines.append(f"starts ended at a cost of {costs}")
        return "\n".join(lines)


def identify(
    scheme: Scheme,
    theta_to_model: Callable[[Any], Any],
    theta0: Any,
    recorded: Recording | Array,
    *,
    sense: Callable[[Model, Any], Array] = observe,
    noise: float | Array | np.ndarray | None = None,
    cost: ResidualCost = Square(),  # noqa: B008
    prior: float | None = None,
    optimizer: "optx.AbstractLeastSquaresSolver | optax.GradientTransformation | None" = None,
    updates: int = 50,
    starts: int = 1,
    horizons: Sequence[int] = (),
    folder: str | Path | None = None,
    resume: bool = False,
    until: Callable[[dict[str, Any]], bool] | None = None,
    progress: Progress | None = None,
    label: str = "identifying",
) -> tuple[Any, Identified]:
    """Find theta so that the model `theta_to_model(theta)` does what was `recorded`; returns it and a log.

    theta0 is a first guess: a number, or a dictionary of numbers and arrays; mark what must stay positive
    with `bounds.positive(x)`, what has bounds with `bounds.interval(x, low, high)`. theta_to_model gets plain
    arrays; where the start is unknown too it returns (model, start) with starts for all runs. Readings are
    compared with `sense(model, state)`, in units of their `noise` (their standard deviation, one number or
    one per channel; None: how far each channel moves). What is minimised is the mean `cost` of a residual,
    which may be Huber or Cauchy where there are outliers. `prior` is how far theta0 may be off, as a standard
    deviation: 0.3 is about 30 % of a positive parameter; None: it is only a start. `optimizer` is a
    least-squares solver of optimistix or an optimiser of optax; None: levenberg_marquardt().

    Against local minima, `starts` searches from so many guesses around theta0, itself the first, until one
    explains the readings within their noise, and takes the best; `horizons` compares so many samples of every
    run at first, such as (10, 30), and all at last. `updates` and `until`, which is given the row of each
    update and may end a search, are for each of these searches. With `folder` updates leave rows in log.jsonl and checkpoints, from which `resume` goes on.
    """
    check_functions(scheme, theta_to_model)
    layout, free = lay_out(theta0)
    runs = as_runs(recorded)
    problem = make_problem(scheme, theta_to_model, layout, free, runs, sense, noise, cost, prior)
    stages = _check_horizons(horizons, np.isfinite(np.asarray(runs.observed)))
    check_count("identify", "starts", starts)
    # every update is dear: none is done twice
    loop = Loop("identify", updates, folder, resume, until, progress, label, pause=0.0)
    search = _Search(problem, check_optimizer(optimizer), stages, loop, starts, noise is not None)
    result = search.best_of(spread_starts(layout, free, starts))
    ending = result.outcome
    quality = search.quality(ending.state.free)
    sure = _certainty(problem, ending.state.free)
    sure = sure if quality.explained else sure.without_errors()
    converged = bool(stop_reason(search.optimizer, ending.state, ending.rows))
    theta = layout.theta(ending.state.free)
    return theta, Identified(result.rows, sure, quality, ending.reason, converged, tuple(result.costs))


@dataclass(frozen=True)
class _Result:
    """The best of several starts."""

    outcome: Outcome
    """of its last horizon"""
    rows: list[Row]
    """of all its horizons"""
    costs: list[float]
    """of all starts"""


@dataclass(frozen=True)
class _Search:
    """One start after the other, each through all horizons."""

    problem: Problem
    optimizer: Any
    stages: tuple[int, ...]
    """samples that are compared, one number for each horizon"""
    loop: Loop
    starts: int
    noise_given: bool

    def best_of(self, starts: list[Array]) -> _Result:
        """The start that ends with the lowest cost; one that explains the readings ends the search."""
        if self.loop.folder is None:
            return self._best_of(starts)
        folder = Path(self.loop.folder)
        with hold_folder(folder):
            if not self.loop.resume:
                _remove_searches(folder)
            return self._best_of(starts)

    def _best_of(self, starts: list[Array]) -> _Result:
        best: tuple[Outcome, list[Row]] | None = None
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
                best = outcome, rows
            if outcome.interrupted or (self.starts > 1 and self.quality(outcome.state.free).chi2 < GOOD):
                break
        if best is None:
            raise ValueError(str(refused)) from refused
        return _Result(*best, costs)

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
            updates = _Updates(problem, self.optimizer, state.first, state.digest)
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
        label = f"{self.loop.label}, start {s + 1} of {self.starts}, {samples} samples"
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
        task.advance(1, cost=cost, **{name: named[name] for name in layout.names[:SHOWN]})
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


def _check_horizons(horizons: Sequence[int], present: np.ndarray) -> tuple[int, ...]:
    """Samples to compare in every stage, all of them at last; `present` is (runs, samples, channels)."""
    samples = present.shape[1]
    try:
        stages = tuple(operator.index(horizon) for horizon in horizons)
    except TypeError:
        stages = (0,)
    growing = all(before < after for before, after in pairwise((0, *stages)))
    if not growing or max(stages, default=0) > samples:
        raise ValueError(
            f"identify: horizons are {horizons!r}; give growing whole numbers of up to {samples}"
        )
    if stages and not present[:, : stages[0]].any():
        raise ValueError(
            f"identify: of the first {stages[0]} samples every reading is missing; give a longer first horizon"
        )
    return stages if samples in stages else (*stages, samples)


def _first_samples(problem: Problem, samples: int) -> Problem:
    """The problem with the first samples of every run only; nothing is compiled again."""
    seen = jnp.arange(problem.present.shape[1]) < samples
    return eqx.tree_at(lambda p: p.present, problem, problem.present * seen[:, None])


def _certainty(problem: Problem, free: Array) -> Certainty:
    r, J = look(problem, free)
    layout = problem.layout
    value, slope = jax.jvp(lambda x: layout.flat(layout.theta(x)), (free,), (jnp.ones_like(free),))
    p = len(layout.names)
    # by the data, without the prior
    present = np.asarray(problem.present).reshape(-1) > 0
    noise = problem.residual_cost.variance(np.asarray(r, float)[:-p][present], p)
    return certainty(layout.names, value, slope, J[:-p], noise)
