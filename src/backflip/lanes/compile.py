"""The one seam: `compile` a function of one robot."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from backflip.lanes.backend import backend, chosen
from backflip.lanes.emit import Uncovered
from backflip.lanes.primitive import call
from backflip.lanes.program import Program


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
        leaves = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in leaves]
        avals = tuple(_plain(jax.typeof(x)) for x in leaves)
        key = (tree, avals, jax.config.read("jax_enable_x64"))
        traced = known.get(key)
        if traced is None:
            _check_width(compiled, avals)
            traced = _trace(fn, tree, avals)
            if not traced.captured:  # else it closes over something that only this caller knows
                known[key] = traced
        return traced(leaves)

    return compiled


def _plain(aval: Any) -> Any:
    """The type of an array whatever devices it lies on: one robot is one device's."""
    return jax.core.ShapedArray(aval.shape, aval.dtype, aval.weak_type)


def _check_width(fn: Any, avals: tuple[Any, ...]) -> None:
    """Arguments must be as narrow as JAX's numbers are now."""
    dtypes = (a.dtype for a in avals if not jnp.issubdtype(a.dtype, jax.dtypes.extended))
    if wide := next((d for d in dtypes if jax.dtypes.canonicalize_dtype(d) != d), None):
        raise TypeError(
            f"{getattr(fn, '__name__', fn)}: an argument is {wide}, made while jax_enable_x64 was on, and "
            'now it is off; call jax.config.update("jax_enable_x64", True), or make the arguments anew'
        )


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
        arrays = [*self.captured, *leaves]
        results = iter(call(self.program, [arrays[i] for i in self.wanted]))
        return jax.tree.unflatten(self.tree, [next(results) if i is None else arrays[i] for i in self.passed])


def _trace(fn: Callable, tree: Any, avals: tuple[Any, ...]) -> _Traced:
    """fn for such arguments; compiled functions that it calls become part of it."""

    def flat(*leaves: Any) -> Any:
        args, named = jax.tree.unflatten(tree, leaves)
        return fn(*args, **named)

    with backend("xla"):
        closed, out = jax.make_jaxpr(flat, return_shape=True)(*avals)
    outside = [isinstance(c, jax.core.Tracer) or _is_key(c) for c in closed.consts]
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
    program = Program.of(core.ClosedJaxpr(own, closed.consts), getattr(fn, "__name__", "a function"))
    return _Traced(program, captured, wanted, passed, jax.tree.structure(out))


def _is_key(x: Any) -> bool:
    """Whether x is a typed key of jax.random, which has no numbers to write into a program."""
    return jnp.issubdtype(getattr(x, "dtype", np.bool_), jax.dtypes.prng_key)


def _lift(closed: core.ClosedJaxpr, outside: list[bool]) -> core.ClosedJaxpr:
    """Constants that are only known to the caller become arguments."""
    names = closed.jaxpr.constvars
    lifted = [v for v, o in zip(names, outside, strict=True) if o]
    constant = [v for v, o in zip(names, outside, strict=True) if not o]
    consts = [c for c, o in zip(closed.consts, outside, strict=True) if not o]
    jaxpr = closed.jaxpr.replace(constvars=constant, invars=[*lifted, *closed.jaxpr.invars])
    return core.ClosedJaxpr(jaxpr, consts)


def covers(fn: Callable, *args: Any) -> bool:
    """Whether fn compiles for such arguments, or would run on XLA."""
    leaves, tree = jax.tree.flatten((args, {}))
    avals = tuple(jax.typeof(x if hasattr(x, "aval") else np.asarray(x)) for x in leaves)
    program = _trace(fn, tree, avals).program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Uncovered)
        return program.kernel((False,) * len(program.ins), None) is not None
