"""Lines of LLVM text, as far as passes over them have to read."""

import re

VALUE = re.compile(r"%v\d+")
"""names of values"""
_POINTER = re.compile(r"ptr>? ([%@][\w.]+)")


def made_by(line: str) -> tuple[str | None, str]:
    """The name that a line gives a value, if it has no other effect, and the rest."""
    name, equals, text = line.partition(" = ")
    pure = equals and name.startswith("%v") and "@llvm.masked" not in text
    return (name, text) if pure else (None, line)


def areas_of(lines: list[str]) -> dict[str, str]:
    """Areas by the names of addresses in them."""
    areas: dict[str, str] = {}
    for line in lines:
        name, equals, text = line.partition(" = ")
        if equals and text.startswith("getelementptr"):
            areas[name] = area_of(text, areas)
    return areas


def area_of(line: str, areas: dict[str, str]) -> str:
    """The area that a line addresses."""
    base = _POINTER.findall(line)[-1]
    return areas.get(base, base)
