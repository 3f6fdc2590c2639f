"""Who runs compiled functions: lanes, or XLA alone.

The choice is one of JAX's contexts: a part of the key under which jit stores what it has traced, in every
thread. A function traced with one backend is traced again with the other.
"""

import os
import threading
from contextlib import ContextDecorator
from typing import Any

import jax

BACKENDS = ("xla", "lanes")

_context = jax.make_user_context("lanes" if os.environ.get("BACKFLIP_LANES", "1") not in ("", "0") else "xla")


def chosen() -> str:
    """Who runs compiled functions in this thread now: "lanes" or "xla"."""
    return _context.value


def set_backend(name: str) -> None:
    """Choose "xla" or "lanes" for the whole process, wherever no `backend` says otherwise."""
    _context.set_global(_checked("set_backend", name))


class backend(ContextDecorator):
    """Choose "xla" or "lanes" inside a `with` block (or a decorated function), in this thread."""

    def __init__(self, name: str):
        self.name = _checked("backend", name)
        self._entered = threading.local()

    def __enter__(self) -> "backend":
        inside = _context(self.name)
        inside.__enter__()
        self._entered.__dict__.setdefault("contexts", []).append(inside)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.contexts.pop().__exit__(*error)


def _checked(who: str, name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"{who}: there is no {name!r}; give {' or '.join(map(repr, BACKENDS))}")
    return name
