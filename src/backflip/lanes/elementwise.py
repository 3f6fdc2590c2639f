"""What one operation does to one element of each operand, by JAX's name of the operation.

Of two zeros of different sign the greater or lesser is either; for the rest see `arithmetic`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from backflip.lanes import functions
from backflip.lanes.arithmetic import absolute, add, div, mul, neg, power, rem, sign, sub
from backflip.lanes.conversion import reduce_precision
from backflip.lanes.emit import Element, Emitter, Value, known
from backflip.lanes.logic import compare, extreme, fold, invert, logic, shift

Rule = Callable[..., Element]


def is_finite(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """Neither infinite nor NaN."""
    return compare("lt", e, kind, signed, absolute(e, kind, signed, a), math.inf)


def intrinsic(
    name: str, known_value: Callable | None, e: Emitter, kind: str, signed: bool, a: Element
) -> Element:
    """An operation that LLVM knows by name."""
    return fold(known_value, kind, signed, a) if known_value and known(a) else e.call(name, kind, a)


def leading_zeros(e: Emitter, kind: str, signed: bool, a: Element) -> Element:
    """How many bits are 0 before the first 1."""
    t, symbol = e.vector(kind), f"@llvm.ctlz.v{e.lanes}{kind}"
    e.declared.add(f"declare {t} {symbol}({t}, i1)")
    return e.do(f"call {t} {symbol}({t} {e.text(a, kind)}, i1 false)")


def round_(e: Emitter, kind: str, signed: bool, a: Element, rounding_method: Any) -> Element:
    """To the nearest whole number; halves away from 0 (method 0) or to even (1)."""
    return e.call("round" if int(rounding_method) == 0 else "rint", kind, a)


def clamp(e: Emitter, kind: str, signed: bool, low: Element, a: Element, high: Element) -> Element:
    """a within low ... high."""
    return extreme("lt", e, kind, signed, extreme("gt", e, kind, signed, a, low), high)


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
