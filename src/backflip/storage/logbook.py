"""A training's diary: one JSON line per update, and the same scalars for TensorBoard."""

import json
import math
from pathlib import Path
from typing import Any, TextIO

from backflip.storage.files import write_atomically


class Logbook:
    """Rows of figures, each with `update`; in a folder they go to log.jsonl, scalars to TensorBoard too.

    `kept` rows of an earlier part of the run are read back, later ones dropped. Without a folder nothing
    is written down.
    """

    def __init__(self, folder: Path | None, kept: int = 0):
        self.rows: list[dict[str, Any]] = []
        self._lines: TextIO | None = None
        if folder is not None:
            self._open(folder, kept)

    def _open(self, folder: Path, kept: int) -> None:
        from tensorboardX import SummaryWriter

        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "log.jsonl"
        self.rows = _read(file)[:kept]
        with write_atomically(file) as draft:
            draft.write_text("".join(_line(row) for row in self.rows), encoding="utf-8")
        self._lines = file.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=kept)

    def add(self, row: dict[str, Any]) -> None:
        """Append one row, and have the line on its way to the disk before going on."""
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


def _read(file: Path) -> list[dict[str, Any]]:
    """The whole lines of a diary; a line cut short by a crash is dropped."""
    if not file.exists():
        return []
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
