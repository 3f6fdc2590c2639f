"""Every primitive against XLA, on numbers and shapes that hypothesis makes.

Operations on the same operands are compiled as one function, which then runs on many values: alone, in a
batch of 3, less than a vector, and of 17, a vector and a remainder on any machine. A failure names the
operation.

Sums may be taken in any order, so their errors are measured against the largest term. A denormal counts as
itself or as a zero of its sign: XLA's threads flush them, and what is known when a kernel is made is not.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from jax import lax

from backflip import lanes

BATCH, FEW = 17, 3
FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
every_float = pytest.mark.parametrize("dtype", FLOATS)

quick: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "phases": [Phase.explicit, Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
values = settings(max_examples=25, **quick)
"""one compiled function, many numbers"""
shapes = settings(max_examples=2, **quick)
"""every example compiles anew"""
any_shape = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
seeds = st.integers(0, 2**32 - 1)


# --- running both -----------------------------------------------------------------------------------------

Operations = Callable[..., dict[str, Any]]


@cache
def compiled(operations: Operations) -> tuple[Callable, Callable]:
    """By lanes: alone, a few, a batch; by XLA: the batch."""
    lane = lanes.compile(operations)

    def by_lanes(*args: Any) -> list[Any]:
        one, few = (jax.tree.map(lambda x, n=n: x[n], args) for n in (0, slice(FEW)))
        assert lanes.covers(operations, *one), "it fell back to XLA"
        return [lane(*one), jax.vmap(lane)(*few), jax.vmap(lane)(*args)]

    return jax.jit(by_lanes), jax.jit(jax.vmap(operations))


def assert_as_xla(operations: Operations, *batch: Any, **tolerance: Any) -> None:
    """What lanes make of a batch of arguments is what XLA makes of it, or of it with denormals flushed."""
    by_lanes, by_xla = compiled(operations)
    wanted = by_xla(*batch), by_xla(*jax.tree.map(flushed, batch))
    wrong = {}
    for got, part in zip(by_lanes(*batch), (0, slice(FEW), slice(None)), strict=True):
        assert jax.tree.structure(got) == jax.tree.structure(wanted[0])
        for name in got:
            for x, *ys in zip(*(jax.tree.leaves(tree[name]) for tree in (got, *wanted)), strict=True):
                x, ys = np.asarray(x), [np.asarray(y)[part] for y in ys]
                bad = ~np.any([is_close(x, y, name, batch, **tolerance) for y in ys], 0)
                if bad.any():
                    wrong[name] = f"{x[bad][:3]}, not {ys[0][bad][:3]}"
    assert not wrong, wrong


def flushed(x: Any) -> Any:
    """Denormals as zeros."""
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def size(x: Any) -> float:
    """The largest finite number."""
    x = np.asarray(x)
    return np.max(np.abs(x[np.isfinite(x)]), initial=0) if x.dtype.kind == "f" else 0


def is_close(
    got: np.ndarray,
    want: np.ndarray,
    name: str,
    batch: Any,
    ulps: float | dict[str, float] = 0,
    summed: bool = False,
    unsigned: Sequence[str] = (),
) -> np.ndarray:
    """Where NaN is NaN, ∞ is ∞, zeros have their sign, and the rest is near.

    `ulps`: how far from XLA's; of the result, or of the largest finite number around if `summed`.
    `unsigned`: operations whose zeros may have any sign, as those of sums.
    """
    assert (got.dtype, got.shape) == (want.dtype, want.shape), name
    if got.dtype.kind != "f":
        return np.asarray(got == want)
    got, want, limits = flushed(got), flushed(want), np.finfo(want.dtype)
    room = ulps.get(name, 0) if isinstance(ulps, dict) else ulps
    largest = max(map(size, jax.tree.leaves((want, batch)))) if summed else 0
    with np.errstate(all="ignore"):
        room = room * np.spacing(np.clip(np.maximum(np.abs(want), largest), limits.tiny, limits.max / 2))
        # next to the denormals one may have been flushed, halfway to the result
        room += np.where((room > 0) & (np.abs(want) < 4 * limits.tiny), 4 * limits.tiny, 0)
        near = (got == want) | (np.abs(got - want) <= room)
    signs = summed or name in unsigned
    signs |= (got != 0) | (want != 0) | (np.signbit(got) == np.signbit(want))
    return (np.isnan(got) & np.isnan(want)) | (near & signs)


# --- numbers ----------------------------------------------------------------------------------------------


def floats(dtype: str, *shape: int) -> st.SearchStrategy:
    """A batch of any floats: NaN, ±∞, ±0 and denormals among them."""
    bits = np.dtype(dtype).itemsize * 8
    return arrays(dtype, (BATCH, *shape), elements=st.floats(width=bits), fill=st.nothing())


def integers(dtype: str, *shape: int, least: int | None = None, most: int | None = None) -> st.SearchStrategy:
    info = np.iinfo(dtype)
    low, high = info.min if least is None else least, info.max if most is None else most
    return arrays(dtype, (BATCH, *shape), elements=st.integers(low, high), fill=st.nothing())


def some(seed: int, dtype: str, *shape: int, rough: bool = False) -> np.ndarray:
    """A batch of numbers of order one; `rough`: NaN, ±∞ and ±0 among those of some robots."""
    rng, shape = np.random.default_rng(seed), (BATCH, *shape)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 9, shape).astype(dtype)
    x = rng.normal(size=shape)
    if rough:
        special = rng.choice([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1], shape)
        share = rng.choice([0, 0.05, 0.3], (BATCH, *[1] * (len(shape) - 1)))
        x = np.where(rng.random(shape) < share, special, x)
    return x.astype(dtype)


# --- element by element -----------------------------------------------------------------------------------


def arithmetic(x: jax.Array, y: jax.Array, z: jax.Array) -> dict[str, Any]:
    """What rounds once, or not at all."""
    wider = "int32" if x.dtype == "float32" else "int64"
    return {
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "rem": lax.rem(x, y), "neg": -x,
        "sign": lax.sign(x), "abs": lax.abs(x), "max": lax.max(x, y), "min": lax.min(x, y),
        "floor": lax.floor(x), "ceil": lax.ceil(x), "sqrt": lax.sqrt(x), "square": lax.square(x),
        "round half away": lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        "round half even": lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        "integer_pow": [lax.integer_pow(x, n) for n in (0, 1, 2)], "is_finite": lax.is_finite(x),
        "eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "isnan": x != x,
        "clamp": lax.clamp(-abs(y), x, abs(y)), "clip": jnp.clip(x, -0.5, 1.5),
        "copysign": jnp.copysign(x, y), "select_n": lax.select_n(x < y, y, z),
        "where": jnp.where(x < y, x, 1),
        "numbers of Python": [x + 1, 2 * x, 0.5 - x, x / 4, 1 / x, x * 1, -1 * x, x - 0.25],
        "reduce_precision": lax.reduce_precision(x, 8, 23), "bitcast": lax.bitcast_convert_type(x, wider),
        "to float": [x.astype("float32"), x.astype("float64")], "to bool": x.astype(bool),
        "to integer": [x.astype(t) for t in INTEGERS],
        "by a third": x / 3,
        "not optimised away": [x - x, x / x, (x + y) - y, x == x],
    }  # fmt: skip


@every_float
@values
@given(data=st.data())
def test_arithmetic_is_that_of_xla_to_the_last_bit(dtype: str, data: st.DataObject) -> None:
    x, y, z = data.draw(st.tuples(*[floats(dtype)] * 3))
    assert_as_xla(arithmetic, x, y, z, unsigned=("max", "min", "clamp", "clip"), ulps={"by a third": 1})


FUNCTIONS = (
    lax.rsqrt, lax.cbrt, lax.exp, lax.exp2, lax.expm1, lax.log, lax.log1p, lax.asin, lax.acos, lax.atan,
    lax.sinh, lax.cosh, lax.tanh, lax.asinh, lax.acosh, lax.atanh, lax.logistic, lax.erf,
)  # fmt: skip
TURN_LIMIT = 1e6
"""of sin, cos and tan, which lose digits beyond"""


def functions(x: jax.Array, y: jax.Array, n: jax.Array) -> dict[str, Any]:
    one = {f.__name__: f(x) for f in FUNCTIONS}
    angle = jnp.where(jnp.isfinite(x), jnp.clip(x, -TURN_LIMIT, TURN_LIMIT), x)
    turns = {f.__name__: f(angle) for f in (lax.sin, lax.cos, lax.tan)}
    powers = {f"integer_pow {n}": lax.integer_pow(x, n) for n in (3, 7, -1, -2, -5)}
    two = {"pow": lax.pow(x, y), "pow of an integer": lax.pow(x, n), "atan2": lax.atan2(x, y)}
    return one | turns | powers | two


@every_float
@values
@given(data=st.data())
def test_functions_are_those_of_xla_for_any_number(dtype: str, data: st.DataObject) -> None:
    """Up to XLA's errors, which are large: ours are measured in test_functions."""
    x, y = data.draw(st.tuples(*[floats(dtype)] * 2))
    assert_as_xla(functions, x, y, data.draw(integers("int32", least=-5, most=9)), ulps=4096)


def whole(xs: dict[str, jax.Array], ys: dict[str, jax.Array]) -> dict[str, Any]:
    """Of integers of every size, signed and not."""
    operations = {
        "add": lax.add, "sub": lax.sub, "mul": lax.mul, "div": lax.div, "rem": lax.rem, "max": lax.max,
        "min": lax.min, "and": lax.bitwise_and, "or": lax.bitwise_or, "xor": lax.bitwise_xor,
        "shift_left": lax.shift_left, "shift_right_logical": lax.shift_right_logical,
        "shift_right_arithmetic": lax.shift_right_arithmetic, "eq": lax.eq, "ne": lax.ne, "lt": lax.lt,
        "le": lax.le, "gt": lax.gt, "ge": lax.ge, "floor_divide": jnp.floor_divide, "mod": jnp.mod,
        "neg": lambda x, y: lax.neg(x), "not": lambda x, y: ~x, "sign": lambda x, y: lax.sign(x),
        "abs": lambda x, y: abs(x), "square": lambda x, y: x * x, "cube": lambda x, y: x**3,
        "population_count": lambda x, y: lax.population_count(x), "clz": lambda x, y: lax.clz(x),
        "clamp": lambda x, y: lax.clamp(x.dtype.type(2), x, y),
        "select_n": lambda x, y: jnp.where(x < y, 7, y),
        "to others": lambda x, y: [x.astype(t) for t in (*INTEGERS, *FLOATS, "bool")],
        "by known numbers": lambda x, y: [x * 0, x // 3, x % 4, x << 2, x >> 2, x & 1, x | 1, x + 0, 1 - x],
    }  # fmt: skip
    return {f"{name} {t}": f(xs[t], ys[t]) for t in xs for name, f in operations.items()}


@values
@given(data=st.data())
def test_integers_wrap_and_divide_as_those_of_xla(data: st.DataObject) -> None:
    x, y = ({t: data.draw(integers(t)) for t in INTEGERS} for _ in range(2))
    near = {t: np.where(x["int8"] % 2, y[t], y[t] % 9).astype(t) for t in INTEGERS}
    assert_as_xla(whole, x, near)


def logical(x: jax.Array, y: jax.Array, z: jax.Array) -> dict[str, Any]:
    pairs = {"and": x & y, "or": x | y, "xor": x ^ y, "eq": x == y, "ne": x != y, "lt": x < y, "ge": x >= y,
             "max": lax.max(x, y), "min": lax.min(x, y), "select_n": lax.select_n(x, y, z)}  # fmt: skip
    return pairs | {"not": ~x, "to others": [x.astype(t) for t in (*INTEGERS, *FLOATS)]}


@values
@given(xyz=arrays(bool, (3, BATCH)))
def test_booleans_are_those_of_xla(xyz: np.ndarray) -> None:
    assert_as_xla(logical, *xyz)


def test_a_truth_known_beforehand_is_turned_round() -> None:
    f = lanes.compile(lambda x: jnp.where(~jnp.zeros((), bool) ^ jnp.zeros((), bool), x, 0))
    assert jax.jit(jax.vmap(f))(jnp.ones(BATCH)).all()


# --- moved about ------------------------------------------------------------------------------------------


def along(do: Callable, x: jax.Array) -> list[Any]:
    """`do(x, axis)` along each axis."""
    return [do(x, axis) for axis in range(x.ndim)]


def moves(x: jax.Array, y: jax.Array) -> dict[str, Any]:
    """What computes nothing, of any shape."""
    n, cuts = (
        x.ndim,
        (slice(None, None, 2), slice(1, None), slice(None, None, -1), slice(-2, None), slice(2, 2)),
    )
    roomy = [(1, 2, 0), (0, 0, 2)] + [(1, -1, 0), (-1, 0, 1)] * all(k > 1 for k in x.shape)
    return {
        "broadcast": [jnp.broadcast_to(x, (2, *x.shape)), lax.broadcast_in_dim(x, (*x.shape, 3), range(n))],
        "reshape": [x.reshape(-1), x.reshape(1, *x.shape[::-1]), x.ravel()[None]],
        "transpose": [x.T, *along(lambda x, a: jnp.moveaxis(x, a, 0), x)],
        "rev": [lax.rev(x, range(n)), *along(jnp.flip, x)],
        "expand_dims, squeeze": [x[None, ..., None], jnp.squeeze(x)],
        "concatenate": along(lambda x, a: jnp.concatenate([x, jnp.flip(x, a), x], a), x),
        "stack": [jnp.stack([x, y]), jnp.stack([x, y, x], -1)],
        "split": along(lambda x, a: jnp.split(x, [1], a) if x.shape[a] else [], x),
        "unstack": along(lambda x, a: list(jnp.unstack(x, axis=a)), x),
        "tile, repeat": [jnp.tile(x, 2), *along(lambda x, a: jnp.repeat(x, 2, a), x)],
        "pad": [lax.pad(x, y.ravel()[0] if y.size else x.dtype.type(1), [c] * n) for c in roomy],
        "slice": [x[(cut,) * n] for cut in cuts],
        "iota": [lax.broadcasted_iota(t, (3, *x.shape), 0) + (x == x) for t in ("int32", "float32")],
        "select_n by one": lax.select_n((x == x).all(), x, y),
        "gather known": [x[(0,) * n], x[..., -1:]] if x.size and n else [],
        "scatter known": [x.at[(0,) * n].set(y.ravel()[0]), x.at[::2].set(x[0]), x.at[..., -1].set(y[..., 0])]
        if x.size and n else [],
        "a constant": jnp.arange(6) + 0 * (x == x).sum(),
    }  # fmt: skip


@shapes
@example(dtype="float64", shape=(), seed=0)
@example(dtype="int32", shape=(1, 0), seed=0)
@example(dtype="bool", shape=(3, 1, 4), seed=0)
@given(dtype=st.sampled_from(["float32", "float64", "uint8", "bool"]), shape=any_shape, seed=seeds)
def test_moves_are_those_of_xla_for_any_shape(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    assert_as_xla(moves, *(some(seed + i, dtype, *shape, rough=True) for i in range(2)))


def axes_of(x: jax.Array) -> list[tuple[int, ...]]:
    """None, each, the first and last, all."""
    n = x.ndim
    return sorted({(), *((a,) for a in range(n)), tuple(range(n)), *([(0, 2)] if n == 3 else [])})


def reductions(x: jax.Array) -> dict[str, Any]:
    found = {
        "reduce_sum": [x.sum(a) for a in axes_of(x)],
        "any": [(x != 0).any(a) for a in axes_of(x)],
        "all": [(x != 0).all(a) for a in axes_of(x)],
        "reduce_xor": [lax.reduce_xor(x > 0, a) for a in axes_of(x)],
        "cumsum": along(lambda x, a: [lax.cumsum(x, a), lax.cumsum(x, a, reverse=True)], x),
        "cummax": along(lax.cummax, x),
        "cummin": along(lax.cummin, x),
    }
    if x.size:
        for f in (lax.argmax, lax.argmin):
            found[f.__name__] = along(lambda x, a, f=f: f(x, a, np.int32), x)
    return found


def products(x: jax.Array) -> dict[str, Any]:
    return {
        "reduce_prod": [x.prod(a) for a in axes_of(x)],
        "cumprod": along(lax.cumprod, x),
        "reduce_max": [lax.reduce_max(x, a) for a in axes_of(x)],
        "reduce_min": [lax.reduce_min(x, a) for a in axes_of(x)],
    }


numeric = st.sampled_from(["float32", "float64", "int32"])


@shapes
@example(dtype="float64", shape=(), seed=0)
@example(dtype="int32", shape=(1, 0), seed=0)
@example(dtype="float32", shape=(4, 1, 3), seed=0)
@example(dtype="float64", shape=(5,), seed=0)
@given(dtype=numeric, shape=any_shape, seed=seeds)
def test_reductions_are_those_of_xla_for_any_shape(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    x = some(seed, dtype, *shape, rough=True)
    assert_as_xla(reductions, x, ulps=64, summed=True)
    # XLA may or may not see a NaN in a largest and smallest
    assert_as_xla(products, np.where(np.isnan(x), 1, x).astype(dtype), ulps=64, summed=True)


def sorts(x: jax.Array, i: jax.Array) -> dict[str, Any]:
    """x: (2, 4), i: (4,)."""
    return {
        "sort": [lax.sort(x, a) for a in (0, 1)],
        "argsort": jnp.argsort(x, descending=True),
        "sort of integers": jnp.argsort(i),
        "by two keys": lax.sort((i % 2, x[0], i), num_keys=2),
        "none, one": [jnp.sort(x[:, :n]) for n in (0, 1)],
    }


@values
@given(x=floats("float32", 2, 4), i=integers("int32", 4))
def test_sorts_are_those_of_xla_with_nan_last_and_equals_in_order(x: np.ndarray, i: np.ndarray) -> None:
    assert_as_xla(sorts, x, i)


def dots(x: jax.Array, y: jax.Array) -> dict[str, Any]:
    """Over the last axis, the first, all and none; leading axes are a batch."""
    n = x.ndim
    if not n:
        return {"dot": lax.dot_general(x, y, (((), ()), ((), ())))}
    batch = tuple(range(n - 2))
    return {
        "last": lax.dot_general(x, y, (((n - 1,), (n - 1,)), (batch, batch))),
        "first": lax.dot_general(x, y, (((0,), (0,)), ((), ()))),
        "all": jnp.vdot(x, y),
        "none": jnp.outer(x.ravel()[:5], y.ravel()[:5]),
        "by a constant": x @ jnp.eye(x.shape[-1], 3, dtype=x.dtype),
        "einsum": jnp.einsum("...i,...j->...ij", x, y),
        "fused": x * y + x,
    }


@shapes
@example(dtype="float64", shape=(), seed=0)
@example(dtype="float32", shape=(2, 0), seed=0)
@example(dtype="float64", shape=(2, 3, 4), seed=0)
@example(dtype="int32", shape=(3, 2), seed=0)
@given(dtype=numeric, shape=any_shape, seed=seeds)
def test_products_of_matrices_are_those_of_xla(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    assert_as_xla(dots, *(some(seed + i, dtype, *shape) for i in range(2)), ulps=64, summed=True)


def of_many(x: jax.Array, i: jax.Array) -> dict[str, Any]:
    return {"add": x + x[::-1], "sum": jnp.sin(x).sum(), "cumsum": lax.cumsum(x, 1), "gather": x[i]}


def test_an_array_too_large_for_registers_is_treated_as_a_small_one() -> None:
    assert_as_xla(of_many, some(0, "float32", 3, 100), some(0, "int32"), ulps=64, summed=True)


# --- indexed by data --------------------------------------------------------------------------------------


def indexed(x: jax.Array, i: jax.Array, u: jax.Array, y: jax.Array) -> dict[str, Any]:
    """x: (5, 3); i: three indices, inside and outside, twice the same; u: unsigned ones; y: (3, 3)."""
    adds = {} if x.dtype == bool else {
        f"scatter-{how}": [getattr(x.at[i], how)(y), getattr(x.at[:, u[0]], how)(y[0, 0])]
        for how in ("add", "mul", "min", "max")
    } | {"scatter-sub": x.at[i].subtract(y)}  # fmt: skip
    modes = {f"take {m}": jnp.take(x, i, axis=0, mode=m) for m in ("clip", "wrap", "fill")}
    return adds | modes | {
        "gather": [x[i[0]], x[i], x[:, i], x[i[0], i[1]], x[i, i], x[i[:, None], i[None]], x[u]],
        "gather of a constant": jnp.arange(7)[i] ** 2,
        "take_along_axis": jnp.take_along_axis(x, i[None] % 5, 0),
        "scatter": [x.at[i[0]].set(y[0]), x.at[u[0], i[1]].set(y[0, 0]), x.at[i[0]].set(y[1], mode="clip")],
        "scatter to different places": x.at[(i[0] + np.arange(3)) % 7].set(y),
        "dynamic_slice": [lax.dynamic_slice(x, i[:2], (2, 2)), lax.dynamic_slice(x, u[:2], (1, 3))],
        "dynamic_update_slice": lax.dynamic_update_slice(x, y[:2, :2], i[:2]),
        "dynamic_index": lax.dynamic_index_in_dim(x, i[0], 1, keepdims=False),
    }  # fmt: skip


@values
@given(data=st.data())
@pytest.mark.parametrize("dtype", ["float64", "uint8", "bool"])
def test_indexing_by_data_is_that_of_xla(dtype: str, data: st.DataObject) -> None:
    seed = data.draw(seeds)
    x, y = some(seed, dtype, 5, 3, rough=True), some(seed + 1, dtype, 3, 3)
    i, u = data.draw(integers("int32", 3, least=-7, most=7)), data.draw(integers("uint8", 3, most=7))
    assert_as_xla(indexed, x, i, u, y, ulps=16, summed=True)


# --- matrices ---------------------------------------------------------------------------------------------


def factors(A: jax.Array, b: jax.Array) -> dict[str, Any]:
    """A: (..., n, n), b: (..., n, 2)."""
    S = A @ jnp.swapaxes(A, -1, -2) + jnp.eye(A.shape[-1], dtype=A.dtype)
    bt, solve = jnp.swapaxes(b, -1, -2), lax.linalg.triangular_solve
    return {
        "cholesky": lax.linalg.cholesky(S, symmetrize_input=False),
        "lu": lax.linalg.lu(A),
        "solve": jnp.linalg.solve(A, b),
        "inv": jnp.linalg.inv(A),
        "triangular_solve": [
            solve(S, b, left_side=True, lower=True), solve(S, bt, left_side=False, lower=True),
            solve(S, b, left_side=True, lower=False, transpose_a=True), solve(S, bt, left_side=False),
            solve(S / 20, b, left_side=True, lower=True, unit_diagonal=True),
        ],
    }  # fmt: skip


@every_float
@shapes
@given(seed=seeds)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3), (0, 2, 2), (0, 0)], ids=str)
def test_factors_of_matrices_are_those_of_xla(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    n = shape[-1]
    A = some(seed, dtype, *shape) + 3 * np.eye(n, dtype=dtype)[::-1]
    assert_as_xla(factors, A, some(seed + 1, dtype, *shape[:-1], 2), ulps=4000, summed=True)


def test_the_factor_of_something_indefinite_has_nan() -> None:
    A = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])])
    factor = np.asarray(jax.vmap(lanes.compile(jnp.linalg.cholesky))(A))
    np.testing.assert_array_equal(factor[0], np.eye(3))
    assert np.isnan(factor[1]).any()


# --- loops and branches -----------------------------------------------------------------------------------


def loops(x: jax.Array, n: jax.Array) -> dict[str, Any]:
    """x: (4,); n: a small number of every robot's own, now and then negative."""

    def body(c: jax.Array, row: jax.Array) -> Any:
        return 0.5 * c + row, (c, n * row)

    def until(x: jax.Array, n: jax.Array) -> jax.Array:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, 0.5 * c[1] + n), (jnp.int32(0), x))[1]

    start = x[0]
    return {
        "scan": [lax.scan(body, start, x), lax.scan(body, start, x, reverse=True)],
        "scan by length": lax.scan(lambda c, _: (0.5 * c + n, c[None]), x, None, length=3),
        "scan nested": lax.scan(lambda c, row: (lax.scan(body, c, x)[0] + row, n), start, x),
        "scan of nothing": lax.scan(lambda c, y: (c + y, c), x, jnp.zeros((0, 4), x.dtype)),
        "scan unrolled": lax.scan(lambda c, i: (c * 0.5 + i, c), x, jnp.arange(5), unroll=2),
        "scan long enough to be a loop": lax.scan(lambda c, i: (0.9 * c + 0.1 * jnp.sin(c + i), c[0]), x,
                                                  jnp.arange(400.0, dtype=x.dtype)),
        "map": lax.map(jnp.abs, x),
        "while": until(x, n),
        "while nested": lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, until(c[1], n - c[0])),
                                       (jnp.int32(0), x)),
        "while on data": lax.while_loop(lambda x: (x * x).sum() > 1e-3, lambda x: 0.4 * jnp.clip(x, -9, 9),
                                        x),
        "fori": [lax.fori_loop(1, last, lambda i, x: 0.5 * x + i, x) for last in (3, n)],
        "associative_scan": lax.associative_scan(jnp.add, x),
        "cond": lax.cond(n > 2, lambda x: (x, jnp.int32(1)), lambda x: (-x, jnp.int32(2)), x),
        "cond guards": lax.cond(n > 2, lambda x: jnp.sqrt(-jnp.abs(x)) / 0, lambda x: x, x),
        "cond nested": lax.cond(n > 2, lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.abs, x), jnp.negative, x),
        "cond with a loop": lax.cond(n > 2, lambda x: until(x, n), lambda x: x, x),
        "switch": lax.switch(n, [lambda x: x, lambda x: x + x, jnp.abs, lambda x: 0.5 * x], x),
        "jit": jax.jit(lambda x, y: (y, -x))(x, jax.jit(jnp.abs)(x)),
        "checkpoint": jax.checkpoint(lambda x: jnp.abs(x) * 2)(x),
        "vmap": jax.vmap(lambda y: lax.cond(y > 0, jnp.sin, jnp.cos, y * n))(x),
    }  # fmt: skip


@every_float
@values
@given(data=st.data())
def test_loops_and_branches_are_those_of_xla(dtype: str, data: st.DataObject) -> None:
    x = some(data.draw(seeds), dtype, 4, rough=True)
    assert_as_xla(loops, x, data.draw(integers("int32", least=-2, most=6)), ulps=128, summed=True)


ENDLESS = """
import jax, numpy as np
from jax import lax
from backflip import lanes
lanes.backend("lanes")
grow = lanes.compile(lambda x: lax.while_loop(lambda x: x < 1, lambda x: 2 * x, x))
for n in (1, 3, 17):
    assert (np.asarray(jax.vmap(grow)(np.full(n, 0.3))) >= 1).all()
"""


def test_lanes_without_a_robot_do_not_hold_up_the_others() -> None:
    """A remainder filled with zeros would double zero for ever."""
    subprocess.run([sys.executable, "-c", ENDLESS], check=True, timeout=120)


# --- what lanes promise beyond ----------------------------------------------------------------------------


def test_a_factor_known_to_be_zero_makes_the_product_zero_even_of_nan_and_infinity() -> None:
    def products(x: jax.Array) -> tuple:
        return 0.0 * x, x * jnp.zeros(3), jnp.zeros((2, 3)) @ x, jnp.eye(3) @ x

    x = np.array([np.nan, np.inf, 3.0])
    for result in (lanes.compile(products)(x), jax.vmap(lanes.compile(products))(np.stack([x] * 5))):
        *zero, same = (np.asarray(r) for r in result)
        assert all((z == 0).all() for z in zero)
        np.testing.assert_array_equal(same, np.broadcast_to(x, same.shape))


def test_adding_a_known_zero_changes_nothing_not_even_the_sign_of_zero() -> None:
    x = np.array([-0.0, 0.0, np.nan, np.inf])
    for same in lanes.compile(lambda x: (x + 0.0, 0.0 + x, x - 0.0, x + jnp.zeros(4)))(x):
        np.testing.assert_array_equal(same, x)
        np.testing.assert_array_equal(np.signbit(same), np.signbit(x))


def test_the_largest_and_smallest_of_numbers_with_nan_is_nan() -> None:
    """Unlike XLA's, which may or may not see it."""
    x = np.random.default_rng(0).normal(size=(7, 4, 5))
    for i in range(1, 7):
        x[i].ravel()[3 * i - 3] = np.nan
    got = jax.vmap(lanes.compile(lambda x: (x.max(), x.min(), x.max(0), x.min(-1))))(x)
    for g, want in zip(got, (x.max((1, 2)), x.min((1, 2)), x.max(1), x.min(-1)), strict=True):
        np.testing.assert_array_equal(g, want)


@every_float
def test_a_denormal_counts_as_itself_or_as_a_zero_of_its_sign(dtype: str) -> None:
    tiny = np.finfo(dtype).tiny
    x = np.array([tiny / 2, -tiny / 2, tiny / 4, -tiny / 8], dtype)
    half, twice, inverse = (
        np.asarray(r) for r in jax.vmap(lanes.compile(lambda x: (x / 2, 2 * x, 1 / x)))(x)
    )
    for got, want in ((half, x / 2), (twice, 2 * x)):
        assert ((got == want) | (got == 0)).all()
        np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
    with np.errstate(over="ignore"):
        assert ((inverse == 1 / x) | (inverse == np.copysign(np.inf, x))).all()


def test_dividing_by_a_known_power_of_two_is_exact_to_the_ends_of_the_range() -> None:
    for dtype in FLOATS:
        info = np.finfo(dtype)
        for power in (info.minexp, info.minexp + 3, -1, 1, info.maxexp - 2, info.maxexp - 1):
            d = np.ldexp(np.ones((), dtype), power)
            x = np.array([1, -3, d, info.max], dtype)
            with np.errstate(over="ignore"):
                got, want = np.asarray(jax.vmap(lanes.compile(lambda x, d=d: x / d))(x)), x / d
            np.testing.assert_array_equal(flushed(got), flushed(want), f"{dtype} 2^{power}")


def test_a_table_of_constants_is_not_mistaken_for_another() -> None:
    tables = [np.arange(1001.0), np.arange(1001.0) + (np.arange(1001) == 500)]
    numbers = [0.1, np.nextafter(0.1, 1)]
    first, second = (lanes.compile(lambda i, t=t: jnp.asarray(t)[i])(jnp.int32(500)) for t in tables)
    assert (first, second) == (500, 501)
    first, second = (lanes.compile(lambda x, k=k: x * k)(jnp.array(1.0)) for k in numbers)
    assert first != second
