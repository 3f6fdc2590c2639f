"""LLVM text, one line per operation on a vector of lanes: constants folded, nothing computed twice.

An element of an array is a Python number, known now, or a `Value`, known when the kernel runs. A kind is
LLVM's name of a scalar: float, double, i1, i32, ...
"""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from backflip.lanes import functions

Element = Any
"""bool, int, float or Value"""

MOST_LINES = 400_000
"""A longer kernel would take minutes to compile; it is refused."""


class Uncovered(UserWarning):
    """Something the compiler has no rule for; it runs on XLA instead."""


class Value:
    """One number per lane: the name of an LLVM vector. A greater age was computed later."""

    __slots__ = ("age", "name")

    def __init__(self, name: str, age: int):
        self.name, self.age = name, age


class Slot(Value):
    """A value in memory that is not written again while the slot is in use: loaded where it is used."""

    __slots__ = ("index", "shared", "where")

    def __init__(self, where: str, index: int, shared: bool = False):
        self.where, self.index, self.shared, self.age = where, index, shared, 0


KINDS = {
    "bool": "i1", "float32": "float", "float64": "double", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "uint8": "i8", "uint16": "i16", "uint32": "i32", "uint64": "i64",
}  # fmt: skip
"""LLVM's scalar for every dtype that lanes carry"""
FLOATS = ("float", "double")


def kind_of(dtype: Any) -> str:
    """LLVM's scalar for a dtype."""
    name = np.dtype(dtype).name if dtype is not None and not hasattr(dtype, "_rules") else str(dtype)
    if name not in KINDS:
        raise Uncovered(f"numbers of type {name}")
    return KINDS[name]


def known(*elements: Element) -> bool:
    """Whether all elements are numbers, not values."""
    for x in elements:  # noqa: SIM110 (asked more often than anything else: a plain loop is quicker)
        if isinstance(x, Value):
            return False
    return True


class Regrouped(NamedTuple):
    """A while loop in stages of its own: between its turns lanes may change places (see `regroup`)."""

    fixed: dict[str, int]
    carried: dict[str, int]
    """areas with what it reads, and with its state, and the bytes of an element"""
    wanting: str
    """port: which lanes want another turn, a bit each"""


class Emitter:
    """Lines of one kernel in the making."""

    def __init__(self, lanes: int):
        self.lanes = lanes
        self.lines: list[str] = []
        self.areas: dict[str, int] = {}
        self.tables: dict[str, str] = {}
        self.declared: set[str] = set()
        self.defined: dict[str, str] = {}
        self.active: Element = True
        self.regrouped: list[Regrouped] = []
        self._count = 0
        self._done: list[dict[str, Value]] = [{}]

    # --- text -------------------------------------------------------------------------------------

    def vector(self, kind: str) -> str:
        """The type of a value of that kind."""
        return f"<{self.lanes} x {kind}>"

    def text(self, x: Element, kind: str) -> str:
        """An operand: a name, or a constant written out; a slot is loaded."""
        if isinstance(x, Slot):
            return self._load(x, kind)
        return x.name if isinstance(x, Value) else f"splat ({kind} {literal(x, kind)})"

    def fresh(self) -> str:
        """A name not used before."""
        self._count += 1
        return f"%{'v'}{self._count}"

    def line(self, text: str) -> None:
        """A line as it is."""
        self.lines.append(text)
        if len(self.lines) > MOST_LINES:
            raise Uncovered(f"a program of more than {MOST_LINES} instructions")

    def do(self, text: str) -> Value:
        """The value of an instruction without side effects; asked for again it is not computed again."""
        for done in reversed(self._done):
            if text in done:
                return done[text]
        name = self.fresh()
        self.line(f"{name} = {text}")
        value = self._done[-1][text] = Value(name, self._count)
        return value

    def call(self, intrinsic: str, kind: str, *elements: Element, flags: str = "") -> Value:
        """llvm.`intrinsic` of elements of one kind."""
        t = self.vector(kind)
        short = {"float": "f32", "double": "f64"}.get(kind, kind)
        symbol = f"@llvm.{intrinsic}.v{self.lanes}{short}"
        self.declared.add(f"declare {t} {symbol}({', '.join([t] * len(elements))})")
        operands = ", ".join(f"{t} {self.text(x, kind)}" for x in elements)
        return self.do(f"call {flags}{t} {symbol}({operands})")

    def function(self, name: str, kind: str, *elements: Element) -> Value:
        """One of our own vector functions."""
        symbol, body, needs = functions.define(name, kind, self.lanes)
        self.defined[symbol] = body
        self.declared |= set(needs)
        t = self.vector(kind)
        return self.do(f"call {t} @{symbol}({', '.join(f'{t} {self.text(x, kind)}' for x in elements)})")

    # --- blocks and loops -------------------------------------------------------------------------

    def begin_loop(self, count: int) -> tuple[str, str, str]:
        """A loop of `count` turns; returns its index and labels for `end_loop`."""
        self._count += 1
        n = self._count
        self._enter(n)
        self.line(f"%i{n} = phi i64 [ 0, %pre{n} ], [ %next{n}, %turn{n} ]")
        self._done.append({})
        return f"%i{n}", str(n), str(count)

    def end_loop(self, loop: tuple[str, str, str]) -> None:
        """Turn back, or go on behind the loop."""
        index, n, count = loop
        self._done.pop()
        self.line(f"br label %turn{n}")
        self.line(f"turn{n}:")
        self.line(f"%next{n} = add nuw nsw i64 {index}, 1")
        self.line(f"%more{n} = icmp ult i64 %next{n}, {count}")
        self.line(f"br i1 %more{n}, label %loop{n}, label %done{n}")
        self.line(f"done{n}:")

    def begin_while(self) -> str:
        """A loop that `test_while` leaves."""
        self._count += 1
        n = self._count
        self._enter(n)
        self._done.append({})
        return str(n)

    def _enter(self, n: int) -> None:
        self.line(f"br label %pre{n}")
        self.line(f"pre{n}:")
        self.line(f"br label %loop{n}")
        self.line(f"loop{n}:")

    def test_while(self, n: str, active: Element) -> None:
        """Leave the loop unless some lane is still active."""
        self.declared.add(f"declare i1 @llvm.vector.reduce.or.v{self.lanes}i1({self.vector('i1')})")
        name = self.fresh()
        mask = f"{self.vector('i1')} {self.text(active, 'i1')}"
        self.line(f"{name} = call i1 @llvm.vector.reduce.or.v{self.lanes}i1({mask})")
        self.line(f"br i1 {name}, label %body{n}, label %done{n}")
        self.line(f"body{n}:")

    def end_while(self, n: str) -> None:
        """Turn back to the test."""
        self._done.pop()
        self.line(f"br label %loop{n}")
        self.line(f"done{n}:")

    @property
    def outermost(self) -> bool:
        """Whether no loop or branch is open."""
        return len(self._done) == 1 and self.active is True

    @contextmanager
    def stages(self, fixed: dict[str, int], carried: dict[str, int]) -> Iterator[None]:
        """A while loop whose test and body are stages of the kernel; they know nothing from before."""
        n = len(self.regrouped)
        self.regrouped.append(Regrouped(fixed, carried, f"%wanting{n}"))
        self.line(f"stage{3 * n + 1}:")
        before, self._done = self._done, [{}, {}]
        yield
        self._done = before
        self.line(f"stage{3 * n + 3}:")

    def test_stage(self, active: Element) -> None:
        """The end of the test."""
        n, bits = len(self.regrouped) - 1, f"i{self.lanes}"
        mask = self.do(f"bitcast {self.vector('i1')} {self.text(active, 'i1')} to {bits}")
        wide = self.do(f"zext {bits} {mask.name} to i64")
        self.line(f"store i64 {wide.name}, ptr {self.regrouped[n].wanting}, align 8")
        self.line(f"stage{3 * n + 2}:")

    # --- memory -----------------------------------------------------------------------------------

    def area(self, count: int, kind: str) -> str:
        """Room for `count` values."""
        self._count += 1
        name = f"%area{self._count}"
        self.areas[name] = max(count, 1) * self.lanes * size_of(kind)
        return name

    def at(self, where: str, index: int | str, kind: str) -> str:
        """The address of a value in an area."""
        if index == 0:
            return where
        stored = "i8" if kind == "i1" else kind
        return self.do(f"getelementptr {self.vector(stored)}, ptr {where}, i64 {index}").name

    def store(self, x: Element, where: str, index: int | str, kind: str) -> None:
        """Write one value; booleans are bytes in memory."""
        text, place = self.text(x, kind), self.at(where, index, kind)
        if kind == "i1":
            text, kind = self.do(f"zext {self.vector('i1')} {text} to {self.vector('i8')}").name, "i8"
        self.line(f"store {self.vector(kind)} {text}, ptr {place}, align {size_of(kind)}")

    def load(self, where: str, index: int | str, kind: str) -> Value:
        """Read one value now, whatever was read there before."""
        stored = "i8" if kind == "i1" else kind
        name, place = self.fresh(), self.at(where, index, kind)
        self.line(f"{name} = load {self.vector(stored)}, ptr {place}, align {size_of(stored)}")
        return self._as_bool(Value(name, self._count)) if kind == "i1" else Value(name, self._count)

    def _as_bool(self, x: Value) -> Value:
        return self.do(f"icmp ne {self.vector('i8')} {x.name}, zeroinitializer")

    def _load(self, slot: Slot, kind: str) -> str:
        return self.read(slot.where, slot.index, kind, slot.shared).name

    def read(self, where: str, index: int | str, kind: str, shared: bool) -> Value:
        """A value from memory that is not written while it is in use; a shared one is a single number."""
        stored = "i8" if kind == "i1" else kind
        if shared:
            place = self.do(f"getelementptr {stored}, ptr {where}, i64 {index}").name
            one = self.do(f"load {stored}, ptr {place}, align {size_of(stored)}")
            value = self.splat(one.name, stored)
        else:
            place = self.at(where, index, kind)
            value = self.do(f"load {self.vector(stored)}, ptr {place}, align {size_of(stored)}")
        return self._as_bool(value) if kind == "i1" else value

    def splat(self, name: str, kind: str) -> Value:
        """The same scalar in every lane."""
        t = self.vector(kind)
        first = self.do(f"insertelement {t} poison, {kind} {name}, i64 0")
        return self.do(f"shufflevector {t} {first.name}, {t} poison, {self.vector('i32')} zeroinitializer")

    def table(self, elements: Sequence[Any], kind: str) -> str:
        """Numbers known now, in memory, one after the other."""
        stored = "i8" if kind == "i1" else kind
        numbers = ", ".join(f"{stored} {literal(int(x) if kind == 'i1' else x, stored)}" for x in elements)
        text = f"internal constant [{len(elements)} x {stored}] [{numbers}]"
        return self.tables.setdefault(text, f"@numbers{len(self.tables)}")

    def in_memory(self, elements: Iterable[Element], kind: str) -> list[Element]:
        """The same elements, those that are values in memory."""
        elements = list(elements)
        loose = {id(x): x for x in elements if isinstance(x, Value) and not isinstance(x, Slot)}
        if not loose:
            return elements
        where = self.area(len(loose), kind)
        slots = {}
        for index, (key, x) in enumerate(loose.items()):
            self.store(x, where, index, kind)
            slots[key] = Slot(where, index)
        return [slots.get(id(x), x) for x in elements]

    def laid(self, elements: Iterable[Element], kind: str) -> str:
        """An area with all elements in order; their own, if they lie so already."""
        elements = list(elements)
        first = elements[0] if elements else None
        if isinstance(first, Slot) and not first.shared and first.index == 0:
            where = first.where
            if all(isinstance(x, Slot) and x.where == where and x.index == i for i, x in enumerate(elements)):
                return where
        where = self.area(len(elements), kind)
        for index, x in enumerate(elements):
            self.store(x, where, index, kind)
        return where


def size_of(kind: str) -> int:
    """Bytes of a scalar."""
    return {"float": 4, "double": 8, "i1": 1}.get(kind) or int(kind[1:]) // 8


def literal(x: Any, kind: str) -> str:
    """A number as LLVM reads it."""
    if kind in FLOATS:
        return "0x" + struct.pack(">d", rounded(x, kind)).hex().upper()
    if kind == "i1":
        return "true" if x else "false"
    bits = int(kind[1:])
    x = int(x) & ((1 << bits) - 1)
    return str(x - (1 << bits) if x >> (bits - 1) else x)


def rounded(x: Any, kind: str) -> float:
    """A number as precise as its kind."""
    if kind == "double":
        return float(x)
    with np.errstate(over="ignore"):
        return float(np.float32(x))


def is_zero(x: Element) -> bool:
    """Whether x is known to be 0 (of either sign)."""
    return not isinstance(x, Value) and x == 0


def is_nan(x: Element) -> bool:
    """Whether x is known to be no number."""
    return isinstance(x, float) and math.isnan(x)
