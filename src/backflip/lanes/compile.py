"""The one seam: `compile` a function, and choose who runs it."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from backflip.lanes.emit import Uncovered
from backflip.lanes.program import Program, asked

BACKENDS = ("xla", "lanes")

_default = "lanes" if os.environ.get("BACKFLIP_LANES", "1") not in ("", "0") else "xla"


def chosen() -> str:
    """Who runs compiled functions now: "lanes" or "xla"."""
    return asked.value or _default


class backend(AbstractContextManager):
    """Choose "xla" or "lanes" from now on; as a context manager, until its end."""

    def __init__(self, name: str):
        if name not in BACKENDS:
            raise ValueError(f"backend: there is no {name!r}; give {' or '.join(map(repr, BACKENDS))}")
        global _default
        self._before, _default = _default, name
        self._inside = asked(name)
        self._inside.__enter__()

    def __exit__(self, *_: Any) -> None:
        global _default
        _default = self._before
        self._inside.__exit__(None, None, None)


def compile(fn: Callable) -> Callable:
    """fn, a function of one robot, with kernels for it and its derivatives; on other devices plain JAX."""
    if not callable(fn):
        raise TypeError(f"lanes.compile: {fn!r} is no function; give one of a single robot's arrays")
    known: dict[Any, _Traced] = {}

    @wraps(fn)
    def compiled(*args: Any, **named: Any) -> Any:
        if chosen() == "xla":
            return fn(*args, **named)
        leaves, tree = jax.tree.flatten((args, named))
        leaves = [x if isinstance(x, jax.Array) else jax.numpy.asarray(x) for x in leaves]
        avals = tuple(jax.typeof(x) for x in leaves)
        key = (tree, avals, jax.config.read("jax_enable_x64"))
        traced = known.get(key) or _trace(fn, tree, avals)
        if not traced.captured:  # else it closes over something that only this caller knows
            known[key] = traced
        return traced(leaves)

    return compiled


class _Traced(NamedTuple):
    """A function for arguments of some shapes."""

    program: Program
    captured: list[Any]
    """what it closes over that only its caller knows; arguments before all others"""
    wanted: list[int]
    """which arguments the program takes: those that it computes with"""
    passed: list[int | None]
    """for every result, which argument it is unchanged; None: the program's next"""
    tree: Any
    """structure of the results"""

    def __call__(self, leaves: list[Any]) -> Any:
        from backflip.lanes.primitive import call

        arrays = [*self.captured, *leaves]
        found = iter(call(self.program, [arrays[i] for i in self.wanted]))
        return jax.tree.unflatten(self.tree, [next(found) if i is None else arrays[i] for i in self.passed])


def _trace(fn: Callable, tree: Any, avals: tuple[Any, ...]) -> _Traced:
    """fn for such arguments; compiled functions that it calls become part of it."""

    def flat(*leaves: Any) -> Any:
        args, named = jax.tree.unflatten(tree, leaves)
        return fn(*args, **named)

    with asked("xla"):
        closed, out = jax.make_jaxpr(flat, return_shape=True)(*avals)
    outside = [isinstance(c, jax.core.Tracer) for c in closed.consts]
    captured = [c for c, o in zip(closed.consts, outside, strict=True) if o]
    if captured:
        closed = _lift(closed, outside)
    jaxpr = closed.jaxpr
    arguments = {v: i for i, v in enumerate(jaxpr.invars)}
    passed = [None if isinstance(v, core.Literal) else arguments.get(v) for v in jaxpr.outvars]
    computed = [v for v, i in zip(jaxpr.outvars, passed, strict=True) if i is None]
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if not isinstance(v, core.Literal)}
    wanted = [i for v, i in arguments.items() if v in used]
    own = jaxpr.replace(invars=[jaxpr.invars[i] for i in wanted], outvars=computed)
    program = Program.of(core.ClosedJaxpr(own, closed.consts))
    return _Traced(program, captured, wanted, passed, jax.tree.structure(out))


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

    leaves, tree = jax.tree.flatten((args, {}))
    avals = tuple(jax.typeof(x if hasattr(x, "aval") else np.asarray(x)) for x in leaves)
    program = _trace(fn, tree, avals).program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Uncovered)
        return program.kernel((False,) * len(program.ins), None) is not None
