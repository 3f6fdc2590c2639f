"""Sums, products and quotients of single elements: folded where the elements are known.

Floats: IEEE per operation, fused multiply-add allowed. A factor known to be 0 makes a product 0, whatever
the other is, NaN and ∞ too; adding a known 0 changes nothing, so −0 + 0 is −0. A denormal counts as itself or
as a zero of its sign: XLA's threads flush them, folding does not.
"""

import math
import operator

import numpy as np

from backflip.lanes.emit import FLOATS, Element, Emitter, Slot, Value, is_zero, known, size_of
from backflip.lanes.logic import compare, fold, instruction, logic, select


def add(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a + b."""
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if known(a, b):
        return fold(operator.add, kind, signed, a, b)
    return instruction(e, "fadd" if kind in FLOATS else "add", kind, a, b)


def sub(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a − b."""
    if known(a, b):
        return fold(operator.sub, kind, signed, a, b)
    if is_zero(b):
        return a
    if is_zero(a) and kind in FLOATS:
        return neg(e, kind, signed, b)
    return instruction(e, "fsub" if kind in FLOATS else "sub", kind, a, b)


def mul(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a b."""
    for x, y in ((a, b), (b, a)):
        if known(x):
            if x == 0:
                return x
            if x == 1:
                return y
            if x == -1:
                return neg(e, kind, signed, y)
    if known(a, b):
        return fold(operator.mul, kind, signed, a, b)
    return instruction(e, "fmul" if kind in FLOATS else "mul", kind, a, b)


def div(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a / b; of whole numbers towards 0, −1 for b = 0 as XLA has it."""
    if kind in FLOATS:
        if known(a, b):
            return fold(np.divide, kind, signed, a, b)
        if known(b) and _has_inverse(b, kind):
            return mul(e, kind, signed, a, 1 / b)
        return instruction(e, "fdiv", kind, a, b)
    quotient = instruction(e, "sdiv" if signed else "udiv", kind, a, _divisor(e, kind, signed, a, b))
    overflow = _overflows(e, kind, a, b) if signed else False
    return select(e, kind, compare("eq", e, kind, signed, b, 0), select(e, kind, overflow, quotient, a), -1)


def _has_inverse(b: float, kind: str) -> bool:
    """Whether 1/b is exact and b and 1/b are neither denormal nor infinite."""
    mantissa, exponent = math.frexp(b)
    return abs(mantissa) == 0.5 and abs(exponent) < (125 if kind == "float" else 1020)


def rem(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """What division towards 0 leaves, with the sign of a."""
    if kind in FLOATS:
        return fold(np.fmod, kind, signed, a, b) if known(a, b) else instruction(e, "frem", kind, a, b)
    left = instruction(e, "srem" if signed else "urem", kind, a, _divisor(e, kind, signed, a, b))
    overflow = _overflows(e, kind, a, b) if signed else False
    return select(e, kind, compare("eq", e, kind, signed, b, 0), select(e, kind, overflow, left, 0), a)


def _divisor(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """b, or 1 where LLVM would not define the quotient."""
    bad = compare("eq", e, kind, signed, b, 0)
    if signed:
        bad = logic("or", e, "i1", False, bad, _overflows(e, kind, a, b))
    return select(e, kind, bad, b, 1)


def _overflows(e: Emitter, kind: str, a: Element, b: Element) -> Element:
    least = -(1 << (8 * size_of(kind) - 1))
    both = (compare("eq", e, kind, True, a, least), compare("eq", e, kind, True, b, -1))
    return logic("and", e, "i1", False, *both)


def neg(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """−a."""
    if known(a):
        return fold(operator.neg, kind, signed, a)
    return (
        e.do(f"fneg {e.vector(kind)} {e.text(a, kind)}")
        if kind in FLOATS
        else instruction(e, "sub", kind, 0, a)
    )


def power(e: Emitter, kind: str, signed: bool, a: Element, y: int) -> Element:
    """a to a whole power known now, by squaring."""
    if y < 0:
        return div(e, kind, signed, 1.0, power(e, kind, signed, a, -y))
    result: Element = 1.0 if kind in FLOATS else 1
    while y:
        result = mul(e, kind, signed, result, a) if y & 1 else result
        a, y = (mul(e, kind, signed, a, a) if y > 1 else a), y >> 1
    return result


def sign(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """−1, 0 or 1; NaN of NaN."""
    if known(a):
        return fold(np.sign, kind, signed, a)
    one = 1.0 if kind in FLOATS else 1
    up = select(e, kind, compare("gt", e, kind, signed, a, 0), a, one)
    return select(e, kind, compare("lt", e, kind, signed, a, 0), up, -one) if signed else up


def absolute(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """|a|."""
    if known(a):
        return fold(abs, kind, signed, a)
    if kind in FLOATS:
        return e.call("fabs", kind, a)
    below = compare("lt", e, kind, signed, a, 0)
    return select(e, kind, below, a, neg(e, kind, signed, a)) if signed else a


def total(e: Emitter, kind: str, signed: bool, terms: list[tuple[Element, Element | None]]) -> Element:
    """Σ a b, or Σ a where b is None: what is known longest first, what was computed last at the end.

    In a sweep over rows a sum so waits for nothing but the row before. Two running sums hide the latency.
    """
    products = [t for t in terms if not is_zero(t[0]) and not (t[1] is not None and is_zero(t[1]))]
    products.sort(key=_age)
    sums: list[Element] = []
    for i, (a, b) in enumerate(products):
        term = a if b is None else mul(e, kind, signed, a, b)
        last = i == len(products) - 1
        if last and len(sums) == 2:
            sums = [add(e, kind, signed, *sums)]
        if len(sums) < 2 and not (last and sums):
            sums.append(term)
        else:
            sums[0 if last else i % 2] = add(e, kind, signed, sums[0 if last else i % 2], term)
    if not sums:
        return 0.0 if kind in FLOATS else 0
    return sums[0] if len(sums) == 1 else add(e, kind, signed, *sums)


def _age(term: tuple[Element, Element | None]) -> int:
    return max((x.age for x in term if isinstance(x, Value) and not isinstance(x, Slot)), default=0)
