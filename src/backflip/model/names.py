"""Finding things by name, with an answer that helps when there is no such name."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

NEAR = 0.7
"""How much of two names must agree for one to be meant by the other."""


def index_of(what: str, name: object, names: Sequence[str]) -> int:
    """Where `name` is among the names; ValueError says which exist and which is nearest."""
    if isinstance(name, str) and name in names:
        return names.index(name)
    raise ValueError(unknown(what, name, names))


def unknown(what: str, name: object, names: Iterable[str]) -> str:
    """Words for a name that does not exist."""
    known = list(names)
    shown = f'"{name}"' if isinstance(name, str) else repr(name)
    near = get_close_matches(name, known, 1, NEAR) if isinstance(name, str) else []
    guess = f'did you mean "{near[0]}"? ' if near else ""
    return f"unknown {what} {shown}; {guess}known are: {', '.join(known) or 'none'}"
