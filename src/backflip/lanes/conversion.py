"""Elements of one kind as elements of another."""

import math
from typing import Any

import numpy as np

from backflip.lanes.emit import FLOATS, Element, Emitter, Uncovered, kind_of, known, rounded, size_of
from backflip.lanes.logic import compare, wrap


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
    return wrap(int(a), new, signed)


def reduce_precision(
    e: Emitter, kind: str, signed: bool, a: Element, exponent_bits: int, mantissa_bits: int
) -> Element:
    """a as a narrower float would have it."""
    if (exponent_bits, mantissa_bits) == (8, 23):
        return convert(e, "float", True, kind, True, convert(e, kind, True, "float", True, a))
    if exponent_bits < 11 or mantissa_bits < 52:
        raise Uncovered(f"rounding to {mantissa_bits} bits")
    return a


def bitcast(e: Emitter, old: Any, new: Any, x: Element) -> Element:
    """The same bits as another dtype of the same size."""
    a, b = kind_of(old), kind_of(new)
    if known(x):
        return np.asarray(x, old).view(new).item()
    return x if a == b else e.do(f"bitcast {e.vector(a)} {e.text(x, a)} to {e.vector(b)}")
