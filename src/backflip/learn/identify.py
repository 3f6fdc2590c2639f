"""System identification: find the parameters with which a simulation does what was observed."""

import time
from collections.abc import Callable
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
from backflip.learn.least_squares import (
    Problem,
    Standing,
    advance,
    begin,
    built_model,
    is_first_order,
    look,
)
from backflip.learn.parameters import Layout, lay_out
from backflip.learn.recording import Recording, as_runs
from backflip.learn.residual_cost import ResidualCost, Square
from backflip.model import Model, rest
from backflip.sense import observe
from backflip.storage import Logbook, Progress, Task, load_weights, save_weights

if TYPE_CHECKING:
    import optax
    import optimistix as optx

OWN = ("update", "cost", "seconds")
"""names of figures that every row has"""
DAMPING = 1e-2
"""of the first step, relative to the largest curvature"""
STALLED, LITTLE = 6, 1e-6
"""updates in a row that lower the cost by no more than this part, after which a search ends"""
SHOWN = 4
"""parameters on the progress bar"""


@dataclass(frozen=True)
class Identified:
    """How an identification went."""

    rows: list[dict[str, Any]]
    """one per update: update, cost, seconds, and every parameter by name"""
    certainty: Certainty
    """standard errors, correlations, and what cannot be identified"""
    converged: bool
    """whether the method came to its end before the updates did"""

    def column(self, name: str) -> np.ndarray:
        """One figure over the updates; NaN where it is missing."""
        return np.array([row.get(name, np.nan) for row in self.rows], float)

    @property
    def cost(self) -> np.ndarray:
        """(updates,) of the best parameters so far"""
        return self.column("cost")

    def report(self) -> str:
        """The parameters with their errors, and what the data cannot tell."""
        return self.certainty.report()


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
    least-squares solver of optimistix or an optimiser of optax; None: levenberg_marquardt(). With `folder`
    every update leaves a row in log.jsonl and a checkpoint, from which `resume` goes on.
    """
    layout, free = lay_out(theta0)
    runs = as_runs(recorded)
    problem = _problem(scheme, theta_to_model, layout, free, runs, sense, noise, cost, prior)
    optimizer = _check_optimizer(optimizer)
    if updates < 1:
        raise ValueError(f"identify: updates is {updates}; give at least 1")
    if resume and folder is None:
        raise ValueError("identify: resume needs the folder of the run that was stopped; give folder=...")
    problem = _scaled(problem, free)
    standing = begin(problem, optimizer, free)
    place, done = None if folder is None else Path(folder), 0
    if resume and place is not None:
        standing, done = _load(place, standing)
    book = Logbook(place, done)
    run = _Run(problem, optimizer, place, book, until)
    show = progress or Progress()
    try:
        with show.task(label, total=updates, done=done) as task:
            standing, converged = run.go(standing, done, updates, task)
    finally:
        book.close()
    theta = layout.theta(standing.free)
    return theta, Identified(book.rows, _certainty(problem, standing.free), converged)


@dataclass(frozen=True)
class _Run:
    """The loop around the updates."""

    problem: Problem
    optimizer: Any
    folder: Path | None
    book: Logbook
    until: Callable[[dict[str, Any]], bool] | None

    def go(self, standing: Standing, done: int, updates: int, task: Task) -> tuple[Standing, bool]:
        """All updates that are left; where they end, and whether the method said so."""
        if self._stalls():
            return standing, True
        for i in range(done, updates):
            began = time.perf_counter()
            standing, ended = advance(self.problem, self.optimizer, standing)
            row = self._row(i, standing, began)
            self.book.add(row)
            if self.folder:
                _save(self.folder, standing, i + 1)
            shown = {name: row[name] for name in self.problem.layout.names[:SHOWN]}
            task.advance(1, cost=row["cost"], **shown)
            if bool(ended) or self._stalls():
                return standing, True
            if self.until and self.until(row):
                break
        return standing, False

    def _stalls(self) -> bool:
        """Whether the last updates, before a stop too, gained next to nothing; never said of first order."""
        costs = [row["cost"] for row in self.book.rows[-STALLED - 1 :]]
        if is_first_order(self.optimizer) or len(costs) <= STALLED:
            return False
        return all(before - after <= LITTLE * after for before, after in pairwise(costs))

    def _row(self, i: int, standing: Standing, began: float) -> dict[str, Any]:
        layout = self.problem.layout
        cost = float(standing.cost)
        values = np.asarray(layout.flat(layout.theta(standing.free)), float).tolist()
        seconds = round(time.perf_counter() - began, 4)
        named = dict(zip(layout.names, values, strict=True))
        return {"update": i, "cost": cost, "seconds": seconds, **named}


def _problem(
    scheme: Scheme, theta_to_model: Callable, layout: Layout, free: Array, runs: Recording,
    sense: Callable, noise: Any, cost: ResidualCost, prior: float | None = None,
) -> Problem:  # fmt: skip
    if clash := sorted(set(OWN) & set(layout.names)):
        raise ValueError(f'identify: the log has a figure "{clash[0]}"; give that parameter another name')
    if not isinstance(cost, ResidualCost):
        raise ValueError(f"identify: cost is {cost!r}; give Square(), Huber() or Cauchy()")
    if noise is None and not isinstance(cost, Square):
        raise ValueError(
            "identify: a robust cost must know what is far off; give noise, the readings' standard deviation"
        )
    if prior is not None and not 0 < prior < np.inf:
        raise ValueError(f"identify: prior is {prior!r}; give a positive number such as 0.3, or None")
    _check_channels(theta_to_model, layout, free, runs, sense)
    observed = np.asarray(runs.observed)
    present = np.isfinite(observed)
    filled = eqx.tree_at(lambda r: r.observed, runs, jnp.asarray(np.where(present, observed, 0)))
    dtype = free.dtype
    return Problem(
        scheme=scheme,
        recorded=filled,
        present=jnp.asarray(present, dtype),
        noise=jnp.asarray(_noise(observed, noise), dtype),
        scale=jnp.ones((), dtype),
        first=free,
        trust=jnp.asarray(0.0 if prior is None else 1 / prior, dtype),
        residual_cost=cost,
        layout=layout,
        theta_to_model=theta_to_model,
        sense=sense,
    )


def _check_channels(theta_to_model: Callable, layout: Layout, free: Array, runs: Recording, sense) -> None:
    """Whether the model can be built, and observes as many numbers as were recorded."""

    def reading(free: Array) -> Array:
        model = built_model(theta_to_model, layout.theta(free))
        if not isinstance(model, Model):
            raise ValueError(f"identify: theta_to_model returned {type(model).__name__}; return a Model")
        return sense(model, rest(model))

    wanted = eqx.filter_eval_shape(reading, free).shape
    have = runs.observed.shape[-1]
    if wanted != (have,):
        raise ValueError(
            f"identify: readings have {have} channels, but the model's sensors give {wanted}; "
            "record what they give, or say with `sense` what was recorded"
        )


def _noise(observed: np.ndarray, noise: Any) -> np.ndarray:
    """(channels,) what residuals are divided by."""
    channels = observed.shape[-1]
    if noise is None:
        flat = observed.reshape(-1, channels)
        empty = np.isnan(flat).all(0)
        spread = np.nanstd(np.where(empty, 0.0, flat), axis=0)
        most = spread.max()
        # a channel that does not move is counted by those that do
        return np.where(spread > 1e-6 * most, spread, most if most > 0 else 1.0)
    given = np.asarray(noise, float)
    if given.shape not in ((), (channels,)) or not np.all(np.isfinite(given) & (given > 0)):
        raise ValueError(f"identify: noise is {noise!r}; give one positive number, or {channels}")
    return np.broadcast_to(given, (channels,)).copy()


def _check_optimizer(optimizer: Any) -> Any:
    import optimistix as optx

    from backflip.learn.levenberg import levenberg_marquardt

    if optimizer is None:
        return levenberg_marquardt()
    if is_first_order(optimizer) or isinstance(optimizer, optx.AbstractLeastSquaresSolver):
        return optimizer
    raise ValueError(
        f"identify: optimizer is {optimizer!r}; give levenberg_marquardt(), another least-squares solver of "
        "optimistix, or an optimiser of optax"
    )


def _scaled(problem: Problem, free: Array) -> Problem:
    """The problem with residuals scaled so that damping 1 is DAMPING of the largest curvature."""
    r, J = look(problem, free)
    size = float(jnp.linalg.norm(J, 2)) if bool(jnp.all(jnp.isfinite(J))) else np.nan
    if not (np.isfinite(size) and bool(jnp.all(jnp.isfinite(r)))):
        raise ValueError(
            "identify: the simulation of theta0, or its derivative, is not finite; start from another guess, "
            "or record shorter runs"
        )
    if size == 0:
        raise ValueError(
            "identify: nothing in theta0 changes what is observed; does theta_to_model use it, and do the "
            "sensors see it?"
        )
    scale = jnp.asarray(1 / (size * DAMPING**0.5), free.dtype)
    return eqx.tree_at(lambda p: p.scale, problem, scale)


def _certainty(problem: Problem, free: Array) -> Certainty:
    r, J = look(problem, free)
    layout = problem.layout
    value, slope = jax.jvp(lambda x: layout.flat(layout.theta(x)), (free,), (jnp.ones_like(free),))
    p = len(layout.names)
    # by the data alone
    present = np.asarray(problem.present).reshape(-1) > 0
    noise = problem.residual_cost.variance(np.asarray(r, float)[:-p][present], p)
    return certainty(layout.names, value, slope, J[:-p], noise)


def _save(folder: Path, standing: Standing, done: int) -> None:
    save_weights(folder / "checkpoint.npz", (standing, jnp.asarray(done)))


def _load(folder: Path, like: Standing) -> tuple[Standing, int]:
    file = folder / "checkpoint.npz"
    if not file.exists():
        return like, 0
    standing, done = load_weights(file, (like, jnp.asarray(0)))
    return standing, int(done)
