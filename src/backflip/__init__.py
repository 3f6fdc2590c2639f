"""backflip: robots that learn by gradient, through a differentiable 3D rigid-body engine.

The public names are those that `backflip.public` imports. Each is fetched when it is first used, so that
nobody waits for what is not asked for: JAX to answer --help, networks and optimisers to simulate.
"""

import ast
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backflip.public import *  # noqa: F403

ROOMS = ("lanes", "robots")
"""Modules that are public as such: `bf.robots.quadruped()`."""

__version__ = "0.1.0"


@cache
def _homes() -> dict[str, str]:
    """The module of every public name, as public.py says."""
    lines = ast.parse(files(__name__).joinpath("public.py").read_text(encoding="utf-8")).body
    imports = [line for line in lines if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in imports for alias in line.names if not alias.asname}


def __getattr__(name: str) -> Any:
    if name in _homes():
        return getattr(import_module(_homes()[name]), name)
    if name in ROOMS:
        return import_module(f"backflip.{name}")
    if find_spec(f"backflip.{name}"):
        raise AttributeError(f"backflip.{name} is a module; import it")
    raise AttributeError(f"module 'backflip' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes(), *ROOMS})
