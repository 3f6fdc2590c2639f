"""Roots and powers, on vectors."""

from fractions import Fraction
from math import inf, nan

from backflip.lanes.block import Value, clip, copysign, fabs, fma, nearest, select, sqrt, two_to
from backflip.lanes.exponential import EXP_RANGE, SPLIT_LN2, exp_parts, expm1_short, log_sum, scaled, split
from backflip.lanes.polynomials import fitted, parts


def rsqrt(x: Value) -> Value:
    return 1 / sqrt(x)


def cbrt(x: Value) -> Value:
    # |x| = 2ᵏ m, k = 3 q + j, j in −1, 0, 1:  ∛x = 2^q ∛v, v = 2ʲ m;  a start, then y ← y − (y − v/y²)/3
    a = fabs(x)
    k, m = split(a)
    q, count = nearest(k, 1 / 3)
    j = fma(q, -3, k)
    step = select(j < 0, 0.5, select(j > 0, x.constant(2), 1))
    root = select(j < 0, 2 ** (-1 / 3), select(j > 0, x.constant(2 ** (1 / 3)), 1))
    v, y = m * step, fitted("cbrt", m) * root
    for _ in range(1 if x.element == "float" else 2):
        y = y - (y - v / (y * y)) * (1 / 3)
    result = copysign(y * two_to(count, x.element), x)
    return select(a > 0, select(a < inf, result, x), x)


def _two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """a b and what rounding took from it (Dekker), of doubles, without relying on a fused product."""
    # halves of 26 and 27 bits, whose products are exact
    upper = -(1 << 27)
    a1, b1 = ((v.bits() & upper).from_bits("double") for v in (a, b))
    a2, b2 = a - a1, b - b1
    product = a * b
    return product, (((a1 * b1 - product) + a1 * b2) + a2 * b1) + a2 * b2


def _sorted_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and what rounding took from it, of |a| ≥ |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _log_twice(x: Value) -> tuple[Value, Value]:
    """log x as the sum of two doubles, to 2⁻⁶²: a power multiplies its error by up to 745."""
    # as in log_sum, log x = k ln 2 + 2 s + 2/3 s³ + s z² L(z), the first three terms each as a sum of two
    k, m = split(x)
    f, d = m - 1, m + 1
    s = f / d
    sd, sd_low = _two_product(s, d)
    s_low = (((f - sd) - sd_low) - s * (m - (d - 1))) / d
    z, z_low = _two_product(s, s)
    z_low = fma(s * 2, s_low, z_low)
    cube, cube_low = _two_product(s, z)
    cube_low = cube_low + fma(s, z_low, s_low * z)
    third, third_low = parts(Fraction(2, 3), 53, 53)
    t, t_low = _two_product(cube, cube.constant(third))
    t_low = t_low + fma(cube, third_low, cube_low * third)
    high, low = SPLIT_LN2["double"]
    total, lost = _sorted_sum(k * high, s * 2)
    total, lost_too = _sorted_sum(total, t)
    small = fma(cube * z, fitted("log", z), fma(s_low, 2, t_low))
    return _sorted_sum(total, fma(k, low, small) + (lost + lost_too))


def _is_whole(x: Value) -> Value:
    # beyond 2^fraction all are
    limit = 2.0**x.format.fraction
    a = fabs(x)
    a = select(a > limit, limit, a)
    return ((a + limit) - limit).equals(a)


def pow(base: Value, exponent: Value) -> Value:
    # e^(y log |x|), in doubles; for double itself with log and product as sums of two
    x, y = base.to("double"), exponent.to("double")
    a = fabs(x)
    # 2⁶⁶ times the smallest |log| of a double but 1, 2⁻⁵³, overflows already
    bounded = clip(y, -(2.0**66), 2.0**66)
    if base.element == "float":
        count, r = exp_parts(clip(bounded * log_sum(a), *EXP_RANGE["double"]))
    else:
        log, log_low = _log_twice(a)
        power, low = _two_product(bounded, log)
        count, r = exp_parts(clip(power, *EXP_RANGE["double"]))
        # the rest of a power that was clipped may be large
        r = r + select(fabs(power) < 1000, fma(bounded, log_low, low), 0)
    usual = scaled(expm1_short(r) + 1, count)
    return _pow_special(base, exponent, usual.to(base.element))


def _pow_special(x: Value, y: Value, usual: Value) -> Value:
    """xʸ as C has it, from |x|ʸ of ordinary numbers."""
    # selects, one in another: conditions joined by "and" would be packed and unpacked between them
    a = fabs(x)
    falling = y < 0
    size = select(a.equals(0), select(falling, inf, y.constant(0)), usual)
    size = select(a.equals(inf), select(falling, 0, y.constant(inf)), size)
    if_whole = select(_is_whole(y * 0.5), size, copysign(size, x))
    if_not = select(x < 0, select(a < inf, nan, size), size)
    result = select(_is_whole(y), if_whole, if_not)
    result = select(x.unordered(y), nan, result)
    return select(y.equals(0), 1, select(x.equals(1), 1, result))
