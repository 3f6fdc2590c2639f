"""The one seam: `compile` a function, and choose who runs it."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

import jax
import numpy as np
from jax.extend import core

from backflip.lanes.emit import Uncovered
from backflip.lanes.program import Program

BACKENDS = ("xla", "lanes")

_default = "lanes" if os.environ.get("BACKFLIP_LANES", "0") not in ("", "0") else "xla"
# part of the key under which JAX keeps what it has traced: a function traced with one backend is traced
# again with the other
_context = jax.make_user_context(None)


def chosen() -> str:
    """Who runs compiled functions now: "lanes" or "xla"."""
    return _context.value or _default


class backend(AbstractContextManager):
    """Choose "xla" or "lanes" from now on; as a context manager, until its end."""

    def __init__(self, name: str):
        if name not in BACKENDS:
            raise ValueError(f"backend: there is no {name!r}; give {' or '.join(map(repr, BACKENDS))}")
        global _default
        self._before, _default = _default, name
        self._inside = _context(name)
        self._inside.__enter__()

    def __exit__(self, *_: Any) -> None:
        global _default
        _default = self._before
        self._inside.__exit__(None, None, None)


def compile(fn: Callable) -> Callable:
    """fn, a function of one robot, with kernels for it and its derivatives; on other devices plain JAX."""
    programs: dict[Any, tuple[Program, list[Any], Any]] = {}

    @wraps(fn)
    def compiled(*args: Any) -> Any:
        if chosen() == "xla":
            return fn(*args)
        leaves, tree = jax.tree.flatten(args)
        leaves = [x if isinstance(x, jax.Array) else jax.numpy.asarray(x) for x in leaves]
        from backflip.lanes.primitive import call

        avals = tuple(jax.typeof(x) for x in leaves)
        key = (tree, avals, jax.config.read("jax_enable_x64"))
        if key not in programs:
            found = _trace(fn, tree, avals)
            if found[1]:  # it closes over something of the caller's
                program, captured, out = found
                return jax.tree.unflatten(out, call(program, [*captured, *leaves]))
            programs[key] = found
        program, captured, out = programs[key]
        return jax.tree.unflatten(out, call(program, [*captured, *leaves]))

    return compiled


def _trace(fn: Callable, tree: Any, avals: tuple[Any, ...]) -> tuple[Program, list[Any], Any]:
    """The program of fn for such arguments, what it closes over, and the shape of its results."""

    def flat(*leaves: Any) -> Any:
        return fn(*jax.tree.unflatten(tree, leaves))

    closed, out = jax.make_jaxpr(flat, return_shape=True)(*avals)
    outside = [isinstance(c, jax.core.Tracer) for c in closed.consts]
    captured = [c for c, o in zip(closed.consts, outside, strict=True) if o]
    if captured:
        closed = _lift(closed, outside)
    return Program.of(closed), captured, jax.tree.structure(out)


def _lift(closed: core.ClosedJaxpr, outside: list[bool]) -> core.ClosedJaxpr:
    """Constants that are only known to the caller become arguments."""
    names = closed.jaxpr.constvars
    lifted = [v for v, o in zip(names, outside, strict=True) if o]
    kept = [v for v, o in zip(names, outside, strict=True) if not o]
    consts = [c for c, o in zip(closed.consts, outside, strict=True) if not o]
    jaxpr = closed.jaxpr.replace(constvars=kept, invars=[*lifted, *closed.jaxpr.invars])
    return core.ClosedJaxpr(jaxpr, consts)


def covers(fn: Callable, *args: Any) -> bool:
    """Whether fn compiles for such arguments, or would run on XLA."""
    import warnings

    leaves, tree = jax.tree.flatten(args)
    program = _trace(
        fn,
        tree,
        tuple(jax.typeof(np.asarray(x)) if not hasattr(x, "aval") else jax.typeof(x) for x in leaves),
    )[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Uncovered)
        return program.kernel((False,) * len(program.ins), None) is not None
