"""Tables in Markdown, and the place between two marks on a page where one stands."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from backflip.experiments.base import Unable, write_text


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A head, a rule, and a line for each row."""
    lines = [_line(heads), "|---" * len(heads) + "|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def put_table(page: Path, name: str, table: str) -> None:
    """Replace what stands on the page between `<!-- name -->` and `<!-- /name -->`."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = page.read_text(encoding="utf-8")
    before, begun, rest = text.partition(opening)
    _, ended, after = rest.partition(closing)
    if not (begun and ended):
        raise Unable(f"{page}: there is no place for the table; mark it with {opening} and {closing}")
    write_text(page, f"{before}{opening}\n{table}\n{closing}{after}")
