"""Writes docs/reference.md: every public name with its first sentence.

Run `python docs/names.py` after adding a name; a test compares.
"""

import inspect
import re
from itertools import groupby
from pathlib import Path

import backflip as bf
from backflip import public, robots
from backflip.model import Builder

PAGE = Path(__file__).with_name("reference.md")
HEAD = """# Reference

Every public name, `import backflip as bf`, by what it is for, with its first sentence. `help(bf.step)` has
the rest; so has [All docstrings](api.md) once `make docs` has built the pages.
"""
TITLES = {
    "backflip.model": "Describing",
    "backflip.geometry": "Shapes",
    "backflip.dynamics": "Stepping and measuring",
    "backflip.sense": "Sensing ([sizes and units](sensors.md))",
    "backflip.solve": "Solving ([which and why](solvers.md))",
    "backflip.control": "Policies",
    "backflip.learn": "Learning",
    "backflip.storage": "Files",
    "backflip.view": "Looking",
    "backflip.lanes": "Compiling ([lanes](lanes.md))",
}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page."""
    names = sorted((_room(name), name) for name in public.__all__)
    rooms = {room: [name for _, name in some] for room, some in groupby(names, lambda pair: pair[0])}
    parts = [HEAD]
    for room, title in TITLES.items():
        named = {f"bf.{name}": getattr(bf, name) for name in rooms.pop(room)}
        parts.append(_table(title, _with_members(named)))
        if room == "backflip.model":
            methods = {f"b.{n}": f for n, f in vars(Builder).items() if not n.startswith("_") and callable(f)}
            parts.append(_table("`b = bf.Builder()`", methods))
    assert not rooms, f"give {', '.join(rooms)} a title in TITLES"
    parts.append(_table("Robots", {f"bf.robots.{n}": getattr(robots, n) for n in robots.__all__}))
    return "\n".join(parts)


def _room(name: str) -> str:
    """The room that a public name is imported from."""
    return ".".join(bf._homes()[name].split(".")[:2])


def _with_members(named: dict[str, object]) -> dict[str, object]:
    """Namespaces are shown by what is in them."""
    shown: dict[str, object] = {}
    for name, value in named.items():
        members = {f"{name}.{n}": getattr(value, n) for n in getattr(value, "__all__", ())}
        shown |= members if inspect.ismodule(value) else {name: value}
    return shown


def _table(title: str, named: dict[str, object]) -> str:
    rows = [
        f"| `{name}` | {_first_sentence(value)} |" for name, value in named.items() if inspect.getdoc(value)
    ]
    return "\n".join([f"## {title}", "", "| name | what it is |", "|---|---|", *rows, ""])


def _first_sentence(value: object) -> str:
    paragraph = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<!al)(?<!eq)\. ", paragraph)[0].rstrip(".:").replace("|", "\\|")


if __name__ == "__main__":
    main()
