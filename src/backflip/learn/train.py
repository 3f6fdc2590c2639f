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

from backflip.learn.gradients import length
from backflip.learn.nonfinite import NonFinite, locate_nonfinite
from backflip.learn.probe import Probe, bare, probing
from backflip.storage import Logbook, Progress, Task, load_weights, save_weights

if TYPE_CHECKING:
    import optax

Cost = Callable[[Any, Array], Any]
"""cost(policy, key) of one robot: a number, or a number and a dictionary of figures to be told"""

OWN = ("update", "cost", "norm", "seconds", "skipped")
"""names of figures that every row has"""

PAUSE = 10.0
"""[s] between checkpoints"""


@dataclass(frozen=True)
class Log:
    """How a training went; arrays have one entry per update."""

    rows: list[dict[str, Any]]
    """what log.jsonl holds: update, cost, norm, seconds, and the figures of the cost function"""
    best: Any
    """the policy that had the lowest cost"""
    best_update: int
    """the update it went into; -1 where no cost was finite"""
    skipped: list[NonFinite] = field(default_factory=list)
    """updates that were not done, for their gradient was not finite"""
    interrupted: bool = False

    def column(self, name: str) -> np.ndarray:
        """One figure over the updates; NaN where it is missing."""
        return np.array([row.get(name, np.nan) for row in self.rows], float)

    @property
    def cost(self) -> np.ndarray:
        """(updates,)"""
        return self.column("cost")


class Course(NamedTuple):
    """Everything the next update needs; a checkpoint is this, written down."""

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
    folder: str | Path | None = None,
    resume: bool = False,
    until: Callable[[dict[str, Any]], bool] | None = None,
    progress: Progress | None = None,
    label: str = "training",
) -> tuple[Any, Log]:
    """Bring the mean of `cost(policy, key)` over `robots` robots down; returns the policy and a Log.

    The cost function simulates one robot; whatever differs between robots (start, task, model) it draws
    from its key, which is new in every update. It returns a number, or a number and a dictionary of
    figures. `folder` gets log.jsonl, TensorBoard's events and a checkpoint every few seconds; with
    `resume` a run that was stopped in any way goes on from there and ends in the same weights.
    `until` is given the row of each update and may end the run. An update whose gradient is not finite
    is not done, but reported. Ctrl-C leaves a checkpoint; without a folder it returns what there is.
    """
    import optax

    if robots < 1:
        raise ValueError(f"train: robots is {robots}; give at least 1")
    optimizer = optax.with_extra_args_support(optimizer)
    arrays = eqx.filter(policy, eqx.is_inexact_array)
    if not jax.tree.leaves(arrays):
        raise ValueError("train: the policy has no arrays of floats; make its numbers jax arrays")
    unseen = jnp.asarray(jnp.inf), jnp.asarray(-1), jnp.asarray(0)
    course = _strong(Course(policy, optimizer.init(arrays), policy, *unseen, key))
    place = None if folder is None else Path(folder)
    if resume:
        course = _load(place, course)
    elif place is not None:
        _save(place, course)  # over that of an earlier run, which a kill would leave to be resumed
    book = Logbook(place, int(course.done))
    steps = _count_steps(cost, policy, key, robots)
    run = _Run(cost, _advance(cost, optimizer, robots), robots, steps, place, book, until)
    show = progress or Progress()
    try:
        with show.task(label, total=updates, done=int(course.done)) as task:
            course, interrupted = run.go(course, updates, task)
    finally:
        book.close()
    skipped = [NonFinite(**row["skipped"]) for row in book.rows if "skipped" in row]
    return course.policy, Log(book.rows, course.best, int(course.best_update), skipped, interrupted)


@dataclass(frozen=True)
class _Run:
    """The loop around the updates."""

    cost: Cost
    advance: Callable
    robots: int
    steps: int
    folder: Path | None
    book: Logbook
    until: Callable[[dict[str, Any]], bool] | None

    def go(self, course: Course, updates: int, task: Task) -> tuple[Course, bool]:
        """All updates that are left; the course they end in, and whether Ctrl-C ended them."""
        saved = time.perf_counter()
        try:
            for i in range(int(course.done), updates):
                began = time.perf_counter()
                after, told = self.advance(course)
                row = self._row(i, told, course, began, task)
                self.book.add(row)
                # last: Ctrl-C while waiting for the figures does this update again, row and all
                course = after
                if self.folder and time.perf_counter() - saved > PAUSE:
                    _save(self.folder, course)
                    saved = time.perf_counter()
                if self.until and self.until(row):
                    break
        except KeyboardInterrupt:
            if self.folder:
                _save(self.folder, course)
                raise
            warnings.warn(f"train: interrupted after {int(course.done)} updates", stacklevel=3)
            return course, True
        if self.folder:
            _save(self.folder, course)
        return course, False

    def _row(self, i: int, told: dict[str, Any], before: Course, began: float, task: Task) -> dict[str, Any]:
        """The figures of one update, shown on the bar."""
        row: dict[str, Any] = {"update": i, **{name: float(value) for name, value in told["figures"].items()}}
        row["norm"] = float(told["norm"])
        seconds = time.perf_counter() - began
        row["seconds"] = round(seconds, 4)
        if not told["ok"]:
            culprit = locate_nonfinite(self.cost, before.policy, _draw(before, self.robots), i)
            row["skipped"] = culprit._asdict()
            task.say(f"update {i} skipped: {culprit}")
        shown: dict[str, Any] = {"cost": row["cost"], "norm": row["norm"]}
        if self.steps:
            shown["robot-steps/s"] = f"{self.robots * self.steps / seconds:,.0f}"
        shown |= {k: v for k, v in row.items() if isinstance(v, float) and k not in OWN}
        task.advance(1, **shown)
        return row


def _draw(course: Course, robots: int) -> Array:
    """(robots,) keys of this update."""
    return jax.random.split(jax.random.fold_in(course.key, course.done), robots)


def _advance(cost: Cost, optimizer: Any, robots: int) -> Callable[[Course], tuple[Course, dict[str, Any]]]:
    """One update, compiled."""

    def mean(policy: Any, keys: Array) -> tuple[Array, dict[str, Array]]:
        one = lambda key: figures_of(cost(policy, key))  # noqa: E731
        if robots == 1:
            return one(keys[0])
        # a robot is a lane
        return jax.tree.map(jnp.mean, jax.vmap(one)(keys))

    @eqx.filter_jit
    def advance(course: Course) -> tuple[Course, dict[str, Any]]:
        keys = _draw(course, robots)
        (value, told), slope = eqx.filter_value_and_grad(mean, has_aux=True)(course.policy, keys)
        figures = {"cost": value, **told}
        norm = length(slope)
        ok = jnp.isfinite(norm) & jnp.isfinite(value)
        arrays = eqx.filter(course.policy, eqx.is_inexact_array)
        # what optax's line searches ask for
        extra = {
            "grad": slope,
            "value_fn": lambda new, figures: mean(eqx.combine(new, course.policy), keys)[0],
        }
        moves, after = optimizer.update(
            slope, course.optimizer, arrays, value=value, figures=figures, **extra
        )
        better = ok & (value < course.best_cost)
        new = Course(
            policy=_choose(ok, eqx.apply_updates(course.policy, moves), course.policy),
            optimizer=_choose(ok, after, course.optimizer),
            best=_choose(better, course.policy, course.best),
            best_cost=jnp.where(better, value, course.best_cost),
            best_update=jnp.where(better, course.done, course.best_update),
            done=course.done + 1,
            key=course.key,
        )
        return new, {"figures": figures, "norm": norm, "ok": ok}

    return advance


def figures_of(answer: Any) -> tuple[Array, dict[str, Array]]:
    """What a cost function returned, as a number and a dictionary."""
    value, told = answer if isinstance(answer, tuple) else (answer, {})
    if jnp.shape(value) != ():
        raise ValueError(f"train: cost has shape {jnp.shape(value)}; return one number, such as its mean")
    for name, figure in told.items():
        if name in OWN or jnp.shape(figure) != ():
            raise ValueError(f"train: figure {name!r}: give one number under another name than {OWN}")
    return value, told


def _choose(yes: Array, a: Any, b: Any) -> Any:
    """The arrays of a where `yes`, else those of b; what is no array is b's."""
    return jax.tree.map(lambda x, y: jnp.where(yes, x, y) if eqx.is_array(x) else y, a, b)


def _strong(tree: Any) -> Any:
    """The tree without weak types: an update makes them strong, and the next would be compiled anew."""
    numbers, rest = eqx.partition(tree, lambda x: eqx.is_array(x) and jnp.issubdtype(x.dtype, jnp.number))
    return eqx.combine(jax.tree.map(lambda x: jnp.asarray(x, x.dtype), numbers), rest)


def _count_steps(cost: Cost, policy: Any, key: Array, robots: int) -> int:
    """Steps that one robot makes in one update; 0 where they cannot be seen."""
    with probing(Probe()) as probe:
        eqx.filter_eval_shape(lambda p, k: figures_of(bare(cost)(p, k)), policy, key)
    return probe.steps


def _save(folder: Path, course: Course) -> None:
    save_weights(folder / "checkpoint.npz", course)


def _load(folder: Path | None, like: Course) -> Course:
    if folder is None:
        raise ValueError("train: resume needs the folder of the run that was stopped; give folder=...")
    file = folder / "checkpoint.npz"
    if not file.exists():
        return like
    course = load_weights(file, like)
    if not np.array_equal(jax.random.key_data(course.key), jax.random.key_data(like.key)):
        raise ValueError(f"{file}: that run had another key; resume with the same, or choose a new folder")
    return course
