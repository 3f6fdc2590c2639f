"""Lines of LLVM text, as far as passes over them have to read."""

import re
from typing import NamedTuple

VALUE = re.compile(r"%v\d+")
"""names of values"""
_POINTER = re.compile(r"ptr>? ([%@][\w.]+)")
_ELEMENT = re.compile(r"getelementptr .+, ptr (%area\d+), i64 (\d+)")


def made_by(line: str) -> tuple[str | None, str]:
    """The name that a line gives a value, if it has no other effect, and the rest."""
    name, equals, text = line.partition(" = ")
    pure = equals and name.startswith("%v") and "@llvm.masked" not in text
    return (name, text) if pure else (None, line)


class Place(NamedTuple):
    """Where in memory."""

    area: str
    element: str | None
    """None: any"""


def places_of(lines: list[str]) -> dict[str, Place]:
    """Places by the names of addresses."""
    places: dict[str, Place] = {}
    for line in lines:
        name, equals, text = line.partition(" = ")
        if equals and text.startswith("getelementptr"):
            exact = _ELEMENT.fullmatch(text)
            places[name] = Place(*exact.groups()) if exact else Place(place_of(text, places).area, None)
    return places


def place_of(line: str, places: dict[str, Place]) -> Place:
    """The place that a line addresses."""
    base = _POINTER.findall(line)[-1]
    return places.get(base, Place(base, "0"))
