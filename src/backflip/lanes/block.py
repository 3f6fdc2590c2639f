"""Vectors of floats as Python values whose operators write LLVM instructions, so that a formula reads as one.

Instructions are generic and carry no fast-math flags: what is written is what is computed, on every target.
Products are fused with sums only in `fma`, and only where the machine does that in one instruction.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Format:
    """How a float lies in its bits: sign, exponent, then `fraction` bits."""

    bits: int
    fraction: int

    @property
    def integer(self) -> str:
        return f"i{self.bits}"

    @property
    def bias(self) -> int:
        """Exponent field of 1.0."""
        return 2 ** (self.bits - self.fraction - 2) - 1

    @property
    def rounder(self) -> float:
        """Added to a number below 2^(fraction − 1), rounds it to an integer, which the lowest bits hold."""
        return 1.5 * 2.0**self.fraction


FORMATS = {"float": Format(32, 23), "double": Format(64, 52)}


@dataclass
class Block:
    """Instructions in order, on vectors of `lanes` elements, and the intrinsics they call."""

    lanes: int
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)

    def vector(self, element: str) -> str:
        return f"<{self.lanes} x {element}>"

    def append(self, instruction: str, element: str) -> "Value":
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, name, element)

    def call(self, intrinsic: str, *arguments: "Value") -> "Value":
        element = arguments[0].element
        vector = self.vector(element)
        symbol = f"@llvm.{intrinsic}.v{self.lanes}f{FORMATS[element].bits}"
        self.declarations.add(f"declare {vector} {symbol}({', '.join([vector] * len(arguments))})")
        typed = ", ".join(f"{vector} {argument.name}" for argument in arguments)
        return self.append(f"call {vector} {symbol}({typed})", element)


@dataclass(frozen=True, eq=False)
class Value:
    """A vector in a block, by its LLVM name; `element` is float, double, i1, i32 or i64."""

    block: Block
    name: str
    element: str

    @property
    def format(self) -> Format:
        return FORMATS[self.element]

    def constant(self, number: "Value | float") -> "Value":
        """A number as a vector of my type; vectors pass unchanged."""
        if isinstance(number, Value):
            return number
        return Value(self.block, f"splat ({self.element} {literal(number, self.element)})", self.element)

    def _apply(self, instruction: str, other: "Value | float", element: str = "") -> "Value":
        vector = self.block.vector(self.element)
        text = f"{instruction} {vector} {self.name}, {self.constant(other).name}"
        return self.block.append(text, element or self.element)

    def _arithmetic(self, instruction: str, other: "Value | float") -> "Value":
        return self._apply("f" * (self.element in FORMATS) + instruction, other)

    def _cast(self, instruction: str, element: str) -> "Value":
        vector, wanted = self.block.vector(self.element), self.block.vector(element)
        return self.block.append(f"{instruction} {vector} {self.name} to {wanted}", element)

    def __add__(self, other: "Value | float") -> "Value":
        return self._arithmetic("add", other)

    def __sub__(self, other: "Value | float") -> "Value":
        return self._arithmetic("sub", other)

    def __rsub__(self, other: float) -> "Value":
        return self.constant(other) - self

    def __mul__(self, other: "Value | float") -> "Value":
        return self._arithmetic("mul", other)

    def __truediv__(self, other: "Value | float") -> "Value":
        return self._arithmetic("div", other)

    def __rtruediv__(self, other: float) -> "Value":
        return self.constant(other) / self

    def __neg__(self) -> "Value":
        return self.block.append(f"fneg {self.block.vector(self.element)} {self.name}", self.element)

    # comparisons of floats are false where one side is NaN

    def __lt__(self, other: "Value | float") -> "Value":
        return self._apply("fcmp olt", other, "i1")

    def __gt__(self, other: "Value | float") -> "Value":
        return self._apply("fcmp ogt", other, "i1")

    def equals(self, other: "Value | float") -> "Value":
        return self._apply("fcmp oeq", other, "i1")

    def unordered(self, other: "Value") -> "Value":
        """Where I or the other is NaN."""
        return self._apply("fcmp uno", other, "i1")

    def nonzero(self) -> "Value":
        """Which integers are not 0."""
        return self._apply("icmp ne", 0, "i1")

    def __and__(self, other: "Value | int") -> "Value":
        return self._apply("and", other)

    def __or__(self, other: "Value | int") -> "Value":
        return self._apply("or", other)

    def __xor__(self, other: "Value | int") -> "Value":
        return self._apply("xor", other)

    def __lshift__(self, count: int) -> "Value":
        return self._apply("shl", count)

    def __rshift__(self, count: int) -> "Value":
        """Zeros come in from the left."""
        return self._apply("lshr", count)

    def to(self, kind: str) -> "Value":
        """The same numbers as float or double."""
        if kind == self.element:
            return self
        return self._cast("fpext" if kind == "double" else "fptrunc", kind)

    def bits(self) -> "Value":
        return self._cast("bitcast", self.format.integer)

    def from_bits(self, kind: str) -> "Value":
        return self._cast("bitcast", kind)


def literal(number: float, element: str) -> str:
    """A number in LLVM's notation: floats by the bits of the double of the same value, hence exact."""
    if element not in FORMATS:
        return str(int(number))
    if element == "float":
        number = struct.unpack("f", struct.pack("f", number))[0]
    return f"0x{struct.unpack('>Q', struct.pack('>d', number))[0]:016X}"


def select(condition: Value, yes: "Value | float", no: "Value | float") -> Value:
    """`yes` in lanes where the condition holds, else `no`; at least one of them is a vector."""
    like = yes if isinstance(yes, Value) else no
    assert isinstance(like, Value)
    block, vector = condition.block, condition.block.vector(like.element)
    a, b = like.constant(yes).name, like.constant(no).name
    return block.append(
        f"select {block.vector('i1')} {condition.name}, {vector} {a}, {vector} {b}", like.element
    )


def fma(a: Value, b: "Value | float", c: "Value | float") -> Value:
    """a b + c, rounded once or twice as the machine likes."""
    return a.block.call("fmuladd", a, a.constant(b), a.constant(c))


def sqrt(x: Value) -> Value:
    return x.block.call("sqrt", x)


def fabs(x: Value) -> Value:
    return x.block.call("fabs", x)


def copysign(size: Value, sign: Value) -> Value:
    return size.block.call("copysign", size, sign)


def clip(x: Value, low: float, high: float) -> Value:
    """x held between two bounds; NaN stays NaN."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Σ cᵢ xⁱ by Estrin's scheme, pairs of terms at once, so that few products wait for others."""
    terms = [x.constant(coefficient) for coefficient in coefficients]
    while len(terms) > 1:
        pairs = [fma(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        x = x * x
    return terms[0]


def nearest(x: Value, scale: float = 1.0) -> tuple[Value, Value]:
    """The integer nearest to x·scale, as a float, and in the lowest bits of an integer."""
    rounder = x.format.rounder
    moved = fma(x, scale, rounder)
    return moved - rounder, moved.bits()


def two_to(count: Value, kind: str) -> Value:
    """2ⁿ of n counted by the lowest bits of an integer, where that is neither denormal nor infinite."""
    form = FORMATS[kind]
    return ((count + form.bias) << form.fraction).from_bits(kind)
