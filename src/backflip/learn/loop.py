"""The loop that training and identification share: log, progress, checkpoints, resume, Ctrl-C."""

import operator
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jax import Array

from backflip.storage import (
    Logbook,
    MisfitFile,
    Progress,
    Task,
    has_checkpoint,
    hold_folder,
    load_checkpoint,
    read_log,
    remove_checkpoints,
    save_checkpoint,
)

PAUSE = 10.0
"""[s] between checkpoints"""

Row = dict[str, Any]


def check_count(who: str, name: str, value: Any) -> None:
    """Raise ValueError where an argument is no whole number from 1 up."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{who}: {name} is {value!r}; give a whole number, at least 1")


class State(Protocol):
    """Everything the next update needs, a pytree; a checkpoint is this, written to disk."""

    @property
    def done(self) -> Array:
        """updates done"""
        ...


class Updates(Protocol):
    """What is repeated."""

    def check(self, state: Any, file: Path) -> None:
        """Raise ValueError where a state that was read from a file belongs to another run."""

    def advance(self, state: Any, task: Task) -> tuple[Any, Row]:
        """One update: the state after it, and its row of figures."""
        ...

    def stop_reason(self, state: Any, rows: list[Row]) -> str:
        """Why there is nothing left to do, or "" while there is."""
        ...


@dataclass(frozen=True)
class Outcome:
    """How a loop ended."""

    state: Any
    rows: list[Row]
    reason: str
    """why it ended"""
    interrupted: bool = False
    """whether Ctrl-C ended it"""


@dataclass(frozen=True)
class Loop:
    """How to run updates; `who` is the function that errors speak of."""

    who: str
    updates: int
    folder: str | Path | None = None
    resume: bool = False
    until: Callable[[Row], bool] | None = None
    progress: Progress | None = None
    label: str = ""
    pause: float | None = None
    """[s] between checkpoints; None: PAUSE"""
    held: bool = False
    """whether the caller holds the folder already"""

    def __post_init__(self):
        check_count(self.who, "updates", self.updates)
        if self.resume and self.folder is None:
            raise ValueError(
                f"{self.who}: resume needs the folder of the run that was stopped; give folder=..."
            )

    def run(self, updates: Updates, state: Any) -> Outcome:
        """All updates that are left."""
        with self._opened(updates, state) as (folder, state, book):
            done = int(state.done)
            with (self.progress or Progress()).task(self.label, total=self.updates, done=done) as task:
                if self.resume and not done:
                    task.say(f"{self.who}: {folder} has no updates to resume from; starting anew")
                return self._go(updates, state, folder, book, task)

    @contextmanager
    def _opened(self, updates: Updates, state: Any) -> Iterator[tuple[Path | None, Any, Logbook]]:
        """The folder, held; the state to go on from; and the log."""
        if self.folder is None:
            yield None, state, Logbook(None)
            return
        folder = Path(self.folder)
        with nullcontext() if self.held else hold_folder(folder):
            state = self._first_state(updates, folder, state)
            book = Logbook(folder, int(state.done))
            try:
                yield folder, state, book
            finally:
                book.close()

    def _first_state(self, updates: Updates, folder: Path, state: Any) -> Any:
        if self.resume:
            stored = self._stored(folder, state)
            if stored is None:
                return state
            updates.check(stored, folder / "checkpoint.npz")
            return stored
        self._refuse_earlier_run(folder)
        remove_checkpoints(folder)
        save_checkpoint(folder, state)
        return state

    def _stored(self, folder: Path, state: Any) -> Any | None:
        """What the checkpoint in a folder holds; None: there is none."""
        try:
            return load_checkpoint(folder, state)
        except MisfitFile as error:
            differ = [p for p in ("policy", "optimizer") if any(n.startswith(f".{p}") for n in error.names)]
            what = " or ".join(differ or ["problem"])
            raise ValueError(
                f"{self.who}: that run had another {what}; resume with the same, or choose a new folder "
                f"({error})"
            ) from None

    def _refuse_earlier_run(self, folder: Path) -> None:
        """Raise ValueError where a folder holds updates that would be lost."""
        log = folder / "log.jsonl"
        rows, unreadable = read_log(log)
        # an empty log: the run failed before its first update ended
        if has_checkpoint(folder) and (rows or unreadable or not log.exists()):
            raise ValueError(
                f"{self.who}: {folder} holds an earlier run (updates: {len(rows)}); go on with it by "
                "resume=True, choose another folder, or delete this one"
            )

    def _go(self, updates: Updates, state: Any, folder: Path | None, book: Logbook, task: Task) -> Outcome:
        saved = time.perf_counter()
        reason = self._stop_reason(updates, state, book.rows)
        try:
            while not reason:
                after, row = updates.advance(state, task)
                book.add(row)
                # last: Ctrl-C while waiting for the figures does this update again, row and all
                state = after
                if folder and time.perf_counter() - saved > (PAUSE if self.pause is None else self.pause):
                    save_checkpoint(folder, state)
                    saved = time.perf_counter()
                reason = self._stop_reason(updates, state, book.rows)
                if self.until and self.until(row):
                    reason = "until(row) was true"
        except KeyboardInterrupt:
            stopped = f"{self.who}: interrupted after {int(state.done)} updates"
            if folder:
                save_checkpoint(folder, state)
                # from None: the last words on the screen are these, not those of a compiled function
                raise KeyboardInterrupt(f"{stopped}; {folder} has them, go on with resume=True") from None
            warnings.warn(f"{stopped}; returning what there is", stacklevel=4)
            return Outcome(state, book.rows, "interrupted", interrupted=True)
        if folder:
            save_checkpoint(folder, state)
        return Outcome(state, book.rows, reason)

    def _stop_reason(self, updates: Updates, state: Any, rows: list[Row]) -> str:
        all_done = "all updates are done" if int(state.done) >= self.updates else ""
        return updates.stop_reason(state, rows) or all_done
