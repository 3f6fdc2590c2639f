"""What lanes compile: the jaxpr of one robot, its derivatives, and its kernels."""

import gc
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.interpreters.partial_eval import dce_jaxpr

from backflip.lanes import machine
from backflip.lanes.backend import backend
from backflip.lanes.emit import Uncovered
from backflip.lanes.jaxpr_text import text_of
from backflip.lanes.kernel import kernel_ir
from backflip.lanes.target import target

KEPT = "constant"
"""What a function calls by this name (jax.ad_checkpoint.checkpoint_name) has no derivative and is dear to
compute: derivatives are given it, and do not compute it again."""


class Program:
    """A jaxpr of one robot; derivatives are programs of their own, made when they are needed."""

    def __init__(
        self, closed: core.ClosedJaxpr | None, ins: Sequence[Any], outs: Sequence[Any], source: Any = None,
        spent: int = 0, name: str = "a function",
    ):  # fmt: skip
        self._closed, self._source = closed, source
        self.ins, self.outs = tuple(ins), tuple(outs)
        self.spent = spent
        """the first argument that nobody is likely to need again: of a derivative, the first (co)tangent"""
        self.name = name
        """for people"""
        self._derived: dict[Any, Program] = {}
        self._names: dict[Any, str | None] = {}
        self.eager: dict[Any, Any] = {}
        """functions of JAX that run it outside of jit, by what they are asked for"""

    @classmethod
    def of(cls, closed: core.ClosedJaxpr, name: str = "a function") -> "Program":
        """The program of a closed jaxpr."""
        return cls(closed, closed.in_avals, closed.out_avals, name=name)

    @cached_property
    def closed(self) -> core.ClosedJaxpr:
        """The jaxpr; that of a derivative is traced only when its kernel or its function's is not on disk."""
        if self._closed is None:
            self._closed = self._source[1]()
        return self._closed

    @cached_property
    def digest(self) -> str:
        """Names the program; derivatives are traced for it only where a rule given by hand makes them."""
        if self._source is not None and self._source[0]:
            return self._source[0]
        return hashlib.sha256(self._text.encode()).hexdigest()

    @cached_property
    def _text(self) -> str:
        return text_of(self.closed)

    @property
    def _by_hand(self) -> bool:
        """Whether derivatives follow rules that are not in the program's text."""
        return "custom_jvp_call" in self._text or "custom_vjp_call" in self._text

    def run(self, *arrays: Any) -> list[Any]:
        """The program by plain JAX, for one robot."""
        return core.jaxpr_as_fun(self.closed)(*arrays)

    @cached_property
    def kept(self) -> list[Any]:
        """Equations of the jaxpr that name a value KEPT: a constant to derivatives, and dear to compute."""
        eqns = self.closed.jaxpr.eqns
        return [eqn for eqn in eqns if eqn.primitive.name == "name" and eqn.params["name"] == KEPT]

    @cached_property
    def keeping(self) -> "Program":
        """(arguments) -> results, then what is kept."""
        jaxpr = self.closed.jaxpr
        return self._variant(jaxpr.replace(outvars=[*jaxpr.outvars, *(eqn.outvars[0] for eqn in self.kept)]))

    @cached_property
    def given_kept(self) -> "Program":
        """(arguments, what is kept) -> results."""
        jaxpr, named = self.closed.jaxpr, [eqn.outvars[0] for eqn in self.kept]
        eqns = [eqn for eqn in jaxpr.eqns if eqn not in self.kept]
        return self._variant(_without_unused(jaxpr.replace(invars=[*jaxpr.invars, *named], eqns=eqns)))

    def _variant(self, jaxpr: core.Jaxpr) -> "Program":
        return Program.of(core.ClosedJaxpr(jaxpr, self.closed.consts), self.name)

    def tangent(self, moved: tuple[bool, ...]) -> "Program":
        """(arguments, tangents of those moved) -> tangents of the real results."""
        real = self.real_outs
        tangents = [a for a, m in zip(self.ins, moved, strict=True) if m]

        def push(*arrays: Any) -> list[Any]:
            primals = arrays[: len(moved)]
            return _push(self.run, moved, primals, arrays[len(moved) :], real)

        outs = [self.outs[i] for i in real]
        return self._derive(("tangent", moved), push, [*self.ins, *tangents], outs)

    def pullback(self, moved: tuple[bool, ...]) -> "Program":
        """(arguments, cotangents of the real results) -> cotangents of those moved."""
        real = self.real_outs

        def pull(*arrays: Any) -> list[Any]:
            primals, cotangents = arrays[: len(moved)], arrays[len(moved) :]
            free = [p for p, m in zip(primals, moved, strict=True) if m]

            def f(*free: Any) -> list[Any]:
                rest = iter(free)
                results = self.run(*(next(rest) if m else p for p, m in zip(primals, moved, strict=True)))
                return [results[i] for i in real]

            return list(jax.vjp(f, *free)[1](list(cotangents)))

        outs = [a for a, m in zip(self.ins, moved, strict=True) if m]
        return self._derive(("pullback", moved), pull, [*self.ins, *(self.outs[i] for i in real)], outs)

    @property
    def _float_size(self) -> int:
        """[bytes] of the widest float among arguments and results."""
        floats = (a.dtype for a in (*self.ins, *self.outs) if jnp.issubdtype(a.dtype, np.floating))
        return max((max(d.itemsize, 4) for d in floats), default=4)

    @property
    def real_outs(self) -> list[int]:
        """Which results can have a derivative."""
        return [i for i, a in enumerate(self.outs) if jnp.issubdtype(a.dtype, np.inexact)]

    def _derive(self, how: tuple, f: Any, ins: list[Any], outs: list[Any]) -> "Program":
        if how not in self._derived:
            digest = "" if self._by_hand else hashlib.sha256(f"{self.digest} {how}".encode()).hexdigest()

            def trace() -> core.ClosedJaxpr:
                with backend("xla"):
                    return jax.make_jaxpr(f)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in ins))

            name = f"the {'gradient' if how[0] == 'pullback' else 'tangent'} of {self.name}"
            made = Program(None, ins, outs, (digest, trace), spent=len(self.ins), name=name)
            self._derived.setdefault(how, made)  # another thread may have been quicker
        return self._derived[how]

    def _trace_pullbacks(self) -> None:
        """Those that were asked for; what cannot be traced is reported in its own turn."""
        for (how, _), program in list(self._derived.items()):
            if how == "pullback":
                with suppress(Exception):
                    program.closed  # noqa: B018 (it is remembered)

    def kernel(self, shared: tuple[bool, ...], size: int | None) -> str | None:
        """The custom call that runs it for `size` robots (None: one, without a batch axis).

        None if it is not covered, with a warning.
        """
        lanes = 1 if size is None or size == 1 else machine.lane_count(self._float_size)
        how = (shared, size is not None, lanes, machine.thread_limit(), target())
        if how not in self._names:
            key = machine.key_of(self.digest, repr(how[:4]))
            try:
                with _no_garbage():
                    self._names[how] = machine.register(
                        key,
                        lambda: kernel_ir(self.closed, shared, size is not None, lanes, how[3]),
                        meanwhile=self._trace_pullbacks,
                        what=f"{self.name} for {lanes} robot{'s' * (lanes > 1)} at a time",
                    )
            except Uncovered as gap:
                what, *place = gap.args
                where = f" at {place[0]}" if place else ""
                warnings.warn(
                    Uncovered(f"lanes have no rule for {what}{where}: it runs on XLA"), stacklevel=2
                )
                self._names[how] = None
        return self._names[how]


def _push(
    f: Any, moved: Sequence[bool], primals: Sequence[Any], tangents: Sequence[Any], real: list[int]
) -> list[Any]:
    """Tangents of the real results of f."""
    free = [p for p, m in zip(primals, moved, strict=True) if m]

    def g(*free: Any) -> list[Any]:
        rest = iter(free)
        results = f(*(next(rest) if m else p for p, m in zip(primals, moved, strict=True)))
        return [results[i] for i in real]

    return jax.jvp(g, tuple(free), tuple(tangents))[1]


def _without_unused(jaxpr: core.Jaxpr) -> core.Jaxpr:
    """The same, arguments as well, without equations that no result needs."""
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)[0]


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Nothing is collected meanwhile: looking through a million elements takes a sixth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
