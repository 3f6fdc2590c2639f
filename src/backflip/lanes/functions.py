"""Transcendental functions of JAX as LLVM functions on vectors: no libm, no branch, any target.

Each reduces its argument to a short interval, takes a polynomial there (`polynomials`), and puts back what
was taken off. All lanes go the same way; `select` picks what holds for each. Special values are those of C:
NaN stays NaN, zeros stay of their sign, results overflow to ∞ and underflow through the denormals. Where the
thread flushes those, as XLA's do, they count as zeros, and normal numbers are still right.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from backflip.lanes import circular, exponential, powers
from backflip.lanes.block import Block, Value

ULP = {
    "sin": (2, 4), "cos": (2, 4), "tan": (4, 4), "asin": (3, 3), "acos": (1.5, 1.5), "atan": (2.5, 2.5),
    "atan2": (2.5, 2.5), "exp": (1.5, 1.5), "exp2": (1.5, 1.5), "expm1": (2.5, 2.5), "sinh": (3, 3),
    "cosh": (2, 2), "tanh": (3, 3), "logistic": (3, 3), "erf": (2, 2), "log": (1.5, 1.5),
    "log1p": (1.5, 1.5), "asinh": (2.5, 2.5), "acosh": (2.5, 2.5), "atanh": (2.5, 2.5), "rsqrt": (1.5, 1.5),
    "cbrt": (1, 1), "pow": (1, 2),
}  # fmt: skip
"""Largest error in units of the last place, for float and double, with and without fused products.

sin, cos and tan stay within theirs up to |x| = 10⁶; beyond they lose digits, and are finite for finite x.
"""

FUNCTIONS: dict[str, Callable[..., Value]] = {
    name: getattr(module, name)
    for module, names in (
        (circular, "sin cos tan asin acos atan atan2"),
        (exponential, "exp exp2 expm1 sinh cosh tanh logistic erf log log1p asinh acosh atanh"),
        (powers, "rsqrt cbrt pow"),
    )
    for name in names.split()
}
NAMES = frozenset(FUNCTIONS)
"""Primitives of JAX that have a function here."""
BINARY = frozenset({"atan2", "pow"})


class Definition(NamedTuple):
    """An LLVM function on vectors: its symbol, its text, and the lines that declare what it calls."""

    symbol: str
    text: str
    declarations: frozenset[str]


@cache
def define(name: str, kind: str, lanes: int) -> Definition:
    """The function `name` on vectors of `lanes` floats of a kind, "float" or "double"."""
    block = Block(lanes)
    arguments = [Value(block, argument, kind) for argument in ("%x", "%y")[: 1 + (name in BINARY)]]
    result = FUNCTIONS[name](*arguments)
    symbol, vector = f"backflip.{name}.{kind}.{lanes}", block.vector(kind)
    head = ", ".join(f"{vector} {argument.name}" for argument in arguments)
    text = "\n".join([
        f"define internal {vector} @{symbol}({head}) nounwind willreturn memory(none) {{",
        *block.lines,
        f"  ret {vector} {result.name}",
        "}",
    ])  # fmt: skip
    return Definition(symbol, text, frozenset(block.declarations))
