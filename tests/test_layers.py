"""Rooms import downwards only, and every room says what it is."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "backflip"

PUBLIC = "backflip"
"""`import backflip` itself: the public names."""

MAY_IMPORT: dict[str, set[str]] = {
    "math": set(),
    "storage": set(),
    "lanes": set(),
    "solve": {"math"},
    "geometry": {"math"},
    "model": {"math", "lanes", "solve", "geometry"},
    "dynamics": {"math", "lanes", "solve", "geometry", "model"},
    "sense": {"math", "lanes", "geometry", "model", "dynamics"},
    "control": {"math", "model", "dynamics", "sense"},
    "learn": {"math", "lanes", "solve", "geometry", "model", "dynamics", "sense", "control", "storage"},
    "robots": {PUBLIC, "model"},
    "view": {"math", "geometry", "model", "dynamics"},
    "bridges": {PUBLIC},
    "experiments": {PUBLIC, "geometry", "storage", "view", "robots"},
    "cli": {"experiments", "view"},
    "__init__": {"public"},
    "public": {
        "math",
        "lanes",
        "solve",
        "geometry",
        "model",
        "dynamics",
        "sense",
        "control",
        "learn",
        "storage",
        "view",
    },
}
"""Who may import whom, bottom up; every room may import itself."""

CARD = ("comes in", "goes out", "may touch", "never knows")

FILES = sorted(SRC.rglob("*.py"))
ROOMS = sorted(folder.name for folder in SRC.iterdir() if any(folder.glob("*.py")))


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def rooms_imported(path: Path) -> set[str]:
    """Rooms that a file imports, at its top or inside its functions."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            rooms |= {room_named(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            # `from backflip import view` names a room, `from backflip import step` a public name
            whole = [f"backflip.{alias.name}" for alias in node.names if alias.name in MAY_IMPORT]
            named = whole if node.module == PUBLIC and whole else [node.module or ""]
            rooms |= {room_named(name) for name in named}
    return rooms - {""}


def room_named(module: str) -> str:
    first, *rest = module.split(".")
    if first != PUBLIC:
        return ""
    return rest[0] if rest else PUBLIC


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_rooms_import_downwards_only(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: say in MAY_IMPORT what it may import"
    wrong = rooms_imported(path) - MAY_IMPORT[room] - {room}
    assert not wrong, f"{room} may not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_opens_with_its_card(room: str) -> None:
    card = ast.get_docstring(ast.parse((SRC / room / "__init__.py").read_text("utf-8"))) or ""
    lines = [line.strip() for line in card.splitlines()]
    missing = [head for head in CARD if not any(line.startswith(head) for line in lines)]
    assert not missing, f"the docstring of {room}/__init__.py lacks: {', '.join(missing)}"


def test_who_may_import_whom_has_no_circle() -> None:
    done: set[str] = {PUBLIC}
    rooms = {room: allowed - {PUBLIC} for room, allowed in MAY_IMPORT.items()}
    while free := [room for room, below in rooms.items() if below <= done]:
        done |= set(free)
        for room in free:
            del rooms[room]
    assert not rooms
