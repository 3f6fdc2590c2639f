"""System identification: find the parameters with which a simulation does what was observed."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from backflip.learn.fit_quality import Attempt, FitQuality
from backflip.learn.least_squares import Problem, look
from backflip.learn.loop import Loop, Row, check_count
from backflip.learn.parameters import Layout, lay_out
from backflip.learn.problem import check_functions, check_optimizer, make_problem
from backflip.learn.recording import Recording, as_runs
from backflip.learn.residual_cost import ResidualCost, Square
from backflip.learn.search import Search, stop_reason
from backflip.learn.starts import spread_starts
from backflip.model import Model
from backflip.sense import observe
from backflip.storage import Progress

if TYPE_CHECKING:
    import optax
    import optimistix as optx


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
    assumed: tuple[str, ...] = ()
    """what the recording does not say, and what was taken instead"""
    attempt: Attempt | None = None
    """how the search was made, and how far it came from its guess"""

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
        if self.attempt is not None and not self.quality.explained:
            if self.attempt.hardly_moved:
                lines.append("the search hardly moved from its guess: begin with another one")
            lines.append(self.attempt.advice())
        if len(self.start_costs) > 1:
            costs = ", ".join(f"{cost:.3g}" for cost in self.start_costs)
            lines.append(f"starts ended at a cost of {costs}")
        lines += [f"assumed: {sentence}" for sentence in self.assumed]
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
    spread: float = 1.0,
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
    explains the readings within their noise, and takes the best. `spread` is how wide: the standard deviation
    of a positive parameter's logarithm, 1.0 for two of three guesses within a factor of e, or of a plain
    parameter in units of its first guess; intervals are covered evenly. `horizons` compares so many samples
    of every run at first, such as (10, 30), and all at last. `updates` and `until`, which is given the row of
    each update and may end a search, are for each of these searches. With `folder` updates leave rows in
    log.jsonl and checkpoints, from which `resume` goes on.
    """
    check_functions(scheme, theta_to_model)
    layout, free = lay_out(theta0)
    runs = as_runs(recorded)
    problem = make_problem(scheme, theta_to_model, layout, free, runs, sense, noise, cost, prior)
    stages = _check_horizons(horizons, np.isfinite(np.asarray(runs.observed)))
    check_count("identify", "starts", starts)
    guesses = spread_starts(layout, free, starts, spread)
    # every update is dear: none is done twice
    loop = Loop("identify", updates, folder, resume, until, progress, label, pause=0.0)
    search = Search(problem, check_optimizer(optimizer), stages, loop, starts, noise is not None)
    result = search.best_of(guesses)
    ending = result.outcome
    quality = search.quality(ending.state.free)
    sure = _certainty(problem, ending.state.free)
    sure = sure if quality.explained else sure.without_errors()
    converged = bool(stop_reason(search.optimizer, ending.state, ending.rows))
    moved = float(jnp.max(jnp.abs(ending.state.free - result.guess)))
    ran_out = int(ending.state.done) >= updates and not converged
    attempt = Attempt(updates, starts, spread, stages, ran_out, moved)
    assumed = _assumed(theta_to_model, layout, free, runs)
    theta, costs = layout.theta(ending.state.free), tuple(result.costs)
    return theta, Identified(result.rows, sure, quality, ending.reason, converged, costs, assumed, attempt)


def _assumed(theta_to_model: Callable, layout: Layout, free: Array, runs: Recording) -> tuple[str, ...]:
    """What the recording leaves open."""
    built = eqx.filter_eval_shape(lambda x: theta_to_model(layout.theta(x)), free)
    model, starts_known = (built[0], True) if isinstance(built, tuple) else (built, runs.start is not None)
    sentences = []
    if not starts_known:
        sentences.append("every run starts at rest(model), as Recording has no start")
    if runs.controls is None and model.controls:
        sentences.append(f"all {model.controls} controls are 0, as Recording has no controls")
    return tuple(sentences)


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
            f"identify: the first {stages[0]} samples are all missing; give a longer first horizon"
        )
    return stages if samples in stages else (*stages, samples)


def _certainty(problem: Problem, free: Array) -> Certainty:
    r, J = look(problem, free)
    layout = problem.layout
    value, slope = jax.jvp(lambda x: layout.flat(layout.theta(x)), (free,), (jnp.ones_like(free),))
    p = len(layout.names)
    # by the data, without the prior
    present = np.asarray(problem.present).reshape(-1) > 0
    noise = problem.residual_cost.variance(np.asarray(r, float)[:-p][present], p)
    return certainty(layout.names, value, slope, J[:-p], noise)
