"""Bars on stderr, so that stdout stays clean for results."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """Progress on stderr; `figures` are the latest."""

    quiet: bool = False
    figures: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def task(self, label: str, total: int | None = None, done: int = 0) -> Iterator["Task"]:
        """A line with a bar that starts at `done`; without a total it only shows that something moves."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bars
        from rich.table import Column

        columns = (
            TextColumn("{task.description}", table_column=Column(min_width=8)),
            BarColumn(bar_width=12),
            # in a narrow window the figures give way, not the times
            MofNCompleteColumn(table_column=Column(min_width=7)),
            TimeElapsedColumn(table_column=Column(min_width=7)),
            TextColumn("left", table_column=Column(min_width=4)),
            TimeRemainingColumn(table_column=Column(min_width=7)),
            TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        )
        with Bars(*columns, console=Console(stderr=True), disable=self.quiet) as bars:
            yield Task(self, bars, bars.add_task(label, total=total, completed=done, text=""))


@dataclass(frozen=True)
class Task:
    """One line of Progress."""

    progress: Progress
    bars: Any
    line: Any

    def advance(self, count: int = 1, **figures: Any) -> None:
        """Go on by `count`, and show figures by name: `task.advance(error=0.1, evaluations=12)`."""
        self.progress.figures.update(figures)
        text = "  ".join(f"{name} {_short(value)}" for name, value in figures.items())
        self.bars.update(self.line, advance=count, **({"text": text} if text else {}))

    def say(self, text: str) -> None:
        """A line above the bars that stays."""
        if not self.progress.quiet:
            self.bars.console.print(text, markup=False, highlight=False)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
