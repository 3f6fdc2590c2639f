"""Large arrays run in loops over memory: the same numbers, and a program whose length does not grow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip import lanes
from backflip.lanes import loops, pieces
from backflip.lanes.kernel import kernel_ir
from backflip.lanes.schedule import schedule

pytestmark = pytest.mark.filterwarnings("error::backflip.lanes.Uncovered")

ROWS, COLUMNS = 64, 70
assert ROWS * COLUMNS > loops.LARGE

X = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
W = np.random.default_rng(1).normal(size=(COLUMNS, 41))
TABLE = np.random.default_rng(2).normal(size=(ROWS, COLUMNS))


def network(x, w):
    return jnp.sum(jnp.tanh(jax.nn.relu(x @ w)))


CASES = {
    "functions of elements": lambda x, w: jnp.sin(x) * x + jnp.exp(-jnp.abs(x)),
    "broadcasts": lambda x, w: x[:, :1] * x[:1, :] - jnp.arange(float(COLUMNS)),
    "numbers known beforehand": lambda x, w: x * TABLE + np.arange(ROWS)[:, None],
    "slices, flips and transposes": lambda x, w: ((x[::2, 1:] * 2)[:, ::-1] + x[1::2, :-1]).T,
    "choices": lambda x, w: jnp.where(x > 0, x, w[0, 0]),
    "other types": lambda x, w: (x * 3).astype(jnp.int32),
    "sums": lambda x, w: (jnp.sum(x * x, 0), jnp.sum(x, 1), jnp.sum(x)),
    "extremes": lambda x, w: (jnp.max(x, 0), jnp.min(x, 1), jnp.max(x)),
    "products of matrices": lambda x, w: x @ w,
    "gradients": jax.grad(network, (0, 1)),
}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_loops_are_xla_s(case: str, precision: str) -> None:
    fn = CASES[case]
    x, w = (jnp.asarray(a, precision) for a in (X, W))
    many = jnp.stack([x, 2 * x, -x])
    with jax.ensure_compile_time_eval():
        alone, each = fn(x, w), jax.vmap(fn, (0, None))(many, w)
    compiled = lanes.compile(fn)
    bar = {"rtol": 2e-5, "atol": 2e-4} if precision == "float32" else {"rtol": 1e-12, "atol": 1e-11}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **bar), jax.jit(compiled)(x, w), alone)
    found = jax.jit(jax.vmap(compiled, (0, None)))(many, w)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **bar), found, each)


def test_the_program_is_as_long_for_a_larger_array() -> None:
    def lines(n: int) -> int:
        closed = jax.make_jaxpr(lambda x: jnp.sum(jnp.sin(x) * x.T))(jnp.zeros((n, n)))
        return sum(module.text.count("\n") for module in kernel_ir(closed, (False,), True, 8, 1))

    assert lines(150) < lines(64) + 20


def test_sparse_arrays_are_written_out() -> None:
    """Where many elements are known to be 0, writing out what is left is less work than a loop."""
    mask = np.zeros((ROWS, COLUMNS))
    mask[0] = 1
    closed = jax.make_jaxpr(lambda x: jnp.sum((x * mask) * (x * mask)))(jnp.zeros((ROWS, COLUMNS)))
    text = "".join(module.text for module in kernel_ir(closed, (False,), True, 8, 1))
    assert text.count("fmul") < 3 * COLUMNS


def test_a_product_with_few_known_numbers_is_written_out() -> None:
    few = np.zeros((9, 3))
    few[[5, 6], [0, 1]] = 1
    closed = jax.make_jaxpr(lambda x: x @ few.T)(jnp.zeros((10, 10, 3)))
    text = "".join(module.text for module in kernel_ir(closed, (False,), True, 8, 1))
    assert "phi i64" not in text.partition("@piece0")[2].partition("}")[0] and "fmul" not in text


def test_long_bodies_of_loops_are_cut_and_still_turn(monkeypatch) -> None:
    """A scan around a while around more than one function can hold; every lane turns as often as it needs."""
    monkeypatch.setattr(pieces, "WHOLE", 2000)
    A = np.random.default_rng(3).normal(size=(40, 40)) / 8

    def body(x):
        for _ in range(2):
            x = jnp.tanh(x @ A) + 0.1
        return x

    def fn(x, most):
        def turn(x, _):
            start = (0, x)
            x = jax.lax.while_loop(lambda s: s[0] < most, lambda s: (s[0] + 1, body(s[1])), start)[1]
            return x, x[0]

        return jax.lax.scan(turn, x, None, length=3)

    x, most = jnp.linspace(-1, 1, 21 * 40).reshape(21, 40), jnp.arange(21) % 5 + jnp.arange(21) // 8
    closed = jax.make_jaxpr(fn)(x[0], most[0])
    driver = (
        kernel_ir(closed, (False, False), True, 8, 1)[0].text.partition("@stage0(")[2].partition("\n}")[0]
    )
    assert driver.count("phi") == 1 and driver.count("br i1") == 2
    got, want = (jax.jit(jax.vmap(f))(x, most) for f in (lanes.compile(fn), fn))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), got, want)
    apart = [jax.jit(jax.vmap(lanes.compile(fn)))(x[some], most[some]) for some in (slice(8), slice(8, None))]
    together = jax.tree.map(lambda *parts: np.concatenate(parts), *apart)
    jax.tree.map(np.testing.assert_array_equal, together, got)


@pytest.mark.parametrize(("wanted", "computed"), [(slice(0, 1), 1), (slice(None), 50)])
def test_what_a_loop_adds_up_for_nobody_is_left_out(wanted: slice, computed: int) -> None:
    def fn(x):
        return jax.lax.scan(lambda sum, _: (sum + jnp.sin(sum + x), None), x, None, length=200)[0][wanted]

    x = jnp.linspace(-1, 1, 150).reshape(3, 50)
    [module] = kernel_ir(jax.make_jaxpr(fn)(x[0]), (False,), True, 8, 1)
    assert module.text.count("call <8 x double> @backflip.sin") == computed
    np.testing.assert_allclose(jax.vmap(lanes.compile(fn))(x), jax.vmap(fn)(x), rtol=1e-12)


@pytest.mark.parametrize("whole", [100, 10_000])
def test_numbers_are_what_they_were_when_they_were_read(monkeypatch, whole: int) -> None:
    """Wherever else they are used, be it in another piece, and whatever is written there meanwhile."""
    monkeypatch.setattr(pieces, "REACH", 1)
    monkeypatch.setattr(pieces, "LENGTH", 30)
    monkeypatch.setattr(pieces, "WHOLE", whole)

    def fn(x, at):
        def turn(carry, _):
            a, b, table = carry  # a program of its own for each way, as kernels are kept
            old = table[at]
            table = table.at[at].set(a[0] + old)
            y = a
            for _ in range(3):
                y = jnp.tanh(y[::-1] + b)
            return (y + a, a - 50 / whole * b, table), old + table[at]

        return jax.lax.scan(turn, (x, 2 * x, x), None, length=40)

    x, at = jnp.linspace(0.5, 1, 21 * 30).reshape(21, 30), jnp.arange(21)
    closed = jax.make_jaxpr(fn)(x[0], at[0])
    pieces_written = kernel_ir(closed, (False, False), True, 8, 1)[0].text.count("define void @piece")
    assert pieces_written > 20 if whole == 100 else pieces_written > 2
    got, want = (jax.jit(jax.vmap(f))(x, at) for f in (lanes.compile(fn), fn))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), got, want)
    pulled = [
        jax.jit(jax.vmap(jax.grad(lambda x, at, f=f: jnp.sum(f(x, at)[1]))))(x, at)
        for f in (lanes.compile(fn), fn)
    ]
    np.testing.assert_allclose(*pulled, rtol=1e-10, atol=1e-11)


def test_a_value_is_read_before_something_else_may_be_written_there():
    """Its address was made in an earlier block; the other one is only known when it runs."""
    t = "<8 x float>"
    lines = [
        f"%v1 = getelementptr {t}, ptr %area9, i64 3",
        "br label %here",
        "here:",
        f"%v2 = load {t}, ptr %v1, align 4",
        f"%v3 = getelementptr {t}, ptr %area9, i64 %i7",
        f"store {t} zeroinitializer, ptr %v3, align 4",
        f"store {t} %v2, ptr %out0, align 4",
    ]
    ordered = [line.text for line in schedule(lines)]
    assert sorted(ordered) == sorted(lines)
    assert ordered.index(lines[3]) < ordered.index(lines[5])
