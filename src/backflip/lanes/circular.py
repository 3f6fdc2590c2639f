"""Sine, cosine, tangent and their inverses, on vectors."""

from backflip.lanes.block import Value, clip, copysign, fabs, fma, nearest, select, sqrt
from backflip.lanes.polynomials import HALF_PI, fitted, parts

SPLIT_TURN = {"float": parts(HALF_PI, 33, 53), "double": parts(HALF_PI, 33, 33, 53)}
"""π/2 in doubles: all but the last part are exact times 2²⁰ quarter turns."""
HALF_PI_SUM = {"float": parts(HALF_PI, 24, 24), "double": parts(HALF_PI, 53, 53)}


def _turn(x: Value) -> tuple[Value, Value, Value]:
    """Sine and cosine of what is left of x without its nearest quarter turns, and their number."""
    # r = x − n π/2 in doubles: x may be close to n π/2, and nearly all its digits cancel
    n, turns = nearest(x, float(1 / HALF_PI))
    rest, wide = x.to("double"), n.to("double")
    for part in SPLIT_TURN[x.element]:
        rest = fma(wide, -part, rest)
    r = rest.to(x.element)
    # past 2²⁰ quarter turns r goes astray: hold it where sine and cosine are below 1
    r = clip(r, -1, 1)
    z = r * r
    sine = fma(r * z, fitted("sin", z), r)
    cosine = fma(z * z, fitted("cos", z), fma(z, -0.5, 1))
    return select(r.equals(0), r, sine), cosine, turns


def _of_turn(sine: Value, cosine: Value, turns: Value) -> Value:
    """The sine, n quarter turns on: s, c, −s, −c."""
    y = select((turns & 1).nonzero(), cosine, sine)
    sign = (turns & 2) << (y.format.bits - 2)
    return (y.bits() ^ sign).from_bits(y.element)


def sin(x: Value) -> Value:
    return _of_turn(*_turn(x))


def cos(x: Value) -> Value:
    sine, cosine, turns = _turn(x)
    return _of_turn(sine, cosine, turns + 1)


def tan(x: Value) -> Value:
    sine, cosine, turns = _turn(x)
    odd = (turns & 1).nonzero()
    return select(odd, -cosine, sine) / select(odd, sine, cosine)


# --- arcs ----------------------------------------------------------------------------------------


def _atan_short(t: Value) -> Value:
    """atan t of |t| ≤ 1."""
    z = t * t
    return fma(t * z, fitted("atan", z), t)


def atan(x: Value) -> Value:
    # of |x| > 1: π/2 + atan(−1/|x|)
    a = fabs(x)
    steep = a > 1
    high, low = HALF_PI_SUM[x.element]
    arc = _atan_short(select(steep, -1, a) / select(steep, a, 1))
    return copysign(select(steep, (arc + low) + high, arc), x)


def atan2(y: Value, x: Value) -> Value:
    # the arc from the nearer axis, atan of at most 1, then from +x: by octants, mirrored for y < 0
    #   steep: π/2 ∓ arc for x ≷ 0;   flat: arc for x > 0, π − arc for x < 0
    a, b = fabs(y), fabs(x)
    steep = a > b
    left = copysign(x.constant(1), x) < 0
    near, far = select(steep, b, a), select(steep, a, b)
    # 0/0 and ∞/∞ mean 0 and 1 here
    t = select(near.equals(far), select(far.equals(0), far, 1), near / far)
    arc = _atan_short(t)
    arc = select(steep ^ left, -arc, arc)
    high, low = (select(steep, p, select(left, x.constant(2 * p), 0)) for p in HALF_PI_SUM[x.element])
    return copysign(high + (arc + low), y)


def _asin_parts(x: Value) -> tuple[Value, Value]:
    """asin |x| if |x| ≤ 1/2, else half of acos |x|; and whether it is the latter."""
    # acos a = 2 asin √((1 − a)/2)
    a = fabs(x)
    large = a > 0.5
    z = select(large, fma(a, -0.5, 0.5), a * a)
    s = select(large, sqrt(z), a)
    return fma(s * z, fitted("asin", z), s), large


def asin(x: Value) -> Value:
    arc, large = _asin_parts(x)
    high, low = HALF_PI_SUM[x.element]
    return copysign(select(large, high - fma(arc, 2, -low), arc), x)


def acos(x: Value) -> Value:
    # x < −1/2: π − 2 arc;   |x| ≤ 1/2: π/2 ∓ arc;   x > 1/2: 2 arc
    arc, large = _asin_parts(x)
    high, low = HALF_PI_SUM[x.element]
    middle = high - (copysign(arc, x) - low)
    twice = arc + arc
    return select(large, select(x < 0, 2 * high - (twice - 2 * low), twice), middle)
