"""Exponential function and logarithm, those made of them, and the error function, on vectors."""

from math import inf, nan

from backflip.lanes.block import Value, clip, copysign, fabs, fma, nearest, select, sqrt, two_to
from backflip.lanes.polynomials import LN2, fitted, parts

SPLIT_LN2 = {"float": parts(LN2, 16, 24), "double": parts(LN2, 42, 53)}
"""The first part times an exponent, of 8 or 11 bits, is exact."""
EXP_RANGE = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
"""Below eˣ is 0, above it is ∞."""
EXP2_RANGE = {"float": (-151.0, 129.0), "double": (-1076.0, 1025.0)}
EXPM1_RANGE = {"float": (-50.0, 89.5), "double": (-50.0, 710.6)}
"""Below eˣ − 1 is −1, above sinh x is ∞, and between 2ⁿ⁻² is a normal number."""
ERF_ONE = {"float": 4.0, "double": 6.0}
"""From here on erf is 1."""

# --- powers of e ---------------------------------------------------------------------------------


def exp_parts(x: Value) -> tuple[Value, Value]:
    """n, counted in bits, and r of eˣ = 2ⁿ eʳ, |r| ≤ ln 2 / 2."""
    n, count = nearest(x, float(1 / LN2))
    high, low = SPLIT_LN2[x.element]
    return count, fma(n, -low, fma(n, -high, x))


def expm1_short(r: Value) -> Value:
    """eʳ − 1 of |r| ≤ ln 2 / 2."""
    return fma(r * r, fitted("exp", r), r)


def scaled(x: Value, count: Value) -> Value:
    """x 2ⁿ, in two steps: 2ⁿ itself may be denormal or infinite."""
    half = count >> 1
    return x * two_to(half, x.element) * two_to(count - half, x.element)


def exp(x: Value) -> Value:
    count, r = exp_parts(clip(x, *EXP_RANGE[x.element]))
    return scaled(expm1_short(r) + 1, count)


def exp2(x: Value) -> Value:
    x = clip(x, *EXP2_RANGE[x.element])
    n, count = nearest(x)
    return scaled(expm1_short((x - n) * float(LN2)) + 1, count)


def _expm1_quarter(x: Value, zero: float = 0.25) -> Value:
    """(eˣ − 1)/4, or eˣ/4 − `zero`; a quarter, to be finite as long as sinh is."""
    # with p = eʳ − 1: 2ⁿ⁻² p + (2ⁿ⁻² − 1/4)
    count, r = exp_parts(clip(x, *EXPM1_RANGE[x.element]))
    scale = two_to(count - 2, x.element)
    return fma(scale, expm1_short(r), scale - zero)


def _unless_tiny(x: Value, y: Value) -> Value:
    """x where it is so small that f(x) = x, and has its sign; else y."""
    return select(fabs(x) < 2.0 ** -(x.format.fraction + 2), x, y)


def expm1(x: Value) -> Value:
    return _unless_tiny(x, _expm1_quarter(x) * 4)


def tanh(x: Value) -> Value:
    # t/(t + 2), t = e²ᵃ − 1 = 4 q, a = |x|; 1 from a = 22 on
    a = fabs(x)
    q = _expm1_quarter(select(a > 22, 44, a + a))
    return _unless_tiny(x, copysign(q / (q + 0.5), x))


def sinh(x: Value) -> Value:
    # (t + t/(t + 1))/2, t = e^|x| − 1 = 4 q
    q = _expm1_quarter(fabs(x))
    return _unless_tiny(x, copysign((q + q / fma(q, 4, 1)) * 2, x))


def cosh(x: Value) -> Value:
    # (t + 1/t)/2, t = e^|x| = 4 q
    q = _expm1_quarter(fabs(x), zero=0)
    return (q + 0.0625 / q) * 2


def logistic(x: Value) -> Value:
    # 1/(1 + e⁻ˣ) = eˣ/(1 + eˣ): of the two, the one whose power does not overflow
    t = exp(-fabs(x))
    return select(x < 0, t, 1) / (t + 1)


def erf(x: Value) -> Value:
    # a = |x| < 1: a + a P(a²);   else 1 − exp(−R(a − 1))
    a = fabs(x)
    a = select(a > ERF_ONE[x.element], ERF_ONE[x.element], a)
    count, r = exp_parts(-fitted("erfc", a - 1))
    scale = two_to(count, x.element)
    tail = 1 - fma(scale, expm1_short(r), scale)
    return copysign(select(a < 1, fma(a, fitted("erf", a * a), a), tail), x)


# --- logarithms ----------------------------------------------------------------------------------


def split(x: Value) -> tuple[Value, Value]:
    """k and m of x = 2ᵏ m with 1/√2 ≤ m < √2, of x > 0."""
    form, kind = x.format, x.element
    denormal = x < 2.0 ** (1 - form.bias)
    x = select(denormal, x * 2.0**form.fraction, x)
    # the bits of x count in steps of the last place: shift 1/√2 to a power of 2, and read the exponent
    one = form.bias << form.fraction
    root = one - (1 << form.fraction) + int((2**0.5 - 1) * 2**form.fraction)
    shifted = x.bits() + (one - root)
    mantissa = (shifted & ((1 << form.fraction) - 1)) + root
    # the exponent as the lowest bits of 2^fraction + exponent: integers of 64 bits convert slowly
    offset = 2.0**form.fraction
    exponent = (shifted >> form.fraction) | ((form.bias + form.fraction) << form.fraction)
    zero = x.constant(offset + form.bias)
    k = exponent.from_bits(kind) - select(denormal, offset + form.bias + form.fraction, zero)
    return k, mantissa.from_bits(kind)


def log_sum(x: Value, more: "Value | float" = 0.0) -> Value:
    """log x + more, of finite x > 0; what is added has to be small against the sum, or x near 1."""
    # log m = log((1 + s)/(1 − s)), s = f/(2 + f), f = m − 1; with 2 s = f − s f:
    #   log x = k ln 2 + f − s (f − R), R = z (2/3 + z L(z)), z = s²
    k, m = split(x)
    f = m - 1
    s = f / (f + 2)
    z = s * s
    R = z * fma(z, fitted("log", z), 2 / 3)
    high, low = SPLIT_LN2[x.element]
    return fma(k, high, f - (s * (f - R) - fma(k, low, more)))


def log(x: Value) -> Value:
    y = select(x < inf, log_sum(x), x)
    return select(x > 0, y, select(x.equals(0), -inf, x.constant(nan)))


def _one_plus(x: Value) -> tuple[Value, Value]:
    """u and c of log(1 + x) = log u + c, for finite x > −1."""
    # u = 1 + x, rounded; c = e/u, with e what rounding lost
    u = x + 1
    x_in_u = u - 1
    e = (1 - (u - x_in_u)) + (x - x_in_u)
    return u, e / u


def log1p(x: Value) -> Value:
    y = select(x < inf, log_sum(*_one_plus(x)), x)
    y = select(x > -1, y, select(x.equals(-1), -inf, x.constant(nan)))
    return _unless_tiny(x, y)


def _log1p_or_double(v: Value, x: Value) -> Value:
    """log(1 + v), or log(2 x) where x is so large that this is the same, and v may have overflown."""
    u, c = _one_plus(v)
    large = x > 2.0 ** (x.format.fraction // 2 + 2)
    y = log_sum(select(large, x, u), select(large, float(LN2), c))
    return select(x < inf, y, x)


def asinh(x: Value) -> Value:
    # log(a + √(a² + 1)) = log1p(a + a²/(1 + √(a² + 1))), a = |x|
    a = fabs(x)
    square = a * a
    v = a + square / (sqrt(square + 1) + 1)
    return copysign(_log1p_or_double(v, a), x)


def acosh(x: Value) -> Value:
    # log(x + √(x² − 1)) = log1p(t + √(2 t + t²)), t = x − 1
    t = x - 1
    v = t + sqrt(fma(t, t, t + t))
    return select(x < 1, nan, _log1p_or_double(v, x))


def atanh(x: Value) -> Value:
    # log((1 + a)/(1 − a))/2 = log1p(2 a/(1 − a))/2, a = |x|; past 1 the argument is below −1
    a = fabs(x)
    return copysign(log1p((a + a) / (1 - a)) * 0.5, x)
