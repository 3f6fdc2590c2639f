"""A jaxpr as text: the same text, in whatever process, is the same program."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.extend import core

Inner = core.Jaxpr | core.ClosedJaxpr


def text_of(closed: core.ClosedJaxpr) -> str:
    """All that a kernel depends on. JAX's own text takes five times as long, and rounds numbers."""
    return "\n".join(_lines(closed))


def _lines(closed: Inner) -> Iterator[str]:
    """A line per operation: name, parameters, operands by number, kinds of the results."""
    jaxpr = closed.jaxpr if isinstance(closed, core.ClosedJaxpr) else closed
    numbers: dict[Any, int] = {}
    kinds: dict[Any, str] = {}

    def kind(v: Any) -> str:
        if v.aval not in kinds:
            kinds[v.aval] = str(v.aval)
        return kinds[v.aval]

    def new(v: Any) -> str:
        numbers[v] = len(numbers)
        return kind(v)

    def old(v: Any) -> str:
        return f"{kind(v)}:{_number(v.val)}" if isinstance(v, core.Literal) else str(numbers[v])

    yield from map(_number, getattr(closed, "consts", ()))
    yield " ".join(map(new, [*jaxpr.constvars, *jaxpr.invars]))
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for key, value in eqn.params.items():
            yield key
            yield from _value(value)
        yield f"{' '.join(map(old, eqn.invars))} -> {' '.join(map(new, eqn.outvars))}"
    yield " ".join(map(old, jaxpr.outvars))


def _value(value: Any) -> Iterator[str]:
    """A parameter; of a function, which only derivatives depend on, the name."""
    if isinstance(value, Inner):
        yield from _lines(value)
    elif isinstance(value, tuple | list):
        yield str(len(value))
        for v in value:
            yield from _value(v)
    elif isinstance(value, np.ndarray) or hasattr(value, "aval"):
        yield _number(value)
    else:
        yield getattr(value, "__qualname__", None) or repr(value)


def _number(value: Any) -> str:
    array = np.asarray(value)
    return f"{array.dtype}{array.shape}{array.tobytes().hex()}"
