"""The committed tables are whole, pass, and stand in the docs as they are.

Like test_results.py, this reads files and simulates nothing. `backflip gradients`, `backflip shapes` and
`make laws` measure the tables; tests/gradients, tests/geometry and tests/laws measure a part of them.
"""

import json
from pathlib import Path

import law_table
import pytest

from backflip.experiments.certificates import gradient_table, horizons, shapes, solver_table
from backflip.experiments.certificates.gradients import CASES, SCHEMES, STEPS, TOLERANCE, TOO_ROUGH

ROOT = Path(__file__).parents[2]


def record(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text("utf-8"))


def test_the_matrix_of_gradients_is_whole_and_passes() -> None:
    matrix = record("gradients")
    cells = {(cell["case"], cell["steps"], cell["solver"]): cell for cell in matrix["cells"]}
    assert set(cells) == {(case.name, steps, s) for case in CASES for steps in STEPS for s in SCHEMES}
    assert matrix["tolerance"] == TOLERANCE
    for key, cell in cells.items():
        passes = cell["happens"] and not cell["failure"] and cell["error"] <= TOLERANCE
        assert cell["ok"] == passes, key
        assert cell["ok"] or key in TOO_ROUGH, key


def test_the_comparison_of_shapes_is_whole_and_passes() -> None:
    comparison = record("shapes")
    assert comparison["scenes"] >= 10_000 and all(pair["ok"] for pair in comparison["pairs"])
    assert [pair["pair"] for pair in comparison["pairs"]] == ["-".join(kinds) for kinds in shapes.NEW]


def test_every_law_holds() -> None:
    assert all(law["ok"] for law in record("laws")["laws"])


def gradients() -> str:
    return gradient_table.table(gradient_table.stored(ROOT / "results/gradients.json", SCHEMES))


def pairs() -> str:
    rows = [{k: v for k, v in pair.items() if k != "ok"} for pair in record("shapes")["pairs"]]
    return shapes.table([shapes.Comparison(**row) for row in rows])


def problems() -> str:
    return solver_table.table(record("solvers")["scenes"])


def how_long() -> str:
    return horizons.table(record("horizons")["rows"])


def laws() -> str:
    return law_table.table(record("laws")["laws"])


@pytest.mark.parametrize(
    ("page", "mark", "table"),
    [
        ("gradients.md", gradient_table.MARK, gradients),
        ("shapes.md", shapes.MARK, pairs),
        ("solvers.md", solver_table.MARK, problems),
        ("gradients.md", horizons.MARK, how_long),
        ("physics.md", "laws", laws),
    ],
)
def test_the_docs_show_the_committed_table(page: str, mark: str, table) -> None:
    shown = f"<!-- {mark} -->\n{table()}\n<!-- /{mark} -->"
    assert shown in (ROOT / "docs" / page).read_text("utf-8")
