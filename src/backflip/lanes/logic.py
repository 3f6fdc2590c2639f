"""Choices, comparisons and bits of single elements: folded where the elements are known."""

import math
import operator
from collections.abc import Callable

import numpy as np

from backflip.lanes.emit import FLOATS, Element, Emitter, Value, is_nan, known, rounded, size_of


def instruction(e: Emitter, opcode: str, kind: str, a: Element, b: Element) -> Value:
    """An instruction of two operands; `contract` lets a product and a sum become one."""
    flags = "contract " if kind in FLOATS else ""
    left, right = e.text(a, kind), e.text(b, kind)
    if opcode in ("fadd", "fmul", "add", "mul", "and", "or", "xor") and right < left:
        left, right = right, left
    return e.do(f"{opcode} {flags}{e.vector(kind)} {left}, {right}")


def wrap(x: int, kind: str, signed: bool = True) -> int:
    """A whole number as the bits of its kind hold it."""
    bits = int(kind[1:])
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> (bits - 1) else x


def fold(f: Callable, kind: str, signed: bool, *elements: Element) -> Element:
    """f of numbers, as precise as the kind; overflow and 0/0 as IEEE has them."""
    with np.errstate(all="ignore"):
        if kind in FLOATS:
            return rounded(f(*(np.float64(x) for x in elements)), kind)
    return bool(f(*elements)) if kind == "i1" else wrap(int(f(*elements)), kind, signed)


def compare(how: str, e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a `how` b; every comparison with NaN is false but "ne"."""
    if known(a, b):
        return bool(getattr(operator, how)(a, b))
    if kind in FLOATS:
        word = f"fcmp {'une' if how == 'ne' else 'o' + how}"
    else:
        sign = "" if how in ("eq", "ne") else "s" if signed else "u"
        word = f"icmp {sign}{how}"
    return e.do(f"{word} {e.vector(kind)} {e.text(a, kind)}, {e.text(b, kind)}")


def select(e: Emitter, kind: str, which: Element, a: Element, b: Element) -> Element:
    """b where `which`, else a: JAX's order."""
    if known(which):
        return b if which else a
    if a is b or (known(a, b) and a == b and math.copysign(1, a) == math.copysign(1, b)):
        return a
    t = e.vector(kind)
    mask = f"{e.vector('i1')} {e.text(which, 'i1')}"
    return e.do(f"select {mask}, {t} {e.text(b, kind)}, {t} {e.text(a, kind)}")


def extreme(how: str, e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """The greater ("gt") or lesser ("lt") of the two; NaN if either is."""
    if known(a, b):
        if is_nan(a) or is_nan(b):
            return math.nan
        return a if getattr(operator, how)(a, b) else b
    if kind == "i1":
        return logic("or" if how == "gt" else "and", e, kind, signed, a, b)
    if known(b):
        a, b = b, a
    if is_nan(a):
        return a
    # in this form the second operand is the answer where either is NaN, as in the machine's own max
    chosen = select(e, kind, compare(how, e, kind, signed, a, b), b, a)
    if kind not in FLOATS or known(a):
        return chosen
    return select(e, kind, _unordered(e, kind, a), chosen, a)


def _unordered(e: Emitter, kind: str, a: Element) -> Value:
    return e.do(f"fcmp uno {e.vector(kind)} {e.text(a, kind)}, {e.text(a, kind)}")


def logic(how: str, e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """Bitwise and, or, xor."""
    ones = True if kind == "i1" else -1
    if known(a, b):
        return fold(getattr(operator, f"__{how}__"), kind, signed, a, b)
    for x, y in ((a, b), (b, a)):
        if known(x) and x == 0:
            return x if how == "and" else y
        if known(x) and x == ones and how != "xor":
            return y if how == "and" else x
    return instruction(e, how, kind, a, b)


def invert(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """Every bit the other way."""
    return logic("xor", e, kind, signed, a, True if kind == "i1" else -1)


def shift(opcode: str, e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """Shift by b bits; all bits shifted out where b is too large."""
    bits = 8 * size_of(kind)
    large = compare("ge", e, kind, False, b, bits) if not known(b) else not 0 <= b < bits
    amount = select(e, kind, large, b, bits - 1 if opcode == "ashr" else 0)
    shifted = instruction(e, opcode, kind, a, amount)
    return shifted if opcode == "ashr" else select(e, kind, large, shifted, 0)


def choose(e: Emitter, kind: str, index_kind: str, which: Element, options: list[Element]) -> Element:
    """The option number `which`; the first or last if that is out of range."""
    if known(which):
        return options[min(max(int(which), 0), len(options) - 1)]
    result = options[0]
    for k, option in enumerate(options[1:], 1):
        result = select(e, kind, compare("ge", e, index_kind, True, which, k), result, option)
    return result
