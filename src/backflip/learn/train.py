"""Training: draw robots, roll out, differentiate, update; nothing lost on the way."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.control.arguments import check_key
from backflip.learn.cost_function import OWN, Cost, check_cost, count_steps, figures_of
from backflip.learn.gradients import length
from backflip.learn.loop import Loop, Row, check_count
from backflip.learn.nonfinite import NonFinite, locate_nonfinite
from backflip.storage import Progress, Task

if TYPE_CHECKING:
    import optax

VALIDATION_ROBOTS = 8
"""robots that a policy is judged by, at least"""
VALIDATION_KEY = 2**31 - 1
"""folded into the key of a run; no update gets there"""
SILENT = 10
"""updates in a row whose gradient is 0, after which there is a warning"""


@dataclass(frozen=True)
class Log:
    """How a training went; arrays have one entry per update."""

    rows: list[Row]
    """what log.jsonl holds: update, simulations, cost, norm, seconds, validation where it was measured, and
    the figures of the cost function"""
    best: Any
    """the policy that had the lowest validation cost: that of robots which are the same all along"""
    best_update: int
    """the update it went into; the number of updates for the last policy, -1 where no cost was finite"""
    best_cost: float = np.inf
    """validation cost of the best policy"""
    skipped: list[NonFinite] = field(default_factory=list)
    """updates that were not done, for their gradient was not finite"""
    interrupted: bool = False

    def column(self, name: str) -> np.ndarray:
        """One figure over the updates; NaN where a row does not have it."""
        known = list(dict.fromkeys((*OWN, *(figure for row in self.rows for figure in row))))
        known.remove("skipped")
        if name not in known:
            raise ValueError(f"log: there is no column {name!r}; there are {', '.join(known)}")
        return np.array([row.get(name, np.nan) for row in self.rows], float)

    @property
    def cost(self) -> np.ndarray:
        """(updates,) of the robots that an update learned from"""
        return self.column("cost")

    @property
    def validation(self) -> np.ndarray:
        """(updates,) of robots that are the same all along; NaN where it was not measured"""
        return self.column("validation")


class TrainingState(NamedTuple):
    """Everything the next update needs; a checkpoint is this, written to disk."""

    policy: Any
    optimizer: Any
    best: Any
    best_cost: Array
    best_update: Array
    done: Array
    """updates done"""
    key: Array
    """of the whole run"""


def train(
    cost: Cost,
    policy: Any,
    *,
    optimizer: "optax.GradientTransformation",
    updates: int,
    key: Array,
    robots: int = 1,
    validation_robots: int | None = None,
    validation_every: int = 10,
    folder: str | Path | None = None,
    resume: bool = False,
    until: Callable[[dict[str, Any]], bool] | None = None,
    progress: Progress | None = None,
    label: str = "training",
) -> tuple[Any, Log]:
    """Bring the mean of `cost(policy, key)` over `robots` robots down; returns the policy and a Log.

    The cost function simulates one robot; whatever differs between robots (start, task, model) it draws
    from its key, which is new in every update. It returns a number, or a number and a dictionary of
    figures. Every `validation_every` updates, and at the end, the policy is judged by `validation_robots`
    robots (None: as many as `robots`, 8 at least) whose keys stay the same; `log.best` is the policy that did
    best with them. `folder` gets log.jsonl, TensorBoard's events and a checkpoint every few seconds; with
    `resume` a run that was stopped in any way goes on from there and ends in the same weights, and without
    it a folder that holds a run is refused. `until` is given the row of each update and may end the run. An
    update whose gradient is not finite is not done, but reported. Ctrl-C leaves a checkpoint and raises
    KeyboardInterrupt; without a folder it returns what there is.
    """
    import optax

    _check_arguments(cost, policy, key, optimizer)
    check_count("train", "robots", robots)
    judges = max(robots, VALIDATION_ROBOTS) if validation_robots is None else validation_robots
    check_count("train", "validation_robots", judges)
    check_count("train", "validation_every", validation_every)
    loop = Loop("train", updates, folder, resume, until, progress, label)
    optimizer = optax.with_extra_args_support(optimizer)
    start = optimizer.init(eqx.filter(policy, eqx.is_inexact_array))
    unseen = jnp.asarray(jnp.inf), jnp.asarray(-1), jnp.asarray(0)
    state = _strong(TrainingState(policy, start, policy, *unseen, key))
    steps = count_steps(cost, policy, key)
    training = _Training(cost, optimizer, robots, judges, validation_every, steps, key)
    outcome = loop.run(training, state)
    last, rows = outcome.state, outcome.rows
    if int(last.done) > 0:
        # not in the checkpoint: a run that goes on from there must not depend on where it was stopped
        last = training.compare(last, training.validate(last.policy))
    skipped = [NonFinite(**row["skipped"]) for row in rows if "skipped" in row]
    best_update, best_cost = int(last.best_update), float(last.best_cost)
    return last.policy, Log(rows, last.best, best_update, best_cost, skipped, outcome.interrupted)


def _check_arguments(cost: Any, policy: Any, key: Any, optimizer: Any) -> None:
    """Arguments that are swapped or of the wrong kind, before anything is compiled."""
    import optax

    check_cost(cost)
    check_key("train", key)
    if not isinstance(optimizer, optax.GradientTransformation):
        raise ValueError(f"train: optimizer is {optimizer!r}; give one of optax, such as optax.adam(1e-3)")
    if not jax.tree.leaves(eqx.filter(policy, eqx.is_inexact_array)):
        raise ValueError("train: the policy has no arrays of floats; make its numbers jax arrays")


class _Training:
    """The updates of one training, as Loop wants them."""

    def __init__(
        self, cost: Cost, optimizer: Any, robots: int, judges: int, every: int, steps: int, key: Array
    ):
        self.cost, self.robots, self.every, self.steps, self.key = cost, robots, every, steps, key
        self.update = compiled_update(cost, optimizer, robots)
        self.judge = compiled_mean(cost)
        self.keys = jax.random.split(jax.random.fold_in(key, VALIDATION_KEY), judges)
        self.silent, self.warned = 0, False
        """updates in a row whose gradient was 0, and whether it has been reported"""

    def check(self, state: TrainingState, file: Path) -> None:
        if not np.array_equal(_key_data(state.key), _key_data(self.key)):
            raise ValueError(
                f"{file}: that run had another key; resume with the same, or choose a new folder"
            )

    def stop_reason(self, state: TrainingState, rows: list[Row]) -> str:
        return ""

    def validate(self, policy: Any) -> Array:
        """Mean cost of the robots that are the same all along."""
        return self.judge(policy, self.keys)

    def compare(self, state: TrainingState, cost: Array) -> TrainingState:
        """The state, with its policy for the best if its validation cost is the lowest so far."""
        if not float(cost) < float(state.best_cost):
            return state
        cost = cost.astype(state.best_cost.dtype)
        return state._replace(best=state.policy, best_cost=cost, best_update=state.done)

    def advance(self, state: TrainingState, task: Task) -> tuple[TrainingState, Row]:
        began = time.perf_counter()
        i = int(state.done)
        row: Row = {"update": i, "simulations": self.robots}
        validation: dict[str, float] = {}
        before = state
        if i % self.every == 0:
            judged = self.validate(state.policy)
            validation["validation"] = float(judged)
            row["simulations"] += len(self.keys)
            before = self.compare(state, judged)
        after, report = self.update(before)
        row |= {name: float(value) for name, value in report["figures"].items()} | validation
        row["norm"] = float(report["norm"])
        seconds = time.perf_counter() - began
        row["seconds"] = round(seconds, 4)
        if not report["ok"]:
            culprit = locate_nonfinite(self.cost, before.policy, draw_keys(before, self.robots), i)
            row["skipped"] = culprit._asdict()
            task.say(f"update {i} skipped: {culprit}")
        self._show(row, seconds, task)
        self._warn_of_silence(row["norm"])
        return after, row

    def _warn_of_silence(self, norm: float) -> None:
        """Say once that nothing is learned."""
        self.silent = self.silent + 1 if norm == 0 else 0
        if self.silent == SILENT and not self.warned:
            self.warned = True
            warnings.warn(
                f"train: the gradient was exactly 0 in {SILENT} updates in a row, so nothing is learned: "
                "what the policy does never reaches the cost, or the cost is at its minimum; start in "
                "contact with what is to be moved, add a term for reaching it to the cost, or try "
                "Implicit(smoothness=...), whose gradients are smooth at contacts",
                stacklevel=6,
            )

    def _show(self, row: Row, seconds: float, task: Task) -> None:
        shown: dict[str, Any] = {"cost": row["cost"], "norm": row["norm"]}
        if self.steps:
            shown["robot-steps/s"] = f"{self.robots * self.steps / seconds:,.0f}"
        shown |= {k: v for k, v in row.items() if isinstance(v, float) and k not in OWN}
        task.advance(1, **shown)


def draw_keys(state: TrainingState, robots: int) -> Array:
    """(robots,) keys of this update."""
    return jax.random.split(jax.random.fold_in(state.key, state.done), robots)


def _mean_cost(cost: Cost) -> Callable[[Any, Array], tuple[Array, dict[str, Array]]]:
    """Cost and figures, averaged over keys (robots,)."""

    def mean(policy: Any, keys: Array) -> tuple[Array, dict[str, Array]]:
        one = lambda key: figures_of(cost(policy, key))  # noqa: E731
        if keys.shape[0] == 1:
            return one(keys[0])
        # a robot is a lane
        return jax.tree.map(jnp.mean, jax.vmap(one)(keys))

    return mean


def compiled_mean(cost: Cost) -> Callable[[Any, Array], Array]:
    """Mean cost of a policy over robots with these keys, without its gradient."""
    return eqx.filter_jit(lambda policy, keys: _mean_cost(cost)(policy, keys)[0])


def compiled_update(
    cost: Cost, optimizer: Any, robots: int
) -> Callable[[TrainingState], tuple[TrainingState, dict[str, Any]]]:
    """One update, compiled."""
    mean = _mean_cost(cost)

    @eqx.filter_jit
    def update(state: TrainingState) -> tuple[TrainingState, dict[str, Any]]:
        keys = draw_keys(state, robots)
        (value, named), slope = eqx.filter_value_and_grad(mean, has_aux=True)(state.policy, keys)
        figures = {"cost": value, **named}
        norm = length(slope)
        ok = jnp.isfinite(norm) & jnp.isfinite(value)
        arrays = eqx.filter(state.policy, eqx.is_inexact_array)
        # what optax's line searches ask for
        extra = {
            "grad": slope,
            "value_fn": lambda new, figures: mean(eqx.combine(new, state.policy), keys)[0],
        }
        moves, after = optimizer.update(slope, state.optimizer, arrays, value=value, figures=figures, **extra)
        new = state._replace(
            policy=_choose(ok, eqx.apply_updates(state.policy, moves), state.policy),
            optimizer=_choose(ok, after, state.optimizer),
            done=state.done + 1,
        )
        return new, {"figures": figures, "norm": norm, "ok": ok}

    return update


def _choose(yes: Array, a: Any, b: Any) -> Any:
    """The arrays of a where `yes`, else those of b; what is no array is b's."""
    return jax.tree.map(lambda x, y: jnp.where(yes, x, y) if eqx.is_array(x) else y, a, b)


def _strong(tree: Any) -> Any:
    """The tree without weak types: an update makes them strong, and the next would be compiled anew."""
    numbers, rest = eqx.partition(tree, lambda x: eqx.is_array(x) and jnp.issubdtype(x.dtype, jnp.number))
    return eqx.combine(jax.tree.map(lambda x: jnp.asarray(x, x.dtype), numbers), rest)


def _key_data(key: Array) -> Array:
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
