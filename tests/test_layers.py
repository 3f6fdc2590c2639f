"""Rooms import downwards only, every room says what it is, and no file is too long to be read."""

import ast
import re
from collections.abc import Iterator
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
    "sense": {"math", "lanes", "model", "dynamics"},
    "control": {"math"},
    "learn": {"math", "solve", "geometry", "model", "dynamics", "sense", "control", "storage"},
    "robots": {PUBLIC},
    "view": {"math", "storage", "geometry", "model", "dynamics"},
    "bridges": {PUBLIC},
    "experiments": {PUBLIC, "geometry", "storage", "view", "robots"},
    "cli": {"lanes", "experiments"},
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


@pytest.mark.parametrize("room", ROOMS)
def test_a_card_names_the_rooms_that_may_be_imported(room: str) -> None:
    card = ast.get_docstring(ast.parse((SRC / room / "__init__.py").read_text("utf-8"))) or ""
    [line] = [line for line in card.splitlines() if line.startswith("may touch")]
    words = set(re.findall(r"\w+", line))
    named = words & MAY_IMPORT.keys() - {"public"} | ({PUBLIC} if "public" in words else set())
    assert named == MAY_IMPORT[room], f"the card of {room} and MAY_IMPORT differ"


def test_who_may_import_whom_has_no_circle() -> None:
    done: set[str] = {PUBLIC}
    rooms = {room: allowed - {PUBLIC} for room, allowed in MAY_IMPORT.items()}
    while free := [room for room, below in rooms.items() if below <= done]:
        done |= set(free)
        for room in free:
            del rooms[room]
    assert not rooms


# --- files --------------------------------------------------------------------------------------------------

LINES = 350


def name_of(path: Path) -> str:
    return str(path.relative_to(SRC))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Everything that runs, at the top or inside functions; not what is there for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from statements(child)


def files_imported(path: Path, src: Path = SRC) -> set[Path]:
    """Files of ours that a file imports by name, at its top or inside its functions."""

    def file_of(module: str) -> Path | None:
        place = src.parent / module.replace(".", "/")
        return next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)

    found: set[Path | None] = set()
    for node in statements(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = node.module or ""
            found |= {file_of(f"{home}.{alias.name}") or file_of(home) for alias in node.names}
    return {file for file in found if file}


def circles(imports: dict[Path, set[Path]]) -> set[Path]:
    """Files that import themselves by way of others: what is left when nothing more can be taken away."""
    rest = dict(imports)
    while True:
        wanted = set().union(*rest.values()) if rest else set()
        ends = [file for file in rest if file not in wanted or not rest[file] & rest.keys()]
        if not ends:
            return set(rest)
        for file in ends:
            del rest[file]


def test_no_files_import_each_other_even_inside_functions() -> None:
    left = {name_of(file) for file in circles({path: files_imported(path) for path in FILES})}
    assert not left, f"these files import each other: {', '.join(sorted(left))}"


def test_a_circle_that_a_function_hides_is_seen(tmp_path: Path) -> None:
    src = tmp_path / "backflip"
    src.mkdir()
    texts = {
        "a": "from backflip import b\n",
        "b": "def f():\n    from backflip.a import g\n",
        "c": "from backflip.a import g\nfrom typing import TYPE_CHECKING\n",
        "d": "if TYPE_CHECKING:\n    import backflip.e\n",
        "e": "import backflip.d\n",
    }
    for name, text in texts.items():
        (src / f"{name}.py").write_text(text)
    imports = {file: files_imported(file, src) for file in src.glob("*.py")}
    assert {file.stem for file in circles(imports)} == {"a", "b"}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_short_enough_to_be_read(path: Path) -> None:
    count = len(path.read_text("utf-8").splitlines())
    assert count <= LINES, f"{count} lines: look for the missing noun"
