"""Every ordinary primitive, one by one: lanes against XLA, and against numpy where XLA promises less.

XLA's CPU flushes denormals to zero and says nothing of the accuracy of its functions, so both are held
against numpy; all else must be what XLA makes of it.
"""

import math
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from jax import lax
from scipy import special

from backflip import lanes

pytestmark = pytest.mark.skipif(
    os.environ.get("BACKFLIP_TEST_LANES") != "1",
    reason="lanes are not finished and not the default: BACKFLIP_TEST_LANES=1 runs these, some fail",
)

PRECISIONS = ("float32", "float64")
BATCHES = (1, 3, 8, 17)
"""fewer than a vector, whole vectors, and remainders"""
SHAPES = ((), (1, 0), (3, 4, 5))
"""always tried beside those drawn"""
LARGE = (5, 6, 40)
"""too large for registers, and for one function"""
HALVES = 2.0 ** np.arange(-3, 5)
ULPS = {"float32": 4, "float64": 8}
"""promised of every function that is not a plain operation"""


# --- what the arguments are made of -----------------------------------------------------------------------


def wild(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Numbers of every size and kind, but none denormal."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        ends = np.array([0, 1, 2, 5, 31, info.min, info.max, info.max // 2], dtype)
        some = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        few = rng.integers(-9 if info.min else 0, 9, shape).astype(dtype)
        return np.choose(rng.integers(0, 3, shape), [some, few, rng.choice(ends, shape)]).astype(dtype)
    info = np.finfo(dtype)
    special = [np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 0.5, 1.5, -2.5, info.tiny, info.max, info.eps]
    sizes = 2.0 ** rng.uniform(info.minexp / 2, info.maxexp / 2, shape)
    signs = rng.choice([-1.0, 1.0], shape)
    kinds = [10 * rng.normal(size=shape), signs * sizes, rng.choice(special, shape)]
    return np.choose(rng.integers(0, 3, shape), kinds).astype(dtype)


def sure(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Numbers of every size, but none is NaN."""
    x = wild(rng, shape, dtype)
    return np.where(np.isnan(x), 7, x).astype(dtype) if dtype.kind == "f" else x


def tame(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Numbers of order one; some robots have none, a few or many of NaN, ∞, −0 and 0 among them."""
    if dtype.kind != "f":
        return wild(rng, shape, dtype) if dtype.kind == "b" else rng.integers(0, 9, shape).astype(dtype)
    special = rng.choice(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1]), shape)
    share = rng.choice([0, 0.02, 0.3])
    return np.where(rng.random(shape) < share, special, 2 * rng.normal(size=shape)).astype(dtype)


def calm(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Finite numbers of order one."""
    return rng.normal(size=shape).astype(dtype) if dtype.kind == "f" else tame(rng, shape, dtype)


def near_one(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """± about one, so that a product of hundreds neither overflows nor underflows; sometimes NaN, ∞ and 0."""
    x = tame(rng, shape, dtype)
    return np.where(np.isfinite(x) & (x != 0), np.copysign(rng.uniform(0.9, 1.1, shape), x), x).astype(dtype)


def choice(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    return rng.random(shape) < 0.5


def flag(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    return np.array(rng.random() < 0.5)


def one_of_them(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    return wild(rng, (), dtype)


def count(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """A small whole number, now and then negative."""
    return np.array(rng.integers(-2, 7), np.int32)


def thirds(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    return rng.integers(0, 3, shape).astype(np.int32)


def amounts(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Of a shift: within the word and beyond."""
    return rng.integers(0, 40, shape).astype(dtype)


def indices(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Three, of the first axis: inside, outside, negative, twice the same."""
    return rng.integers(-4, 8, 3).astype(np.int32)


def places(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """Three different ones, of the first axis: inside and outside."""
    return rng.permutation(6)[:3].astype(np.int32)


def updates(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """What to put at three places of the first axis."""
    return tame(rng, (3, *shape[1:]), dtype)


def matrix(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """(..., n, n) far from singular, needing pivots; n the last side, at most 8."""
    n = min(8, shape[-1]) if shape else 1
    return (rng.normal(size=(*shape[:-2], n, n)) + 3 * np.eye(n)[::-1]).astype(dtype)


def positive(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """(..., n, n) symmetric, positive definite."""
    A = matrix(rng, shape, np.dtype(float))
    return (A @ np.swapaxes(A, -1, -2) + np.eye(A.shape[-1])).astype(dtype)


def columns(rng: np.random.Generator, shape: tuple, dtype: np.dtype) -> np.ndarray:
    """(..., n, 2) right-hand sides."""
    return rng.normal(size=(*matrix(rng, shape, dtype).shape[:-1], 2)).astype(dtype)


# --- the table --------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One primitive: what it does to arguments of any shape, and how close it must come to XLA."""

    name: str
    of: Callable
    takes: tuple[Callable, ...] = (wild,)
    kinds: str = "f"
    """of numbers: f float, i int32, u uint32, b bool"""
    ulps: int = 0
    """XLA's own error included; of the result, or of the largest number if `summed`"""
    summed: bool = False
    signs: bool = True
    """whether the sign of a zero is defined"""
    covered: bool = True


two = (wild, wild)


def family(**usual: Any) -> Callable[..., Row]:
    """Rows that are alike: what they usually take, and how close they come."""

    def row(name: str, of: Callable, *takes_and_kinds: Any, **more: Any) -> Row:
        return Row(name, of, **usual | dict(zip(("takes", "kinds"), takes_and_kinds, strict=False)) | more)

    return row


about = family(takes=(tame,), ulps=32)
copies = family(takes=(wild,), kinds="fib")
sums = family(takes=(tame,), ulps=64, summed=True, signs=False)
solves = family(ulps=4000, summed=True, signs=False)
flows = family(takes=(tame, count), ulps=64, summed=True, signs=False)


def each_axis(do: Callable, *, empty: bool = True) -> Callable:
    """`do(x, axes)` along each axis, all of them, and none; `empty` where an empty axis has a meaning."""

    def reduce(x: jax.Array) -> list:
        n = x.ndim
        axes = {(), tuple(range(n)), *[(a,) for a in (0, n - 1) if n], *[(0, 2), (1,)] * (n == 3)}
        return [do(x, a) for a in sorted(axes) if empty or 0 not in x.shape]

    return reduce


def along(do: Callable) -> Callable:
    """`do(x, axis)` along each axis."""
    return lambda x, *more: [do(x, axis, *more) for axis in range(x.ndim)]


def both_ways(do: Callable) -> Callable:
    return along(lambda x, axis: (do(x, axis), do(x, axis, reverse=True)))


def at_least_1d(do: Callable) -> Callable:
    return lambda x, *more: do(jnp.atleast_1d(x), *more)


def dots(x: jax.Array, y: jax.Array) -> list:
    """Products over the last axis, the first one, and all; the axes before the last two are a batch."""
    n = x.ndim
    if n == 0:
        return [lax.dot_general(x, y, (((), ()), ((), ())))]
    batch = tuple(range(n - 2))
    first = [lax.dot_general(x, y, (((0,), (0,)), ((), ())))] if n < 3 else []
    return [lax.dot_general(x, y, (((n - 1,), (n - 1,)), (batch, batch))), *first, jnp.vdot(x, y)]


def pads(x: jax.Array, value: jax.Array) -> list:
    low_high_between = [(1, 2, 0), (0, 0, 2), (1, -1, 0), (-1, 0, 1), (-1, -1, 0)]
    roomy = all(n >= 2 for n in x.shape)
    configs = low_high_between if roomy else low_high_between[:2]
    return [lax.pad(x, value, [c] * x.ndim) for c in configs]


def slices(x: jax.Array) -> list:
    cuts = slice(None, None, 2), slice(1, None), slice(None, None, -1), slice(-2, None, None), slice(2, 2)
    return [x[(cut,) * x.ndim] for cut in cuts]


def dynamic_slices(x: jax.Array, i: jax.Array) -> list:
    sizes = [max(n - 1, 0) for n in x.shape]
    thin = along(lambda x, a: lax.dynamic_slice_in_dim(x, i, 1, a))
    return [lax.dynamic_slice(x, [i] * x.ndim, sizes), thin(x) if x.size else x]


def dynamic_updates(x: jax.Array, i: jax.Array) -> jax.Array:
    part = x[tuple(slice(1, None) for _ in x.shape)]
    return lax.dynamic_update_slice(x, part, [i] * x.ndim)


def take(mode: str) -> Callable:
    return at_least_1d(lambda x, i: jnp.take(x, i, axis=0, mode=mode) if x.shape[0] else x)


def pick(x: jax.Array, i: jax.Array) -> list:
    """Gathers of one element, of rows, of columns, and along an axis."""
    if 0 in x.shape:
        return []
    n = x.shape[0]
    whole = [x[i[0]], x[i], x[i % n], jnp.take_along_axis(x, jnp.broadcast_to(i[0] % n, x.shape), 0)]
    return whole + ([x[:, i], x[i[0], i[1]], x[i, i], x[i[:, None], i[None]]] if x.ndim > 1 else [])


def put(how: str, **mode: str) -> Callable:
    return at_least_1d(lambda x, i, y: getattr(x.at[i], how)(y.reshape(3, *x.shape[1:]), **mode))


def put_static(how: str) -> Callable:
    def at(x: jax.Array, y: jax.Array) -> list:
        if 0 in x.shape:
            return []
        i = np.arange(min(2, x.shape[0]))
        last = getattr(x.at[..., -1], how)(y.ravel()[0])
        return [getattr(x.at[i], how)(y.reshape(3, *x.shape[1:])[: len(i)]), last, getattr(x.at[::2], how)(1)]

    return at_least_1d(at)


def put_columns(x: jax.Array, i: jax.Array, y: jax.Array) -> jax.Array:
    return x.at[:, i].add(y.ravel()[0]) if x.ndim > 1 and x.size else x


def triangular(A: jax.Array, b: jax.Array, **how: Any) -> list:
    left = lax.linalg.triangular_solve(A, b, left_side=True, **how)
    return [left, lax.linalg.triangular_solve(A, jnp.swapaxes(b, -1, -2), **how)]


def factors(A: jax.Array) -> tuple:
    lu, pivots, order = lax.linalg.lu(A)
    return lu, pivots, order


def scans(x: jax.Array, n: jax.Array) -> list:
    """With xs and ys, backwards, by length only, and one in the other."""
    x = jnp.atleast_1d(x)
    start = jnp.zeros(x.shape[1:], x.dtype)
    body = lambda c, row: (0.5 * c + row, (c, n * row))  # noqa: E731
    by_length = lax.scan(lambda c, _: (0.5 * c + n, c[None]), start, None, length=4)
    within = lax.scan(lambda c, row: (lax.scan(body, c, x)[0] + row, n), start, x)
    return [lax.scan(body, start, x), lax.scan(body, start, x, reverse=True), by_length, within]


def scan_without_turns(x: jax.Array, n: jax.Array) -> Any:
    return lax.scan(lambda c, y: (c + y, c), x, jnp.zeros((0, *x.shape), x.dtype))


def unrolled(x: jax.Array, n: jax.Array) -> Any:
    return lax.scan(lambda c, i: (c * 0.5 + i, c), x, jnp.arange(5), unroll=2)


def whiles(x: jax.Array, n: jax.Array) -> Any:
    """As many turns as n says, another number in every lane."""
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, 0.5 * c[1] + n), (jnp.int32(0), x))


def whiles_nested(x: jax.Array, n: jax.Array) -> Any:
    outer = lambda c: (c[0] + 1, whiles(c[1], n - c[0])[1])  # noqa: E731
    return lax.while_loop(lambda c: c[0] < n, outer, (jnp.int32(0), x))


def whiles_on_data(x: jax.Array, n: jax.Array) -> Any:
    """Until the sum of squares is small: NaN stops at once."""
    return lax.while_loop(lambda x: jnp.sum(x * x) > 1e-3, lambda x: 0.4 * jnp.clip(x, -9, 9), x)


def fori(x: jax.Array, n: jax.Array) -> list:
    static = lax.fori_loop(0, 3, lambda i, x: 0.5 * x + i, x)
    return [static, lax.fori_loop(1, n, lambda i, x: 0.5 * x + i, x)]


def conds(x: jax.Array, yes: jax.Array) -> list:
    """Predicate per lane: arrays, several results, nested, and the untaken branch undefined."""
    many = lax.cond(yes, lambda x: (x, jnp.int32(1)), lambda x: (-x, jnp.int32(2)), x)
    guarded = lax.cond(yes, lambda x: jnp.sqrt(-jnp.abs(x)) / 0, lambda x: x, x)
    in_it = lax.cond(yes, lambda x: lax.cond(x.sum() > 0, lambda x: 2 * x, lambda x: 3 * x, x), jnp.abs, x)
    return [many, guarded, in_it, lax.cond(~yes, lambda: x, lambda: jnp.zeros_like(x))]


def cond_with_loop(x: jax.Array, n: jax.Array) -> Any:
    scanned = lambda x: lax.scan(lambda c, _: (c + n, None), x, None, 3)[0]  # noqa: E731
    return lax.cond(n > 2, lambda x: whiles(x, n)[1], scanned, x)


def switches(x: jax.Array, n: jax.Array) -> Any:
    return lax.switch(n, [lambda x: x, lambda x: x + x, lambda x: jnp.abs(x), lambda x: 0.5 * x], x)


@jax.custom_jvp
def own_jvp(x: jax.Array) -> jax.Array:
    return jnp.abs(x) * 2


own_jvp.defjvp(lambda x, dx: (own_jvp(*x), 7 * dx[0]))


@jax.custom_vjp
def own_vjp(x: jax.Array) -> jax.Array:
    return jnp.abs(x) * 2


own_vjp.defvjp(lambda x: (own_vjp(x), x), lambda x, ct: (7 * ct * x,))

POWERS = [
    about(f"integer_pow {n}", lambda x, n=n: lax.integer_pow(x, n)) for n in (0, 1, 2, 3, 7, -1, -2, -5)
]
COMPARED = [Row(do.__name__, do, two, "fiub") for do in (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)]
FUNCTIONS = [
    about(do.__name__, do)
    for do in (
        lax.rsqrt, lax.cbrt, lax.exp, lax.exp2, lax.expm1, lax.log, lax.log1p, lax.sin, lax.cos, lax.tan,
        lax.asin, lax.acos, lax.atan, lax.sinh, lax.cosh, lax.tanh, lax.asinh, lax.acosh, lax.atanh,
        lax.logistic, lax.erf,
    )
]  # fmt: skip

ROWS = [
    Row("add", lax.add, two, "fiu"),
    Row("sub", lax.sub, two, "fiu"),
    Row("mul", lax.mul, two, "fiu"),
    Row("div", lax.div, two, "fiu"),
    Row("rem", lax.rem, (tame, tame)),
    Row("rem far apart", lax.rem, two, "fiu"),
    Row("floor_divide and mod of integers", lambda x, y: (x // y, x % y), (wild, near_one), "iu"),
    Row("neg", lax.neg, kinds="fiu"),
    Row("sign", lax.sign, kinds="fiu"),
    Row("abs", lax.abs, kinds="fi"),
    Row("max", lax.max, two, "fiub", signs=False),
    Row("min", lax.min, two, "fiub", signs=False),
    Row("floor", lax.floor),
    Row("ceil", lax.ceil),
    Row("round half away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
    Row("round half even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    Row("sqrt", lax.sqrt),
    Row("square", lax.square, kinds="fiu"),
    Row("integer_pow of integers", lambda x: (lax.integer_pow(x, 3), x**4), kinds="iu"),
    *POWERS,
    *FUNCTIONS,
    about("pow", lax.pow, (tame, tame)),
    about("pow of an integer", lambda x, n: lax.pow(x, jnp.abs(n)), (tame, count)),
    about("atan2", lax.atan2, (tame, tame)),
    Row("is_finite", lax.is_finite),
    Row("copysign", jnp.copysign, two),
    sums("multiply and add", lambda x, y, z: x * y + z, (tame, tame, tame)),
    Row("numbers of Python", lambda x: (x + 1, 2 * x, 0.5 - x, x / 3, 1 / x), ulps=1),
    *COMPARED,
    Row("isnan", jnp.isnan),
    copies("select_n by bool", lax.select_n, (choice, wild, wild)),
    copies("select_n by one bool", lambda p, x, y: lax.select_n(p, x, y), (flag, wild, wild)),
    copies("select_n of three", lax.select_n, (thirds, wild, wild, wild)),
    copies("where", lambda p, x: jnp.where(p, x, 1), (choice, wild)),
    Row("clamp", lambda x, y: (jnp.clip(x, -0.5, 1.5), lax.clamp(-abs(y), x, abs(y))), (wild, calm)),
    Row("clamp integers", lambda x, y: lax.clamp(jnp.array(2, x.dtype), x, y), (wild, tame), "iu"),
    Row("and, or, xor, not", lambda x, y: (x & y, x | y, x ^ y, ~x), two, "iub"),
    Row("shifts", lambda x, n: (x << n, lax.shift_right_arithmetic(x, n)), (wild, amounts), "iu"),
    Row("logical shift", lax.shift_right_logical, (wild, amounts), "iu"),
    Row("population_count and clz", lambda x: (lax.population_count(x), lax.clz(x)), (wild,), "iu"),
    Row("float to integer", lambda x: (x.astype("int32"), jnp.abs(x).astype("uint32")), (calm,), "fib"),
    Row("anything to float", lambda x: (x.astype("float32"), x.astype("float64")), (wild,), "fiub"),
    Row("anything to bool", lambda x: x.astype(bool), (wild,), "fiub"),
    Row("integer to integer", lambda x: [x.astype(t) for t in ("int32", "uint32", "int64")], (wild,), "iub"),
    Row("bitcast", lambda x: lax.bitcast_convert_type(x, "int32" if x.dtype.itemsize == 4 else "int64")),
    copies("iota", lambda x: [lax.broadcasted_iota(t, (3, *x.shape), 0) for t in ("int32", x.dtype)],
           kinds="fi"),
    copies("iota and more", lambda x: jnp.arange(x.size, dtype="int32").reshape(x.shape) * (x == x)),
    copies("broadcast", lambda x: (jnp.broadcast_to(x, (2, *x.shape)), lax.broadcast_in_dim(x, (*x.shape, 3),
           tuple(range(x.ndim))))),
    copies("reshape", lambda x: (x.reshape(-1), x.reshape(1, *x.shape[::-1]), x.ravel()[None])),
    copies("transpose", lambda x: (x.T, along(lambda x, a: jnp.moveaxis(x, a, 0))(x))),
    copies("rev", lambda x: (lax.rev(x, tuple(range(x.ndim))), along(jnp.flip)(x))),
    copies("expand_dims and squeeze", lambda x: (x[None, ..., None], jnp.squeeze(x))),
    copies("concatenate", along(lambda x, a: jnp.concatenate([x, jnp.flip(x, a), x], a))),
    copies("stack", lambda x, y: (jnp.stack([x, y]), jnp.stack([x, y, x], -1)), two),
    copies("split", along(lambda x, a: jnp.split(x, [1], a) if x.shape[a] else [])),
    copies("tile and repeat", lambda x: (jnp.tile(x, 2), along(lambda x, a: jnp.repeat(x, 2, a))(x))),
    copies("pad", pads, (wild, one_of_them)),
    copies("slice", slices),
    copies("dynamic_slice", dynamic_slices, (wild, count)),
    copies("dynamic_update_slice", dynamic_updates, (wild, count)),
    copies("gather", at_least_1d(pick), (wild, indices)),
    copies("gather static", at_least_1d(lambda x: x[np.array([0, -1, 0])] if x.shape[0] else x)),
    copies("gather from constants", lambda i: jnp.asarray(HALVES)[i], (indices,), "b"),
    copies("take clip", take("clip"), (wild, indices)),
    copies("take fill", take("fill"), (wild, indices), "fi"),
    copies("take wrap", take("wrap"), (wild, indices)),
    copies("scatter", put("set"), (wild, places, updates)),
    copies("scatter static", put_static("set"), (wild, updates)),
    *[sums(f"scatter-{how}", put(how), (near_one, indices, updates), "fi", signs=how == "mul")
      for how in ("add", "mul", "min", "max")],
    *[sums(f"scatter-{how} static", put_static(how), (near_one, updates), "fi")
      for how in ("add", "mul", "min", "max")],
    sums("scatter-add clip", put("add", mode="clip"), (tame, indices, updates), "fi"),
    sums("scatter-add columns", put_columns, (tame, indices, updates), "fi"),
    sums("reduce_sum", each_axis(lambda x, axes: x.sum(axes)), kinds="fib"),
    sums("reduce_prod", each_axis(lambda x, axes: x.prod(axes)), (near_one,), "fi"),
    Row("reduce_max", each_axis(lambda x, axes: lax.reduce_max(x, axes)), (sure,), "fib", signs=False),
    Row("reduce_min", each_axis(lambda x, axes: lax.reduce_min(x, axes)), (sure,), "fib", signs=False),
    Row("any and all", each_axis(lambda x, axes: (x.any(axes), x.all(axes))), (wild,), "fib"),
    Row("reduce_xor", each_axis(lax.reduce_xor), (wild,), "ib"),
    Row("argmax", along(lambda x, a: lax.argmax(x, a, np.int32) if x.size else []), (tame,), "fi"),
    Row("argmin", along(lambda x, a: lax.argmin(x, a, np.int32) if x.size else []), (tame,), "fi"),
    sums("mean and variance", each_axis(lambda x, axes: (x.mean(axes), x.var(axes)), empty=False)),
    sums("cumsum", both_ways(lax.cumsum), kinds="fi"),
    sums("cumprod", both_ways(lax.cumprod), (near_one,), "fi"),
    sums("cummax", both_ways(lax.cummax), kinds="fi"),
    sums("cummin", both_ways(lax.cummin), kinds="fi"),
    sums("cumlogsumexp", along(lax.cumlogsumexp), (calm,), covered=False),
    sums("dot_general", dots, (tame, tame), ulps=256),
    sums("dot_general of integers", dots, (wild, wild), "i"),
    sums("matmul by a constant", lambda x: x[..., None] @ HALVES.astype(x.dtype)[None], ulps=256),
    sums("einsum", lambda x, y: jnp.einsum("...,...->...", x, y), (tame, tame)),
    sums("outer", lambda x, y: jnp.outer(x.ravel()[:9], y.ravel()[:9]), (tame, tame)),
    solves("cholesky", lambda A: jnp.linalg.cholesky(A), (positive,)),
    solves("triangular_solve", lambda A, b: triangular(jnp.tril(A), b, lower=True), (positive, columns)),
    solves("triangular_solve upper transposed", lambda A, b: triangular(jnp.triu(A), b, transpose_a=True),
           (positive, columns)),
    solves("triangular_solve unit", lambda A, b: triangular(jnp.tril(A) / 20, b, lower=True,
           unit_diagonal=True), (positive, columns)),
    solves("lu", factors, (matrix,)),
    solves("solve", jnp.linalg.solve, (matrix, columns)),
    solves("inv", jnp.linalg.inv, (matrix,)),
    solves("det", jnp.linalg.det, (matrix,), ulps=40_000),
    Row("sort", along(lambda x, a: lax.sort(x, a)), (tame,), "fi", signs=False, covered=False),
    Row("argsort", along(lambda x, a: jnp.argsort(x, a)), (tame,), "fi", covered=False),
    Row("top_k", at_least_1d(lambda x: lax.top_k(x, min(2, x.shape[-1]))), (calm,), covered=False),
    flows("scan", scans),
    flows("scan of nothing", scan_without_turns),
    flows("scan unrolled", unrolled),
    flows("map", at_least_1d(lambda x: lax.map(jnp.abs, x)), (tame,)),
    flows("while_loop", whiles),
    flows("while_loop nested", whiles_nested),
    flows("while_loop on data", whiles_on_data),
    flows("fori_loop", fori),
    flows("cond", conds, (tame, flag)),
    flows("cond with loops", cond_with_loop),
    flows("switch", switches),
    flows("associative_scan", at_least_1d(lambda x: lax.associative_scan(jnp.add, x)), (tame,)),
    Row("custom_jvp", own_jvp),
    Row("custom_vjp", own_vjp),
    Row("checkpoint", jax.checkpoint(lambda x: jnp.abs(x) * 2)),
    Row("jit inside", lambda x: jax.jit(lambda x, y: (y, -x))(x, jax.jit(jnp.abs)(x))),
    Row("stop_gradient", lambda x: lax.stop_gradient(x)),
    copies("vmap inside", at_least_1d(lambda x: jax.vmap(lambda row: row[::-1] if row.ndim else row)(x))),
]  # fmt: skip

CASES = [(row, p) for row in ROWS for p in PRECISIONS if "f" in row.kinds or p == "float64"]


# --- against XLA ------------------------------------------------------------------------------------------


def dtypes(row: Row, precision: str) -> list[np.dtype]:
    """Floats of this precision; the others beside either float32 or float64, to compile them once."""
    names = {"f": precision, "i": "int32", "u": "uint32", "b": "bool"}
    beside = {"float32": "fi", "float64": "fub"}[precision] if "f" in row.kinds else "iub"
    return [np.dtype(names[kind]) for kind in row.kinds if kind in beside]


def assert_close(got: Any, want: Any, row: Row, inputs: list[np.ndarray]) -> None:
    """NaN where NaN, ∞ where ∞, zeros of the same sign, the rest within the row's error.

    XLA flushes denormals, so anything below the smallest normal number equals zero here.
    """
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for i, (x, y) in enumerate(zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape), f"result {i}"
        if x.dtype.kind != "f":
            np.testing.assert_array_equal(x, y, f"result {i}")
            continue
        finite = np.isfinite(x) & np.isfinite(y)
        np.testing.assert_array_equal(x[~finite], y[~finite], f"result {i}: NaN and ∞")
        x, y = x[finite], y[finite]
        sizes = np.abs(y)
        if row.summed and y.size:
            sizes = np.full_like(y, max(np.max(np.abs(z[np.isfinite(z)]), initial=0) for z in [y, *inputs]))
        tiny, most = np.finfo(y.dtype).tiny, np.finfo(y.dtype).max
        room = row.ulps * np.spacing(np.clip(sizes, tiny, most / 2)) + np.where(np.abs(y) < 2 * tiny, tiny, 0)
        with np.errstate(over="ignore"):
            bad = np.abs(x - y) > room
        if row.signs:
            bad |= (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
        worst = np.flatnonzero(bad)[:3]
        assert not bad.any(), f"result {i}: {bad.sum()} of {bad.size}, e.g. {x[worst]} for {y[worst]}"


one_shape = array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
some_shapes = st.lists(one_shape, min_size=2, max_size=2, unique=True)
some_seed = st.integers(0, 2**32 - 1).filter(lambda seed: seed > 99)  # never the simplest example
once = settings(
    max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)


def assert_as_xla(row: Row, precision: str, shapes: list[tuple], seed: int, sizes: tuple[int, ...]) -> None:
    """One robot alone, and batches of such sizes, for arguments of all these shapes at once."""
    rng = np.random.default_rng([seed, zlib.crc32(row.name.encode())])
    wanted = [(shape, dtype) for shape in shapes for dtype in dtypes(row, precision)]
    lots = [[tuple(make(rng, *w) for make in row.takes) for w in wanted] for _ in range(max(sizes))]
    batch = jax.tree.map(lambda *xs: np.stack(xs), *lots)

    def one(many: list[tuple]) -> list:
        return [row.of(*args) for args in many]

    @jax.jit
    def by_lanes(alone: list, batches: list) -> tuple:
        lane = lanes.compile(one)
        return lane(alone), [jax.vmap(lane)(some) for some in batches]

    assert not row.covered or lanes.covers(one, lots[0]), f"{row.name} fell back to XLA"
    want = jax.jit(jax.vmap(one))(batch)
    alone, batches = by_lanes(lots[0], [jax.tree.map(lambda x, n=n: x[:n], batch) for n in sizes])
    inputs = [x for x in jax.tree.leaves(batch) if x.dtype.kind == "f"] if row.summed else []
    assert_close(alone, jax.tree.map(lambda x: x[0], want), row, inputs)
    for n, some in zip(sizes, batches, strict=True):
        assert_close(some, jax.tree.map(lambda x, n=n: x[:n], want), row, inputs)


@once
@given(drawn=some_shapes, seed=some_seed)
@pytest.mark.parametrize(("row", "precision"), CASES, ids=lambda x: getattr(x, "name", x))
def test_a_lane_does_what_xla_does(row: Row, precision: str, drawn: list[tuple], seed: int) -> None:
    assert_as_xla(row, precision, [*SHAPES, *drawn], seed, BATCHES)


OF_ANY_SIZE = (
    "add", "select_n by bool", "transpose", "concatenate", "slice", "gather", "take clip", "scatter-add",
    "reduce_sum", "reduce_max", "argmax", "cumsum", "matmul by a constant", "scan", "while_loop", "switch",
)  # fmt: skip


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in OF_ANY_SIZE], ids=lambda row: row.name)
def test_a_large_array_is_treated_as_a_small_one(row: Row) -> None:
    assert_as_xla(row, "float32", [LARGE], 0, (3,))


# --- against numpy: accuracy and denormals ----------------------------------------------------------------


def exact_logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def exact_rsqrt(x: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(x)


def exact_erf(x: np.ndarray) -> np.ndarray:
    return special.erf(x.astype(float)).astype(x.dtype)


EXACT: dict[Callable, Callable] = {
    lax.rsqrt: exact_rsqrt, lax.cbrt: np.cbrt, lax.exp: np.exp, lax.exp2: np.exp2, lax.expm1: np.expm1,
    lax.log: np.log, lax.log1p: np.log1p, lax.sin: np.sin, lax.cos: np.cos, lax.tan: np.tan,
    lax.asin: np.arcsin, lax.acos: np.arccos, lax.atan: np.arctan, lax.sinh: np.sinh, lax.cosh: np.cosh,
    lax.tanh: np.tanh, lax.asinh: np.arcsinh, lax.acosh: np.arccosh, lax.atanh: np.arctanh,
    lax.logistic: exact_logistic, lax.erf: exact_erf, lax.pow: np.power, lax.atan2: np.arctan2,
}  # fmt: skip

EVERYDAY = ("of order one", "up to a thousand")
RANGES = (*EVERYDAY, "of any size", "special")


def numbers(range_: str, precision: str, rng: np.random.Generator) -> np.ndarray:
    """4096 numbers; those of any size are any bits that make a finite number, denormals included."""
    if range_ == "special":
        info = np.finfo(precision)
        edges = [0, np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max, info.eps]
        ends = np.array([*edges, 0.5, 1, 2, 3, 88.7, 709])
        return rng.choice(np.concatenate([ends, -ends]), 4096).astype(precision)
    if range_ == "of any size":
        bits = rng.integers(0, 2**32 if precision == "float32" else 2**64, 4096, np.uint64)
        x = bits.astype(f"uint{precision[-2:]}").view(precision)
        return np.where(np.isfinite(x), x, 0.25)
    scale = 2 if range_ == "of order one" else 1000
    return rng.uniform(-scale, scale, 4096).astype(precision)


@cache
def batched(do: Callable) -> Callable:
    return jax.jit(jax.vmap(lanes.compile(do)))


@pytest.mark.parametrize("range_", RANGES)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("do", EXACT, ids=lambda do: do.__name__)
def test_functions_are_right_to_4_ulps_in_float32_and_8_in_float64(do: Callable, precision: str, range_: str):
    rng = np.random.default_rng(1)
    args = [numbers(range_, precision, rng) for _ in range(2 if do in (lax.pow, lax.atan2) else 1)]
    with np.errstate(all="ignore"):
        exact = EXACT[do](*[x.astype(np.longdouble) for x in args])
        rounded = exact.astype(precision)
        got = np.asarray(batched(do)(*args))
        ulps = np.abs(got - exact) / np.spacing(np.abs(rounded))
        far = np.abs(exact) > np.finfo(precision).max * (1 - ULPS[precision] * np.finfo(precision).eps)
    ulps = np.where((got == rounded) | (np.isnan(got) & np.isnan(rounded)), 0, ulps)
    # next to overflow, ∞ and the largest numbers are as good as each other
    ulps = np.where(far & (np.abs(got) >= np.finfo(precision).max / 1.01) & (got * exact > 0), 0, ulps)
    wrong_sign = (exact == 0) & (np.signbit(got) != np.signbit(rounded))
    bad = ~(ulps <= ULPS[precision] + (do is lax.erf)) | wrong_sign
    worst = np.argmax(np.where(np.isnan(ulps), np.inf, ulps) + wrong_sign)
    at = ", ".join(str(x[worst]) for x in args)
    assert not bad.any(), f"{bad.sum()} of {bad.size}: {ulps[worst]:.3g} ulps at {at}: {got[worst]}"


def plain(x: Any, y: Any, np: Any) -> dict[str, Any]:
    """Operations that round once or not at all, by jax.numpy or by numpy."""
    return {
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "half": x * 0.5, "double": x + x, "neg": -x,
        "abs": np.abs(x), "sqrt": np.sqrt(np.abs(x)), "max": np.maximum(x, y), "min": np.minimum(x, y),
        "floor": np.floor(x), "ceil": np.ceil(x), "sign": np.sign(x), "less": x < y, "equal": x == y,
        "zero": x == 0, "where": np.where(x < y, x, y), "to bool": x.astype(bool),
        "double precision": x.astype("float64"), "single precision": x.astype("float32"),
    }  # fmt: skip


@pytest.mark.parametrize("precision", PRECISIONS)
def test_denormals_are_kept(precision: str) -> None:
    rng, tiny = np.random.default_rng(0), np.finfo(precision).tiny
    sizes = 4.0 ** -rng.integers(0, 9, (2, 1001))
    x, y = (rng.uniform(-2, 2, (2, 1001)) * sizes).astype(precision) * tiny
    x[:7], y[:5] = [0, -0.0, tiny, -tiny, tiny / 2, np.inf, 1], [0, 0, tiny, tiny / 2, -tiny / 4]

    def operations(x: jax.Array, y: jax.Array) -> dict:
        return plain(x, y, jnp)

    assert lanes.covers(operations, x[0], y[0])
    with np.errstate(all="ignore"):
        want = plain(x, y, np)
    got = jax.jit(jax.vmap(lanes.compile(operations)))(x, y)
    alone = jax.jit(lanes.compile(operations))(x[9], y[9])
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], name)
        np.testing.assert_array_equal(alone[name], want[name][9], f"{name}, alone")


@pytest.mark.parametrize(("precision", "halvings"), [("float32", 150), ("float64", 1075)])
def test_one_can_be_halved_until_the_last_denormal_is_gone(precision: str, halvings: int) -> None:
    def halve(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] / 2, c[1] + 1), (x, jnp.int32(0)))[1]

    starts = np.array([1, 2, 0, -1, 0.5], precision)
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(lanes.compile(halve)))(starts), [halvings, halvings + 1, 0, 0, halvings - 1]
    )
    assert jax.jit(lanes.compile(halve))(starts[0]) == halvings


# --- what lanes promise beyond -----------------------------------------------------------------------------


def test_a_factor_known_to_be_zero_makes_the_product_zero_even_of_nan_and_infinity() -> None:
    eye = np.eye(3)

    def products(x: jax.Array) -> tuple:
        return 0.0 * x, x * jnp.zeros(3), eye @ x, jnp.zeros((2, 3)) @ x

    x = np.array([np.nan, np.inf, 3.0])
    zero, zeros, same, none = jax.jit(lanes.compile(products))(x)
    for product in (zero, zeros, none):
        np.testing.assert_array_equal(product, np.zeros_like(product))
    np.testing.assert_array_equal(same, x)
    batch = jax.jit(jax.vmap(lanes.compile(products)))(np.stack([x] * 5))
    np.testing.assert_array_equal(batch[2], [x] * 5)


def test_nan_and_infinity_are_not_optimised_away() -> None:
    def tricks(x: jax.Array, y: jax.Array) -> tuple:
        return x - x, x / x, x == x, (x + y) - y, y * x - y * x, jnp.isfinite(x), jnp.where(x != x, 1.0, 2.0)

    x, y = np.array([np.nan, np.inf, -np.inf, 0, 1, 1e-30]), np.array([1, 1, np.inf, np.nan, 1e30, 1])
    got, want = jax.jit(jax.vmap(lanes.compile(tricks)))(x, y), jax.jit(jax.vmap(tricks))(x, y)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_cholesky_of_something_indefinite_is_nan() -> None:
    A = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])])
    factor = np.asarray(jax.jit(jax.vmap(lanes.compile(jnp.linalg.cholesky)))(A))
    np.testing.assert_array_equal(factor[0], np.eye(3))
    assert np.isnan(factor[1]).any()


ENDLESS = """
import jax, numpy as np
from jax import lax
from backflip import lanes
grow = lanes.compile(lambda x: lax.while_loop(lambda x: x < 1, lambda x: 2 * x, x))
for n in (1, 3, 17):
    assert (np.asarray(jax.vmap(grow)(np.full(n, 0.3))) >= 1).all()
assert grow(np.float32(0.3)) >= 1
"""


def test_lanes_without_a_robot_do_not_hold_up_the_others() -> None:
    """A remainder filled with zeros would double zero for ever."""
    subprocess.run([sys.executable, "-c", ENDLESS], check=True, timeout=120)


def test_the_largest_and_smallest_of_numbers_with_nan_is_nan() -> None:
    """Unlike XLA's, which may or may not see it."""
    rng = np.random.default_rng(0)
    for shape in ((3,), (4, 5), (5, 6, 20)):
        x = rng.normal(size=(7, *shape))
        for i in range(1, 7):
            x[i].ravel()[rng.integers(0, x[i].size, i)] = np.nan
        both = jax.jit(jax.vmap(lanes.compile(lambda x: (x.max(), x.min(), x.max(0), x.min(-1)))))(x)
        flat = x.reshape(7, -1)
        for got, want in zip(both, (flat.max(1), flat.min(1), x.max(1), x.min(-1)), strict=True):
            np.testing.assert_array_equal(got, want)


def test_integers_divided_by_zero_do_not_stop_the_program() -> None:
    x, y = np.array([7, -7, 0, -(2**31), 5], np.int32), np.array([0, 0, 0, -1, 2], np.int32)
    for do in (lax.div, lax.rem):
        for n in range(1, 6):
            got, want = jax.vmap(lanes.compile(do))(x[:n], y[:n]), jax.vmap(do)(x[:n], y[:n])
            np.testing.assert_array_equal(got, want)


def test_a_table_of_constants_is_not_mistaken_for_another() -> None:
    tables = [np.arange(600.0), np.arange(600.0) + (np.arange(600) == 599)]
    first, second = (lanes.compile(lambda i, t=t: jnp.asarray(t)[i])(jnp.int32(599)) for t in tables)
    assert (first, second) == (599, 600)


def test_compile_time_grows_gently_with_an_array() -> None:
    """A large array is a loop: its text is not a thousand times that of a small one."""
    f = lanes.compile(lambda x: jnp.sin(x) @ jnp.cos(x))
    x = np.random.default_rng(0).normal(size=100_000)
    got, want = jax.jit(f)(x), math.fsum(np.sin(x) * np.cos(x))
    np.testing.assert_allclose(got, want, rtol=1e-10)
