"""backflip: robots that learn by gradient, through a differentiable 3D rigid-body engine.

The public names live in `backflip.public` and are fetched when first used, so that the command line
answers --help without waiting for JAX.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backflip.public import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if find_spec(f"backflip.{name}"):
        raise AttributeError(f"backflip.{name} is a module; import it")
    public = import_module("backflip.public")
    if name not in public.__all__:
        raise AttributeError(f"module 'backflip' has no attribute {name!r}")
    return getattr(public, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("backflip.public").__all__})
