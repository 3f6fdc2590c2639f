"""The log of a run: one JSON line per update, and the same scalars for TensorBoard."""

import json
import math
import warnings
from pathlib import Path
from typing import Any, TextIO

from backflip.storage.files import write_atomically


class Logbook:
    """Rows of figures, each with `update`; in a folder they go to log.jsonl, scalars to TensorBoard too.

    The rows of the first `done` updates of an earlier part of the run are read back, later ones dropped;
    there is a warning where some are missing. Without a folder nothing is written.
    """

    def __init__(self, folder: Path | None, done: int = 0):
        self.rows: list[dict[str, Any]] = []
        self._lines: TextIO | None = None
        if folder is not None:
            self._open(folder, done)

    def _open(self, folder: Path, done: int) -> None:
        from tensorboardX import SummaryWriter

        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "log.jsonl"
        self.rows = _rows_before(file, done)
        with write_atomically(file) as draft:
            draft.write_text("".join(_line(row) for row in self.rows), encoding="utf-8")
        self._lines = file.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=done)

    def add(self, row: dict[str, Any]) -> None:
        """Append one row; its line is on the way to the disk when this returns."""
        self.rows.append(row)
        if self._lines is None:
            return
        self._lines.write(_line(row))
        self._lines.flush()
        for name, value in row.items():
            if isinstance(value, int | float) and name != "update":
                self._board.add_scalar(name, value, row["update"])

    def close(self) -> None:
        """Flush everything."""
        if self._lines is not None:
            self._lines.close()
            self._board.close()


def _line(row: dict[str, Any]) -> str:
    """A row as strict JSON, which knows no NaN and no infinity: they are null."""
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json.dumps(finite) + "\n"


def _rows_before(file: Path, done: int) -> list[dict[str, Any]]:
    """The rows of updates before `done`, one each, in order; a warning where some are missing."""
    rows, unreadable = read_log(file)
    known = {row["update"]: row for row in rows if 0 <= row["update"] < done}
    if missing := [i for i in range(done) if i not in known]:
        lines = f": cannot read line {', '.join(map(str, unreadable[:5]))}" if unreadable else ""
        which = f"{missing[0]} to {missing[-1]}" if len(missing) > 1 else f"{missing[0]}"
        warnings.warn(
            f"{file}{lines}; {len(missing)} of {done} rows are missing (update {which})", stacklevel=4
        )
    return [known[i] for i in sorted(known)]


def read_log(file: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of a log, and the numbers of lines that cannot be read, counted from 1."""
    if not file.exists():
        return [], []
    rows: list[dict[str, Any]] = []
    unreadable = []
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and type(row.get("update")) is int:
            rows.append(row)
        else:
            unreadable.append(number)
    return rows, unreadable
