"""The table of laws that `make laws` prints and docs/physics.md shows."""

import backflip as bf
from backflip.experiments.tables import markdown

SOLVERS = {"Newton": bf.Newton(), "interior point": bf.InteriorPoint()}
"""Those that have a column, the default first."""
DEFAULT = next(iter(SOLVERS))


def key(figure: dict) -> tuple[str, str]:
    return figure["law"], figure.get("solver", DEFAULT)


def table(laws: list[dict]) -> str:
    """Markdown: a row per law, a column per solver; a law that a solver was not asked about has a dash."""
    figures, rows = {key(f): f for f in laws}, []
    for law in dict.fromkeys(f["law"] for f in laws):
        one = next(f for f in laws if f["law"] == law)
        cells = [_cell(figures.get((law, solver))) for solver in SOLVERS]
        asked = f"{one['asked']:g} {one['unit']}".rstrip()
        rows.append([law, asked, *cells])
    return markdown(["law", "asked", *SOLVERS], rows)


def _cell(figure: dict | None) -> str:
    if figure is None:
        return "-"
    return f"{figure['measured']:.1e} {figure['unit']}".rstrip() + ("" if figure["ok"] else " ✗")
