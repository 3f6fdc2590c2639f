"""The table of all gradients: measured, written down, shown."""

import os
import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import jax

from backflip.experiments.base import Progress, read_result, save_result
from backflip.experiments.certificates.gradients import (
    CASES,
    DEFAULT,
    FLOOR,
    NAMES,
    SCHEMES,
    STEPS,
    TOLERANCE,
    Cell,
    compare_or_fail,
    programs,
)
from backflip.experiments.tables import markdown, put_table

MARK = "matrix"
"""What marks the table's place on its page."""


def write_table(
    out: Path,
    solvers: Sequence[str] = tuple(SCHEMES),
    cases: Sequence[str] = NAMES,
    *,
    page: Path | None = None,
) -> str:
    """Compare everything, write out/gradients.json, and return the table; it goes into `page` too.

    What the file has of other solvers and cases than those asked for stays.
    """
    # most programs here run for less time than they build; XLA reads this when JAX first computes
    quick = " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + quick
    jax.config.update("jax_enable_x64", True)
    began, asked = time.perf_counter(), list(product(cases, solvers))
    cells = [c for c in stored(out / "gradients.json", SCHEMES) if (c.case, c.solver) not in asked]
    with Progress().task("gradients", len(STEPS) * len(asked)) as task:
        for name, solver in asked:
            for steps in STEPS:
                cells.append(compare_or_fail(CASES[NAMES.index(name)], steps, solver))
                task.advance(case=name, steps=steps, error=cells[-1].error)
            programs.cache_clear()
    cells.sort(key=lambda c: (NAMES.index(c.case), list(SCHEMES).index(c.solver), c.steps))
    result = {
        "error": max(cell.error for cell in cells),
        "tolerance": TOLERANCE,
        "floor": FLOOR,
        "cells": [{**vars(cell), "ok": cell.ok} for cell in cells],
    }
    save_result(out / "gradients.json", "gradients", result, seed=0, seconds=time.perf_counter() - began)
    text = table(cells)
    if page:
        put_table(page, MARK, text)
    return text


def stored(path: Path, solvers: Iterable[str]) -> list[Cell]:
    """Cells of some solvers that a file has."""
    if not path.is_file():
        return []
    cells = read_result(path)["cells"]
    entries = [Cell(**{name: value for name, value in cell.items() if name != "ok"}) for cell in cells]
    return [cell for cell in entries if cell.solver in solvers]


def table(cells: list[Cell]) -> str:
    """Markdown: a row per case and solver, a column per number of steps; the worst error and its leaf."""
    by_place = {(cell.case, cell.solver, cell.steps): cell for cell in cells}
    columns = sorted({cell.steps for cell in cells})
    heads = ["", *(f"{n} step{'s' * (n > 1)}" for n in columns)]
    rows = []
    for name, solver in product(dict.fromkeys(cell.case for cell in cells), SCHEMES):
        if (name, solver, columns[0]) in by_place:
            label = name if solver == DEFAULT else f"{name}, {solver}"
            rows.append([label, *(_entry(by_place[name, solver, n]) for n in columns)])
    return markdown(heads, rows)


def _entry(cell: Cell) -> str:
    if cell.failure:
        return f"✗ {cell.failure}"
    mark = "" if cell.ok else "✗ " if cell.happens else "✗ did not happen, "
    return f"{mark}{cell.error:.0e} `{cell.leaf}`"
