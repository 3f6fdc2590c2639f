"""Vector functions against numpy in a wider type: bounds, special values, and what code they become."""

import ctypes
import platform
import re
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from backflip.lanes.functions import BINARY, NAMES, ULP, define

TYPES = {"float": np.float32, "double": np.float64}
WIDER = {"float": np.float64, "double": np.longdouble}
HALF_PI = np.longdouble("1.57079632679489661923132169163975144")
TURNING = ("sin", "cos", "tan")
TURN_LIMIT = 1e6
"""Up to here the bounds of sin, cos and tan are stated."""

HOST, PLAIN = "", "x86-64"
"""This machine, and any of 64 bits by Intel: SSE2 only, no fused products."""
on_intel = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="runs code for x86-64")
every_function = pytest.mark.parametrize("name", sorted(NAMES))
every_kind = pytest.mark.parametrize(
    "kind",
    [
        "float",
        pytest.param(
            "double",
            marks=pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="nothing wider than double"),
        ),
    ],
)


# --- our functions, called ------------------------------------------------------------------------

LOOP = """
define void @run(ptr %x, ptr %y, ptr %out, i64 %count) {{
entry:
{enter}
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %at_x = getelementptr {v}, ptr %x, i64 %i
  %at_y = getelementptr {v}, ptr %y, i64 %i
  %at_out = getelementptr {v}, ptr %out, i64 %i
  %a = load {v}, ptr %at_x, align {size}
  %b = load {v}, ptr %at_y, align {size}
  %result = call {v} @{symbol}({arguments})
  store {v} %result, ptr %at_out, align {size}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{leave}
  ret void
}}
"""
FLUSH = """
  %control = alloca i32
  %before = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %before)
  store i32 40896, ptr %control
  call void @llvm.x86.sse.ldmxcsr(ptr %control)
"""
"""As XLA's threads do: 0x9FC0, bits 15 and 6 to flush what goes out and comes in, all exceptions masked."""
UNFLUSH = "  call void @llvm.x86.sse.ldmxcsr(ptr %before)"
FLUSHERS = [f"declare void @llvm.x86.sse.{name}mxcsr(ptr)" for name in ("st", "ld")]


def module(name: str, kind: str, lanes: int, flush: bool = False) -> llvm.ModuleRef:
    symbol, text, declarations = define(name, kind, lanes)
    v = f"<{lanes} x {kind}>"
    arguments = f"{v} %a, {v} %b" if name in BINARY else f"{v} %a"
    enter, leave, more = (FLUSH, UNFLUSH, FLUSHERS) if flush else ("", "", [])
    size = TYPES[kind]().itemsize
    loop = LOOP.format(v=v, size=size, symbol=symbol, arguments=arguments, enter=enter, leave=leave)
    parsed = llvm.parse_assembly("\n".join([*declarations, *more, text, loop]))
    parsed.verify()
    return parsed


def machine(cpu: str = HOST, triple: str = "") -> llvm.TargetMachine:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = "" if cpu else llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    # the small model, for reading: calls go by name
    model = "small" if triple else "jitdefault"
    return target.create_target_machine(cpu or llvm.get_host_cpu_name(), features, 2, codemodel=model)


@cache
def engine(name: str, kind: str, lanes: int, cpu: str, flush: bool) -> llvm.ExecutionEngine:
    built = llvm.create_mcjit_compiler(module(name, kind, lanes, flush), machine(cpu))
    built.finalize_object()
    return built


def run(name: str, *points: np.ndarray, lanes: int = 8, cpu: str = HOST, flush: bool = False) -> np.ndarray:
    """A function at points, filled up with ones to whole vectors."""
    kind = next(kind for kind, type in TYPES.items() if points[0].dtype == type)
    count = -(-len(points[0]) // lanes)
    padded = [np.ones(count * lanes, p.dtype) for p in points]
    for full, p in zip(padded, points, strict=True):
        full[: len(p)] = p
    out = np.empty_like(padded[0])
    address = engine(name, kind, lanes, cpu, flush).get_function_address("run")
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(address)
    call(padded[0].ctypes.data, padded[-1].ctypes.data, out.ctypes.data, count)
    return out[: len(points[0])]


# --- what they should be --------------------------------------------------------------------------


def logistic(x):
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def erf(x):
    """2/√π e^(−x²) Σ x (2 x²)ⁿ/(2 n + 1)!!: all terms positive, and few enough up to 6.5, where erf is 1."""
    a = np.minimum(np.abs(x), type(x[0])(6.5))
    total, term = a.copy(), a
    for n in range(1, 200):
        term = term * (2 * a * a) / (2 * n + 1)
        total += term
    return np.copysign(total * np.exp(-a * a) * np.sqrt(2 / HALF_PI).astype(a.dtype), x)


OURS = {"logistic": logistic, "erf": erf, "rsqrt": lambda x: 1 / np.sqrt(x)}


def reference(name: str, *points: np.ndarray) -> np.ndarray:
    wide = WIDER["float" if points[0].dtype == np.float32 else "double"]
    with np.errstate(all="ignore"):
        return (OURS.get(name) or getattr(np, name))(*(p.astype(wide) for p in points))


def ulps(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of what was wanted; ∞ where only one is NaN."""
    wide, limits = wanted.dtype.type, np.finfo(got.dtype)
    # ∞ counts as the first power of 2 that overflows
    top = wide(2) ** limits.maxexp
    with np.errstate(all="ignore"):
        error = np.abs(np.clip(got.astype(wide), -top, top) - np.clip(wanted, -top, top))
        unit = np.spacing(np.clip(np.abs(wanted).astype(got.dtype), limits.smallest_normal, limits.max))
        error = np.where(np.isnan(wanted) & np.isnan(got), 0, error / unit)
    return np.where(np.isnan(error), np.inf, error).astype(float)


# --- where to look --------------------------------------------------------------------------------


def samples(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """All exponents, ordinary sizes, close to 0, ±1/2, ±1 and multiples of π/2 and ln √2."""
    width = {"float": np.uint32, "double": np.uint64}[kind]
    any_bits = rng.integers(0, np.iinfo(width).max, n, width, endpoint=True).view(TYPES[kind])
    size = 10.0 ** rng.uniform(-12, 3, n) * rng.choice([-1, 1], n)
    near = rng.choice([-1, -0.5, 0.5, 1], n) + 1e-6 * size
    turns = HALF_PI * rng.integers(-600_000, 600_000, n)
    few_turns = HALF_PI * rng.integers(-50, 50, n)
    powers = np.log(np.longdouble(2)) / 2 * rng.integers(-2200, 2100, n)
    wide, ordinary = rng.uniform(-750, 750, n), rng.uniform(-8, 8, n)
    with np.errstate(over="ignore"):
        parts = [any_bits, size, near, turns, few_turns, powers, wide, ordinary]
        return np.concatenate([part.astype(TYPES[kind]) for part in parts])


@cache
def points(name: str, kind: str) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(len(name))
    # a reference that is a long sum takes its time
    x = samples(kind, rng, (4_000 if name == "erf" else 100_000) // (1 if kind == "float" else 3))
    if name in TURNING:
        return (x[~(np.abs(x) > TURN_LIMIT)],)
    if name not in BINARY:
        return (x,)
    y = rng.permutation(x)
    with np.errstate(all="ignore"):
        if name == "atan2":
            near = (x * rng.uniform(0.3, 3, len(x))).astype(x.dtype)
            return np.concatenate([x, x]), np.concatenate([y, near])
        # results of all sizes: y = log(result)/log(x)
        reach = 105 if kind == "float" else 750
        y_fit = (rng.uniform(-reach, reach, len(x)) / np.log(np.abs(x).astype(float))).astype(x.dtype)
        return np.concatenate([x, np.abs(x), -np.abs(x)]), np.concatenate([y, y_fit, np.rint(y_fit)])


@cache
def wanted(name: str, kind: str) -> np.ndarray:
    return reference(name, *points(name, kind))


def bound(name: str, kind: str) -> float:
    return ULP[name][kind == "double"]


def check_bound(name: str, kind: str, cpu: str) -> None:
    errors = ulps(run(name, *points(name, kind), cpu=cpu), wanted(name, kind))
    i = errors.argmax()
    place = ", ".join(repr(float(p[i])) for p in points(name, kind))
    bound = ULP[name][kind == "double"]
    assert errors[i] <= bound, f"{name}({place}) is off by {errors[i]:.2f} ulp, not {bound}"


# --- laws -----------------------------------------------------------------------------------------


@every_kind
@every_function
def test_errors_stay_below_their_bounds(name, kind):
    check_bound(name, kind, HOST)


@on_intel
@every_kind
@every_function
def test_errors_stay_below_their_bounds_without_fused_products(name, kind):
    check_bound(name, kind, PLAIN)


@on_intel
@every_kind
@every_function
def test_flushing_denormals_spares_normal_numbers(name, kind):
    rng, tiny = np.random.default_rng(0), np.finfo(TYPES[kind]).smallest_normal
    x = (tiny * rng.uniform(1, 9, 8000) * rng.choice([-1, 1], 8000)).astype(TYPES[kind])
    y = rng.permutation(x) if name == "atan2" else np.ones_like(x)
    both = [np.concatenate([p[::37], more]) for p, more in zip(points(name, kind), (x, y), strict=False)]
    exact = reference(name, *both)
    normal = (np.abs(exact) > 1.001 * tiny) | (exact == 0) | np.isnan(exact)
    for p in both:
        normal &= ~((np.abs(p) < tiny) & (p != 0))
    errors = ulps(run(name, *both, flush=True), exact)[normal]
    assert errors.max() <= ULP[name][kind == "double"]


@every_kind
@every_function
def test_a_result_does_not_depend_on_how_many_lanes_there_are(name, kind):
    few = [p[::37] for p in points(name, kind)]
    eight = run(name, *few, lanes=8)
    for lanes in (1, 4):
        np.testing.assert_array_equal(run(name, *few, lanes=lanes), eight)


SPECIAL = [
    0.0,
    0.5,
    1.0,
    1.5,
    2.0,
    3.0,
    88.0,
    800.0,
    2.0**24 - 1,
    2.0**24,
    2.0**53 - 1,
    2.0**53,
    2.0**54,
    np.inf,
]
SPECIAL += [np.nan, 3e38, 1e308, 1e-30, 1e-40, 2.0**-149, 1e-310, 2.0**-1074]


@every_kind
@every_function
@pytest.mark.parametrize("cpu", [HOST, pytest.param(PLAIN, marks=on_intel)])
def test_special_values_are_those_of_c(name, kind, cpu):
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL + [-v for v in SPECIAL]).astype(TYPES[kind])
    if name in TURNING:
        values = values[~(np.abs(values) > TURN_LIMIT) | np.isinf(values)]
    x = tuple(v.ravel() for v in np.meshgrid(values, values)) if name in BINARY else (values,)
    got, exact = run(name, *x, cpu=cpu), reference(name, *x)
    with np.errstate(all="ignore"):
        rounded = exact.astype(TYPES[kind])
    assert ulps(got, exact).max() <= ULP[name][kind == "double"]
    number = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(rounded)[number])
    np.testing.assert_array_equal(np.isinf(got), np.isinf(rounded))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", TURNING)
def test_turns_beyond_their_range_stay_finite(name, kind):
    x = samples(kind, np.random.default_rng(0), 100_000)
    got = run(name, x)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(x))
    assert name == "tan" or np.abs(got[np.isfinite(x)]).max() <= 1


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    "name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "cbrt"]
)
def test_odd_functions_are_odd_to_the_last_bit(name, kind):
    (x,) = points(name, kind)
    np.testing.assert_array_equal(run(name, -x[::7]), -run(name, x[::7]))


# --- code -----------------------------------------------------------------------------------------

INTEL, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
SCALAR = {
    INTEL: r"v?(?:add|sub|mul|div|sqrt|cvts|fn?m\w+)\w*s[sd]\s",
    ARM: r"f(?:add|sub|mul|div|sqrt|cvt\w*|n?madd|n?msub)\s+[sd]\d",
}
"""Arithmetic on one number"""
CALL = re.compile(r"^\s+(?:callq?|blr?)\s+(?!.*backflip\.)(.*)$", re.MULTILINE)
"""Calls of anything but our functions"""


@pytest.mark.parametrize(
    "triple, cpu", [(INTEL, PLAIN), (INTEL, "x86-64-v3"), (INTEL, "x86-64-v4"), (ARM, "generic")]
)
def test_no_function_calls_a_library_or_goes_lane_by_lane(triple, cpu):
    try:
        target = machine(cpu, triple)
    except RuntimeError:
        pytest.skip("this LLVM has no such target")
    for name in sorted(NAMES):
        for kind in TYPES:
            text = target.emit_assembly(module(name, kind, 8))
            assert "backflip." in text
            assert not CALL.findall(text), f"{name} of {kind}"
            assert not re.findall(rf"^\s+{SCALAR[triple]}.*$", text, re.MULTILINE), f"{name} of {kind}"
