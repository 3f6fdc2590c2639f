"""What one operation does to one element of each operand: folded where the elements are known.

Floats: IEEE per operation, fused multiply-add allowed. A factor known to be 0 makes a product 0, whatever
the other is, NaN and ∞ too; adding a known 0 changes nothing, so −0 + 0 is −0. The greater of 0 and −0 is
either. A denormal counts as itself or as a zero of its sign: XLA's threads flush them, folding does not.
"""

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from backflip.lanes import functions
from backflip.lanes.emit import (
    FLOATS,
    Element,
    Emitter,
    Slot,
    Uncovered,
    Value,
    is_nan,
    is_zero,
    known,
    rounded,
    size_of,
)

Rule = Callable[..., Element]


def _two(e: Emitter, opcode: str, kind: str, a: Element, b: Element) -> Value:
    """An instruction of two operands; `contract` lets a product and a sum become one."""
    flags = "contract " if kind in FLOATS else ""
    left, right = e.text(a, kind), e.text(b, kind)
    if opcode in ("fadd", "fmul", "add", "mul", "and", "or", "xor") and right < left:
        left, right = right, left
    return e.do(f"{opcode} {flags}{e.vector(kind)} {left}, {right}")


def _wrap(x: int, kind: str, signed: bool = True) -> int:
    bits = int(kind[1:])
    x &= (1 << bits) - 1
    return x - (1 << bits) if signed and x >> (bits - 1) else x


def _fold(f: Callable, kind: str, signed: bool, *elements: Element) -> Element:
    """f of numbers, as precise as the kind; overflow and 0/0 as IEEE has them."""
    with np.errstate(all="ignore"):
        if kind in FLOATS:
            return rounded(f(*(np.float64(x) for x in elements)), kind)
    return bool(f(*elements)) if kind == "i1" else _wrap(int(f(*elements)), kind, signed)


def add(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a + b."""
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if known(a, b):
        return _fold(operator.add, kind, signed, a, b)
    return _two(e, "fadd" if kind in FLOATS else "add", kind, a, b)


def sub(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a − b."""
    if known(a, b):
        return _fold(operator.sub, kind, signed, a, b)
    if is_zero(b):
        return a
    if is_zero(a) and kind in FLOATS:
        return neg(e, kind, signed, b)
    return _two(e, "fsub" if kind in FLOATS else "sub", kind, a, b)


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
        return _fold(operator.mul, kind, signed, a, b)
    return _two(e, "fmul" if kind in FLOATS else "mul", kind, a, b)


def div(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """a / b; of whole numbers towards 0, −1 for b = 0 as XLA has it."""
    if kind in FLOATS:
        if known(a, b):
            return _fold(np.divide, kind, signed, a, b)
        if known(b) and _has_inverse(b, kind):
            return mul(e, kind, signed, a, 1 / b)
        return _two(e, "fdiv", kind, a, b)
    quotient = _two(e, "sdiv" if signed else "udiv", kind, a, _divisor(e, kind, signed, a, b))
    overflow = _overflows(e, kind, a, b) if signed else False
    return select(e, kind, compare("eq", e, kind, signed, b, 0), select(e, kind, overflow, quotient, a), -1)


def _has_inverse(b: float, kind: str) -> bool:
    """Whether 1/b is exact and b and 1/b are neither denormal nor infinite."""
    mantissa, exponent = math.frexp(b)
    return abs(mantissa) == 0.5 and abs(exponent) < (125 if kind == "float" else 1020)


def rem(e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """What division towards 0 leaves, with the sign of a."""
    if kind in FLOATS:
        return _fold(np.fmod, kind, signed, a, b) if known(a, b) else _two(e, "frem", kind, a, b)
    left = _two(e, "srem" if signed else "urem", kind, a, _divisor(e, kind, signed, a, b))
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
        return _fold(operator.neg, kind, signed, a)
    return e.do(f"fneg {e.vector(kind)} {e.text(a, kind)}") if kind in FLOATS else _two(e, "sub", kind, 0, a)


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
    found = select(e, kind, compare(how, e, kind, signed, a, b), b, a)
    if kind not in FLOATS or known(a):
        return found
    return select(e, kind, _unordered(e, kind, a), found, a)


def _unordered(e: Emitter, kind: str, a: Element) -> Value:
    return e.do(f"fcmp uno {e.vector(kind)} {e.text(a, kind)}, {e.text(a, kind)}")


def logic(how: str, e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """Bitwise and, or, xor."""
    ones = True if kind == "i1" else -1
    if known(a, b):
        return _fold(getattr(operator, how + "_"), kind, signed, a, b)
    for x, y in ((a, b), (b, a)):
        if known(x) and x == 0:
            return x if how == "and" else y
        if known(x) and x == ones and how != "xor":
            return y if how == "and" else x
    return _two(e, how, kind, a, b)


def invert(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """Every bit the other way."""
    return logic("xor", e, kind, signed, a, True if kind == "i1" else -1)


def shift(opcode: str, e: Emitter, kind: str, signed: bool, a: Element, b: Element) -> Element:
    """Shift by b bits; all bits shifted out where b is too large."""
    bits = 8 * size_of(kind)
    large = compare("ge", e, kind, False, b, bits) if not known(b) else not 0 <= b < bits
    amount = select(e, kind, large, b, bits - 1 if opcode == "ashr" else 0)
    shifted = _two(e, opcode, kind, a, amount)
    return shifted if opcode == "ashr" else select(e, kind, large, shifted, 0)


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
        return _fold(np.sign, kind, signed, a)
    one = 1.0 if kind in FLOATS else 1
    up = select(e, kind, compare("gt", e, kind, signed, a, 0), a, one)
    return select(e, kind, compare("lt", e, kind, signed, a, 0), up, -one) if signed else up


def absolute(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """|a|."""
    if known(a):
        return _fold(abs, kind, signed, a)
    if kind in FLOATS:
        return e.call("fabs", kind, a)
    below = compare("lt", e, kind, signed, a, 0)
    return select(e, kind, below, a, neg(e, kind, signed, a)) if signed else a


def is_finite(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """Neither infinite nor NaN."""
    return compare("lt", e, kind, signed, absolute(e, kind, signed, a), math.inf)


def intrinsic(name: str, fold: Callable | None, e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """An operation that LLVM knows by name."""
    return _fold(fold, kind, signed, a) if fold and known(a) else e.call(name, kind, a)


def leading_zeros(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """How many bits are 0 before the first 1."""
    t, symbol = e.vector(kind), f"@llvm.ctlz.v{e.lanes}{kind}"
    e.declared.add(f"declare {t} {symbol}({t}, i1)")
    return e.do(f"call {t} {symbol}({t} {e.text(a, kind)}, i1 false)")


def round_(e: Emitter, kind: str, signed: bool, a: Element, rounding_method: Any) -> Element:
    """To the nearest whole number; halves away from 0 (method 0) or to even (1)."""
    return e.call("round" if int(rounding_method) == 0 else "rint", kind, a)


def reduce_precision(
    e: Emitter, kind: str, signed: bool, a: Element, exponent_bits: int, mantissa_bits: int
) -> Element:
    """a as a narrower float would have it."""
    if (exponent_bits, mantissa_bits) == (8, 23):
        return convert(e, "float", True, kind, True, convert(e, kind, True, "float", True, a))
    if exponent_bits < 11 or mantissa_bits < 52:
        raise Uncovered(f"rounding to {mantissa_bits} bits")
    return a


def clamp(e: Emitter, kind: str, signed: bool, low: Element, a: Element, high: Element) -> Element:
    """a within low ... high."""
    return extreme("lt", e, kind, signed, extreme("gt", e, kind, signed, a, low), high)


def convert(e: Emitter, old: str, signed: bool, new: str, new_signed: bool, a: Element) -> Element:
    """The same number as another kind; out of range it stays at the end of the range."""
    if known(a):
        return _convert_known(a, new, new_signed)
    if old == new:
        return a
    t, u = e.vector(old), e.vector(new)
    if new == "i1":
        return compare("ne", e, old, signed, a, 0)
    if old in FLOATS and new in FLOATS:
        word = "fpext" if old == "float" else "fptrunc"
    elif old in FLOATS:
        short = "f32" if old == "float" else "f64"
        symbol = f"@llvm.fpto{'s' if new_signed else 'u'}i.sat.v{e.lanes}{new}.v{e.lanes}{short}"
        e.declared.add(f"declare {u} {symbol}({t})")
        return e.do(f"call {u} {symbol}({t} {e.text(a, old)})")
    elif new in FLOATS:
        word = "sitofp" if signed and old != "i1" else "uitofp"
    elif size_of(old) > size_of(new) and old != "i1":
        word = "trunc"
    elif old != "i1" and size_of(old) == size_of(new):
        return a
    else:
        word = "sext" if signed and old != "i1" else "zext"
    return e.do(f"{word} {t} {e.text(a, old)} to {u}")


def _convert_known(a: Any, new: str, signed: bool) -> Any:
    if new == "i1":
        return bool(a)
    if new in FLOATS:
        return rounded(a, new)
    if isinstance(a, float):
        bits = int(new[1:])
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        return 0 if math.isnan(a) else int(min(max(a, low), high))
    return _wrap(int(a), new, signed)


def _own(name: str, e: Emitter, kind: str, signed: bool, *elements: Element) -> Value:
    return e.function(name, kind, *elements)


RULES: dict[str, Rule] = {
    "add": add, "add_any": add, "sub": sub, "mul": mul, "div": div, "rem": rem, "neg": neg, "sign": sign,
    "abs": absolute, "max": partial(extreme, "gt"), "min": partial(extreme, "lt"), "clamp": clamp,
    "and": partial(logic, "and"), "or": partial(logic, "or"), "xor": partial(logic, "xor"), "not": invert,
    "shift_left": partial(shift, "shl"), "shift_right_logical": partial(shift, "lshr"),
    "shift_right_arithmetic": partial(shift, "ashr"), "is_finite": is_finite, "round": round_,
    "reduce_precision": reduce_precision, "clz": leading_zeros,
    "square": lambda e, kind, signed, a: mul(e, kind, signed, a, a),
    "integer_pow": power, "sqrt": partial(intrinsic, "sqrt", np.sqrt),
    "floor": partial(intrinsic, "floor", np.floor),
    "ceil": partial(intrinsic, "ceil", np.ceil), "population_count": partial(intrinsic, "ctpop", None),
    **{how: partial(compare, how) for how in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: partial(_own, name) for name in functions.NAMES},
}  # fmt: skip
"""By JAX's name: rule(emitter, kind, signed, *elements, **parameters) of the operands' kind"""


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
