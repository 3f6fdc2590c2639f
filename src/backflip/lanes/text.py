"""Lines of LLVM text, read as far as passes over them need."""

import re
from collections.abc import Iterable
from typing import NamedTuple

VALUE = re.compile(r"%v\d+")
"""names of values"""
_POINTER = re.compile(r"ptr>? ([%@][\w.]+)")
_ELEMENT = re.compile(r"getelementptr .+, ptr (%area\d+), i64 (\d+)")


class Place(NamedTuple):
    """Where in memory."""

    area: str
    element: str | None
    """None: any"""


class Line(NamedTuple):
    """One line."""

    text: str
    name: str
    """of the value that it makes, if it makes one"""
    rest: str
    """how it makes it; the text, if it makes none"""
    uses: list[str]
    """values"""
    place: Place | None
    """in memory, that it reads, writes or points to"""
    pure: bool
    """whether all it does is make a value"""

    @property
    def reads(self) -> bool:
        """Memory."""
        return self.rest.startswith("load") or "@llvm.masked.gather" in self.rest

    @property
    def writes(self) -> bool:
        """To memory."""
        return self.text.startswith("store") or "@llvm.masked.scatter" in self.text


def read(lines: Iterable[str]) -> list[Line]:
    """Lines in order; addresses are made before they are used."""
    places: dict[str, Place] = {}
    parsed = []
    for text in lines:
        name, _, rest = text.partition(" = ")
        if not name.startswith("%v"):
            name, rest = "", text
        place = None
        if "ptr" in rest and (pointers := _POINTER.findall(rest)):
            base = pointers[-1]
            exact = _ELEMENT.fullmatch(rest)
            place = Place(*exact.groups()) if exact else places.get(base, Place(base, "0"))
            if rest.startswith("getelementptr"):
                place = places[name] = place if exact else Place(place.area, None)
        pure = bool(name) and "@llvm.masked" not in rest
        parsed.append(Line(text, name, rest, VALUE.findall(rest), place, pure))
    return parsed
