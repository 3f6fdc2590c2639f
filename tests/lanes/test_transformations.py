"""A compiled function is a JAX function: whatever JAX does to it, it answers as the plain one would."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from backflip import lanes

BATCH = 5
"""no whole number of vectors on any machine"""


class Arm(NamedTuple):
    """Something with a parameter that a batch may share."""

    A: Any
    """(3, 3)"""
    k: Any


def swing(arm: Arm, x: jax.Array) -> dict[str, jax.Array]:
    """One robot: a few products, functions and a choice; smooth but for the choice."""
    y = jnp.sin(arm.A @ x) * arm.k
    return {"y": jnp.where(y > 0, y, 0.1 * y), "energy": jnp.sum(x * y) + jnp.exp(-arm.k * arm.k)}


def energy(arm: Arm, x: jax.Array) -> jax.Array:
    return swing(arm, x)["energy"]


lane, lane_energy = lanes.compile(swing), lanes.compile(energy)


def numbers(*shape: int, seed: int = 0, dtype: Any = float) -> jax.Array:
    return jnp.asarray(np.random.default_rng([seed, *shape]).normal(size=shape), dtype)


ARM, X = Arm(numbers(3, 3), numbers()), numbers(3)
ARMS, XS = Arm(numbers(BATCH, 3, 3), numbers(BATCH)), numbers(BATCH, 3)


def assert_same(got: Any, want: Any, tol: float = 1e-12) -> None:
    """The same tree, dtypes and shapes, and values to `tol` of the largest in each array."""
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert (jnp.shape(x), jnp.result_type(x)) == (jnp.shape(y), jnp.result_type(y))
        if jnp.issubdtype(jnp.result_type(y), jnp.floating):
            y = np.asarray(y)
            scale = np.max(np.abs(y[np.isfinite(y)]), initial=0)
            np.testing.assert_allclose(x, y, rtol=tol, atol=tol * scale)
        else:
            np.testing.assert_array_equal(x, y)


def agree(do: Callable[[Callable], Callable], fn: Callable, *args: Any, tol: float = 1e-12) -> None:
    """`do` of the compiled function answers as `do` of the plain one."""
    assert_same(jax.jit(do(lanes.compile(fn)))(*args), jax.jit(do(fn))(*args), tol)


def alone_and_batched(do: Callable[[Callable], Callable]) -> Callable[[Callable], Callable]:
    """`do` for one robot, and for a batch."""
    return lambda f: lambda one, batch: (do(f)(*one), jax.vmap(do(f))(*batch))


may_fall_back = pytest.mark.filterwarnings("ignore::backflip.lanes.Uncovered")


@pytest.fixture(autouse=True)
def nothing_falls_back(request: pytest.FixtureRequest):
    """Silence would hide it: that something runs on XLA is an error here, but where it may."""
    with warnings.catch_warnings():
        if not request.node.get_closest_marker("filterwarnings"):
            warnings.simplefilter("error", lanes.Uncovered)
        yield


# --- calls ------------------------------------------------------------------------------------------------


def test_what_is_tested_here_is_covered():
    assert lanes.covers(swing, ARM, X) and lanes.covers(energy, ARM, X)


def test_a_call_is_that_of_the_plain_function_with_and_without_jit():
    want = swing(ARM, X)
    assert_same(lane(ARM, X), want)
    assert_same(jax.jit(lane)(ARM, X), want)
    assert_same(jax.jit(jax.jit(lane))(ARM, X), want)
    with jax.disable_jit():
        assert_same(lane(ARM, X), want)


def test_a_compiled_function_may_be_called_inside_another():
    agree(lambda f: f, lambda arm, x: lane(arm, lane(arm, x)["y"]), ARM, X)


def test_numpy_arrays_and_numbers_of_python_are_arguments_too():
    f = lanes.compile(lambda x, k: k * x)
    assert_same(f(np.arange(3.0), 2), jnp.arange(3.0) * 2)
    assert_same(f(np.float32(3), np.float32(0.5)), jnp.float32(1.5))


def test_keywords_and_defaults_are_those_of_the_function():
    f = lanes.compile(lambda x, k=2.0, *, shift=0.0: k * x + shift)
    assert f(jnp.array(3.0)) == 6
    assert f(jnp.array(3.0), shift=jnp.array(1.0), k=jnp.array(5.0)) == 16
    np.testing.assert_array_equal(
        jax.vmap(lambda x, s: f(x, shift=s))(jnp.arange(3.0), jnp.ones(3)), [1, 3, 5]
    )


@pytest.mark.parametrize(
    "args", [(1.0,), (1,), (np.float32(1),), (jnp.float32(1),), (jnp.arange(2),), (True,)]
)
def test_types_weak_and_strong_are_those_of_plain_jax(args):
    def f(x):
        return x + 1, x * jnp.float32(2), x * 2.5, jnp.asarray(3.0), jnp.where(x > 0, x, 1)

    def kinds(f):
        return [(y.dtype, y.weak_type) for y in jax.eval_shape(f, *args)]

    assert kinds(lanes.compile(f)) == kinds(f)
    called = jax.jit(lanes.compile(f))(*args)
    assert [(y.dtype, y.weak_type) for y in called] == kinds(f)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_both_precisions_stay_as_they_are(dtype):
    arm, x = jax.tree.map(lambda x: x.astype(dtype), (ARM, X))
    tol = 1e-6 if dtype == jnp.float32 else 1e-14
    agree(lambda f: f, swing, arm, x, tol=tol)
    agree(partial(jax.grad, argnums=(0, 1)), energy, arm, x, tol=10 * tol)


def test_precisions_may_be_mixed():
    def f(x, y):
        return x * y.astype(jnp.float64), y + 1, (x > y).sum()

    agree(jax.vmap, f, numbers(BATCH, 3), numbers(BATCH, 3, dtype=jnp.float32))


def test_other_shapes_and_types_are_compiled_as_they_come():
    f = lanes.compile(lambda x: (x * x).sum(-1))
    for shape in ((), (2,), (3, 2), (2,), (2, 0)):
        x = numbers(*shape)
        if shape:
            assert_same(f(x), (x * x).sum(-1))
    np.testing.assert_array_equal(f(jnp.arange(4)), 14)


def test_the_shape_is_known_without_computing():
    assert jax.eval_shape(lane, ARM, X) == jax.eval_shape(swing, ARM, X)
    many = jax.eval_shape(jax.vmap(lane), ARMS, XS)
    assert many["y"].shape == (BATCH, 3) and many["energy"].shape == (BATCH,)


def test_its_jaxpr_can_be_made_printed_and_evaluated():
    closed = jax.make_jaxpr(jax.vmap(lane))(ARMS, XS)
    assert str(closed)
    out = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *jax.tree.leaves((ARMS, XS)))
    assert_same(out, jax.tree.leaves(jax.vmap(swing)(ARMS, XS)))


def test_it_can_be_lowered_and_compiled_ahead_of_time():
    compiled = jax.jit(jax.vmap(lane)).lower(ARMS, XS).compile()
    assert_same(compiled(ARMS, XS), jax.vmap(swing)(ARMS, XS))


def test_a_donated_buffer_is_not_spoilt_before_it_is_read():
    def f(x, y):
        return y[::-1] + x, x * 2, x[::-1]

    x = np.arange(12.0).reshape(4, 3)
    want = jax.vmap(f)(x, -x)
    assert_same(jax.jit(jax.vmap(lanes.compile(f)), donate_argnums=(0, 1))(jnp.array(x), jnp.array(-x)), want)


def test_outside_of_jit_a_call_is_compiled_once(caplog):
    compiled, heard = lanes.compile(lambda x: jnp.sin(x) * 3), []
    for _ in range(2):
        caplog.clear()
        with jax.log_compiles():
            compiled(X)
        heard.append("Compiling" in caplog.text)
    assert heard == [True, False]


def test_arguments_are_left_as_they_were():
    x = np.arange(6.0).reshape(2, 3)
    kept = jnp.array(x)
    jax.jit(jax.vmap(lanes.compile(lambda x: x.at[0].set(9.0) * 2)))(kept)
    np.testing.assert_array_equal(kept, x)


def test_an_error_in_the_function_is_its_own():
    def f(x):
        raise LookupError("nothing here")

    with pytest.raises(LookupError, match="nothing here"):
        lanes.compile(f)(X)
    with pytest.raises(TypeError, match="shapes"):
        lanes.compile(jnp.add)(numbers(2), numbers(3))


# --- what goes in and out ---------------------------------------------------------------------------------


class Pair(eqx.Module):
    a: jax.Array
    b: Any
    name: str = eqx.field(static=True, default="pair")


def test_arguments_and_results_are_trees_of_any_kind():
    def f(tree, pair):
        none, (x, rest) = tree["none"], tree["some"]
        assert none is None and pair.name == "pair"
        return Pair(x * 2, (None, rest["deep"])), [pair.a + pair.b[0], None], ()

    tree = {"none": None, "some": (numbers(3), {"deep": numbers(2, 2)})}
    agree(lambda f: f, f, tree, Pair(numbers(2), (numbers(), None)))


def test_static_parts_of_a_tree_tell_functions_apart():
    f = lanes.compile(lambda pair: pair.a * (2 if pair.name == "pair" else 3))
    assert f(Pair(jnp.array(1.0), None)) == 2
    assert f(Pair(jnp.array(1.0), None, name="other")) == 3


UNUSUAL: dict[str, tuple[Callable, tuple]] = {
    "an unused argument": (lambda x, y: 2 * x, (X, X)),
    "only unused arguments": (lambda x: jnp.arange(3.0), (X,)),
    "an argument unchanged": (lambda x, y: (x, y, x + y), (X, X)),
    "only arguments unchanged": (lambda x, y: (y, x), (X, X)),
    "the same result twice": (lambda x: (lambda y: (y, y))(2 * x), (X,)),
    "constants": (lambda x: (x + 1, jnp.ones(3), jnp.int32(4), np.arange(4.0)), (X,)),
    "a number of Python": (lambda x: (x + 1, 2.0), (X,)),
    "nothing": (lambda x: None, (X,)),
    "no results": (lambda x: (), (X,)),
    "no arguments": (lambda: (jnp.arange(3.0), jnp.sin(1.0)), ()),
    "empty arrays": (lambda x: (x * 2, x.sum(), jnp.zeros((0, 3)) + x.sum()), (jnp.zeros((2, 0)),)),
    "integers and bools": (
        lambda i, p, x: (jnp.where(p, x[i], 1.0), i + 1, ~p),
        (jnp.int32(2), jnp.array(True), X),
    ),
    "bytes and long integers": (
        lambda i, j: (i + j.astype(i.dtype), j * 3),
        (jnp.arange(3, dtype=jnp.uint8), jnp.arange(3, dtype=jnp.int64) << 40),
    ),
}


@may_fall_back
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_signatures(name):
    fn, args = UNUSUAL[name]
    many = jax.tree.map(lambda x: jnp.stack([x] * BATCH), args)

    def both_and_one(f):
        def run(args, many):
            one = jax.vmap(f, (0, *[None] * (len(args) - 1)))
            return f(*args), jax.vmap(f)(*many), one(many[0], *args[1:])

        return run if args else lambda args, many: f()

    agree(both_and_one, fn, args, many)


# --- vmap -------------------------------------------------------------------------------------------------

AXES: dict[str, tuple[Any, tuple]] = {
    "all": (0, (ARMS, XS)),
    "the arm is shared": ((None, 0), (ARM, XS)),
    "the state is shared": ((0, None), (ARMS, X)),
    "part of the arm is shared": ((Arm(None, 0), 0), (Arm(ARM.A, ARMS.k), XS)),
    "only one number differs": ((Arm(None, 0), None), (Arm(ARM.A, ARMS.k), X)),
    "last axes": ((Arm(2, 0), -1), (Arm(jnp.moveaxis(ARMS.A, 0, 2), ARMS.k), XS.T)),
    "middle and last": ((Arm(1, 0), 1), (Arm(jnp.moveaxis(ARMS.A, 0, 1), ARMS.k), XS.T)),
}


@pytest.mark.parametrize("name", AXES)
def test_a_batch_is_a_loop_whatever_its_axes(name):
    axes, args = AXES[name]
    agree(lambda f: jax.vmap(f, axes), swing, *args)


@pytest.mark.parametrize("out", [0, 1, -1])
def test_results_may_be_stacked_along_any_axis(out):
    agree(lambda f: jax.vmap(f, out_axes={"y": out, "energy": 0}), swing, ARMS, XS)


def test_a_result_of_shared_arguments_alone_may_stay_unbatched():
    agree(lambda f: jax.vmap(f, (0, None), out_axes=(0, None)), lambda x, k: (x * k, k), XS, ARM.k)


def test_batches_of_batches():
    two = (Arm(numbers(2, BATCH, 3, 3), numbers(2, BATCH)), numbers(2, BATCH, 3))
    agree(lambda f: jax.vmap(jax.vmap(f)), swing, *two)
    agree(lambda f: jax.vmap(jax.vmap(f, (None, 0)), (0, None)), swing, ARMS, numbers(4, 3))
    agree(lambda f: jax.vmap(jax.vmap(f, (Arm(None, 0), None)), (None, 0)), swing, Arm(ARM.A, ARMS.k), XS)
    out = {"y": 1, "energy": 0}
    agree(lambda f: jax.vmap(jax.vmap(f, (0, None), out), (None, 1), out), swing, ARMS, XS.T)


def test_batches_of_batches_of_batches():
    agree(lambda f: jax.vmap(jax.vmap(jax.vmap(f, (None, 0)))), swing,
          Arm(numbers(2, 3, 3, 3), numbers(2, 3)), numbers(2, 3, 4, 3))  # fmt: skip
    outer = lambda f: jax.vmap(f, (None, 1), 1)  # noqa: E731
    middle = lambda f: jax.vmap(f, (0, None), 0)  # noqa: E731
    inner = lambda f: jax.vmap(f, (Arm(0, None), 0), 0)  # noqa: E731
    arms = Arm(numbers(2, 3, 3, 3), numbers(2))
    agree(lambda f: outer(middle(inner(f))), swing, arms, numbers(3, 4, 3))


def test_every_remainder():
    many = jax.jit(jax.vmap(swing))(Arm(numbers(20, 3, 3), numbers(20)), numbers(20, 3))

    @jax.jit
    def all_batches(arms, xs):
        return [jax.vmap(lane)(*jax.tree.map(lambda x: x[:n], (arms, xs))) for n in range(1, 21)]  # noqa: B023

    for n, got in enumerate(all_batches(Arm(numbers(20, 3, 3), numbers(20)), numbers(20, 3)), 1):
        assert_same(got, jax.tree.map(lambda x, n=n: x[:n], many))


def test_a_batch_of_none():
    none = jax.tree.map(lambda x: x[:0], (ARMS, XS))
    agree(jax.vmap, swing, *none)
    agree(lambda f: jax.vmap(jax.grad(f)), energy, *none)
    agree(lambda f: jax.vmap(f, (None, 0)), swing, ARM, XS[:0])


def test_a_batch_agrees_with_one_robot_to_rounding_and_with_itself_exactly():
    batch = jax.jit(jax.vmap(lane))(ARMS, XS)
    again = jax.jit(jax.vmap(lane))(ARMS, XS)
    for a, b in zip(jax.tree.leaves(batch), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    for i in range(BATCH):
        one = lane(*jax.tree.map(lambda x, i=i: x[i], (ARMS, XS)))
        assert_same(jax.tree.map(lambda x, i=i: x[i], batch), one, 1e-14)


def test_the_place_of_a_robot_in_its_batch_does_not_matter():
    order = np.random.default_rng(0).permutation(40)
    arms, xs = Arm(numbers(40, 3, 3), numbers(40)), numbers(40, 3)
    run = jax.jit(jax.vmap(lane))
    there, back = run(*jax.tree.map(lambda x: x[order], (arms, xs))), run(arms, xs)
    np.testing.assert_allclose(there["energy"], back["energy"][order], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("count", [1, 3, 8, 37, 300])
def test_a_scan_over_a_batch_writes_results_in_the_place_of_arguments(count: int) -> None:
    def turn(x, y):
        return jnp.sin(y) + x[::-1], jnp.cos(x) * y

    def many(f, x, y):
        def step(carry, _):
            return jax.vmap(f)(*carry), carry[0][:, 0]

        return lax.scan(step, (x, y), None, length=20)

    x, y = numbers(count, 6), numbers(count, 6)
    run = jax.jit(partial(many, lanes.compile(turn)))
    assert ("output_to_operand_aliasing" in run.lower(x, y).compile().as_text()) == (count > 1)
    assert_same(run(x, y), jax.jit(partial(many, turn))(x, y), 1e-12)
    assert_same(run(x, y), run(x, y), 0)  # the caller's arrays are as they were


# --- derivatives ------------------------------------------------------------------------------------------

both = {"argnums": (0, 1)}

FIRST: dict[str, Callable[[Callable], Callable]] = {
    "grad": lambda f: jax.grad(f, **both),
    "grad of one": lambda f: jax.grad(f, 1),
    "value_and_grad": lambda f: jax.value_and_grad(f, **both),
    "jacfwd": lambda f: jax.jacfwd(f, **both),
    "jacrev": lambda f: jax.jacrev(f, **both),
    "jvp": lambda f: lambda *args: jax.jvp(f, args, jax.tree.map(jnp.cos, args)),
    "vjp": lambda f: lambda *args: jax.vjp(f, *args)[1](jnp.array(2.0)),
    "linearize": lambda f: lambda *args: jax.linearize(f, *args)[1](*args),
    "linear_transpose": lambda f: lambda *args: jax.linear_transpose(
        jax.linearize(f, *args)[1], *args
    )(jnp.array(2.0)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f), **both),
    "jit inside": lambda f: jax.grad(jax.jit(f), **both),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_first_derivatives(name):
    agree(alone_and_batched(FIRST[name]), energy, (ARM, X), (ARMS, XS))


@pytest.mark.parametrize("axes", [(None, 0), (0, None), (Arm(None, 0), None)], ids=str)
def test_first_derivatives_of_a_batch_that_shares(axes):
    args = {(None, 0): (ARM, XS), (0, None): (ARMS, X)}.get(axes, (Arm(ARM.A, ARMS.k), X))
    for name in ("grad", "jacfwd", "vjp"):
        agree(lambda f, name=name: jax.vmap(FIRST[name](f), axes), energy, *args)


def test_jacobians_of_several_results():
    agree(lambda f: jax.jacfwd(f, **both), swing, ARM, X)
    agree(lambda f: jax.jacrev(f, **both), swing, ARM, X)
    agree(lambda f: jax.vmap(jax.jacrev(f, 1), (None, 0)), swing, ARM, XS)


def test_the_gradient_of_what_a_batch_shares_is_the_sum_over_the_batch():
    def total(f):
        return jax.grad(lambda arm, xs: jax.vmap(f, (None, 0))(arm, xs).sum())

    agree(total, energy, ARM, XS)
    agree(total, energy, ARM, numbers(1001, 3), tol=1e-11)
    one_by_one = sum(np.asarray(jax.grad(energy)(ARM, x).A) for x in XS)
    np.testing.assert_allclose(jax.jit(total(lane_energy))(ARM, XS).A, one_by_one, rtol=1e-12)


def test_a_vmap_inside_a_gradient_inside_a_vmap():
    def loss(f):
        return lambda arm, xs: (jax.vmap(f, (None, 0))(arm, xs) ** 2).sum()

    agree(lambda f: jax.vmap(jax.value_and_grad(loss(f))), energy, ARMS, numbers(BATCH, 4, 3))
    agree(lambda f: jax.vmap(jax.grad(loss(f), (0, 1)), (0, None)), energy, ARMS, XS)


def test_a_vjp_of_a_batch_pulled_back_several_times():
    def pulls(f):
        def run(arms, xs, cts):
            _, pull = jax.vjp(jax.vmap(f), arms, xs)
            return jax.vmap(pull)(cts), pull(jax.tree.map(lambda x: x[0], cts))

        return run

    cts = {"y": numbers(4, BATCH, 3), "energy": numbers(4, BATCH)}
    agree(pulls, swing, ARMS, XS, cts)


def test_a_jvp_of_a_batch_pushed_several_times():
    def pushes(f):
        def run(arms, xs, dxs):
            push = jax.linearize(jax.vmap(f, (0, 0)), arms, xs)[1]
            return jax.vmap(lambda dx: push(jax.tree.map(jnp.ones_like, arms), dx))(dxs)

        return run

    agree(pushes, swing, ARMS, XS, numbers(4, BATCH, 3))


HIGHER: dict[str, Callable[[Callable], Callable]] = {
    "hessian": jax.hessian,
    "jacfwd of jacfwd": lambda f: jax.jacfwd(jax.jacfwd(f)),
    "jacrev of jacrev": lambda f: jax.jacrev(jax.jacrev(f)),
    "jacrev of jacfwd": lambda f: jax.jacrev(jax.jacfwd(f)),
    "jvp of grad": lambda f: lambda arm, x: jax.jvp(lambda x: jax.grad(f, 1)(arm, x), (x,), (jnp.cos(x),)),
    "grad of jvp": lambda f: jax.grad(
        lambda arm, x: jax.jvp(lambda x: f(arm, x), (x,), (jnp.cos(x),))[1], **both
    ),
    "third": lambda f: jax.jacfwd(jax.jacfwd(jax.grad(f, 1), 1), 1),
}


@pytest.mark.parametrize("name", HIGHER)
def test_higher_derivatives(name):
    agree(alone_and_batched(HIGHER[name]), energy, (ARM, X), (ARMS, XS), tol=1e-10)


def test_tangents_that_are_zero_stay_away():
    """The derivative to x alone, and to one leaf of the arm alone."""
    agree(lambda f: lambda arm, x: jax.jvp(lambda x: f(arm, x), (x,), (jnp.ones(3),)), swing, ARM, X)
    agree(lambda f: jax.grad(lambda k, x: f(Arm(ARM.A, k), x)), energy, ARM.k, X)
    agree(lambda f: jax.grad(lambda x: f(ARM, lax.stop_gradient(x)) * x.sum()), energy, X)


def test_cotangents_that_are_zero_stay_away():
    agree(lambda f: jax.grad(lambda arm, x: f(arm, x)["y"].sum(), **both), swing, ARM, X)
    agree(lambda f: jax.grad(lambda arm, x: (f(arm, x)["y"] * 0).sum(), **both), swing, ARM, X)
    agree(lambda f: jax.grad(lambda x: 3.0 * (f(ARM, x)["energy"] > 0)), swing, X)


def test_an_unused_argument_has_gradient_zero():
    agree(lambda f: jax.grad(f, (0, 1)), lambda x, y: (x * x).sum(), X, X)
    agree(lambda f: jax.vmap(jax.grad(f, (0, 1))), lambda x, y: (x * x).sum(), XS, XS)
    agree(lambda f: jax.grad(lambda x, y: f(x, y)[1].sum(), (0, 1)), lambda x, y: (x * 2, y), X, X)


def table(i: jax.Array, p: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Integer and bool arguments; a float and an integer result."""
    return jnp.where(p, x[i] ** 2, 3 * x.sum()), i + 1


I, P = jnp.int32(1), jnp.array(True)
IS, PS = jnp.array([0, 1, 2, 1, 0], jnp.int32), jnp.array([True, False, True, True, False])


def test_integers_and_bools_are_passed_by_in_derivatives():
    agree(lambda f: jax.grad(lambda *args: f(*args)[0], 2), table, I, P, X)
    agree(lambda f: jax.vmap(jax.grad(lambda *args: f(*args)[0], 2)), table, IS, PS, XS)
    agree(lambda f: jax.vmap(jax.jacfwd(lambda *args: f(*args)[0], 2), (0, 0, None)), table, IS, PS, X)


def float0(x: jax.Array) -> np.ndarray:
    return np.zeros(x.shape, jax.dtypes.float0)


def test_tangents_of_integers_and_bools_are_float0():
    for f in (table, lanes.compile(table)):
        (out, j), (dout, dj) = jax.jvp(f, (I, P, X), (float0(I), float0(P), jnp.ones(3)))
        assert j == 2 and dj.dtype == jax.dtypes.float0
        np.testing.assert_allclose([out, dout], [X[1] ** 2, 2 * X[1]], rtol=1e-12)
        _, pull = jax.vjp(f, I, P, X)
        di, dp, dx = pull((jnp.array(1.0), float0(I)))
        assert di.dtype == dp.dtype == jax.dtypes.float0
        np.testing.assert_allclose(dx, [0, 2 * X[1], 0], rtol=1e-12)


@jax.custom_jvp
def seven(x):
    return x * x


seven.defjvp(lambda x, dx: (seven(*x), 7 * dx[0]))


@jax.custom_vjp
def eleven(x):
    return x * x


eleven.defvjp(lambda x: (x * x, x), lambda x, ct: (11 * ct * x,))


def test_derivatives_given_by_hand_are_kept():
    agree(lambda f: jax.value_and_grad(f), lambda x: jnp.sum(seven(x)), X)
    agree(lambda f: jax.vmap(jax.jacfwd(f)), lambda x: jnp.sum(seven(x)), XS)
    agree(lambda f: jax.value_and_grad(f), lambda x: jnp.sum(eleven(x)), X)
    agree(lambda f: jax.vmap(jax.grad(f)), lambda x: jnp.sum(eleven(x)), XS)
    np.testing.assert_array_equal(jax.grad(lanes.compile(lambda x: seven(x)))(3.0), 7)


def with_slope(k: float, forward: bool) -> Callable:
    """x² with a derivative of k, by hand."""
    f = jax.custom_jvp(lambda x: x * x) if forward else jax.custom_vjp(lambda x: x * x)
    if forward:
        f.defjvp(lambda x, dx: (x[0] * x[0], k * dx[0]))
    else:
        f.defvjp(lambda x: (x * x, None), lambda _, ct: (k * ct,))
    return f


@pytest.mark.parametrize("forward", [True, False], ids=["jvp", "vjp"])
def test_functions_that_differ_only_in_a_derivative_given_by_hand_differ(forward):
    assert [jax.grad(lanes.compile(with_slope(k, forward)))(3.0) for k in (7.0, 8.0)] == [7, 8]


SPD = X[:, None] * X + 2 * jnp.eye(3)
SLOPES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "arithmetic": lambda x: (x / (2 + x * x) - x * abs(x)).sum(),
    "powers": lambda x: (x**3 + abs(x) ** 1.5 + (3 + x) ** x + (2 + x) ** -2).sum(),
    "functions": lambda x: (jnp.sqrt(4 + x) * jnp.log1p(abs(x)) + jnp.tanh(x) * jnp.expm1(x)).sum(),
    "angles": lambda x: (jnp.arctan2(x, x[::-1]) + jnp.arccos(x / 9) * jnp.arcsin(x / 9) + jnp.tan(x)).sum(),
    "hyperbolas": lambda x: (jnp.sinh(x) * jnp.arctanh(x / 9) + jnp.cosh(x) + jnp.arcsinh(x)).sum(),
    "sigmoid, erf": lambda x: (jax.nn.sigmoid(x) * jax.scipy.special.erf(x) + lax.rsqrt(4 + x)).sum(),
    "choices": lambda x: (jnp.maximum(x, 0.1) * jnp.minimum(x, x[::-1]) + jnp.clip(x, -0.5, 0.5)).sum(),
    "structure": lambda x: jnp.tile(x[:, None], 2).T.reshape(-1)[::-2] @ jnp.arange(3.0),
    "pads": lambda x: (lax.pad(x, x[0], [(-1, 2, 1)]) * lax.pad(x, 1.0, [(2, -1, 1)])).sum(),
    "concatenate": lambda x: jnp.prod(jnp.concatenate([x, jnp.stack([x[0], x[2]])])),
    "gather": lambda x: (x[np.array([2, 0, 1])] * x[np.array([0, 0, 2])]).sum(),
    "gather by data": lambda x: (x[(x > 0).sum()] * x[(abs(x) * 2).astype(int)]).sum(),
    "scatter": lambda x: (x.at[0].set(3 * x[1]).at[np.array([1, 1])].add(x[:2]) ** 2).sum(),
    "scatter by data": lambda x: (x.at[(x > 0).sum()].set(9.0).at[abs(x).astype(int)].add(x) ** 2).sum(),
    "dynamic slice": lambda x: (lax.dynamic_slice(x, [(x > 0).sum()], [2]) ** 2).sum(),
    "dynamic update": lambda x: (lax.dynamic_update_slice(x, x[:2] * 2, [(x > 0).sum()]) ** 2).sum(),
    "reductions": lambda x: x.max() * x.min() + x.prod() + jnp.var(x) + jax.nn.logsumexp(x),
    "cumulative": lambda x: (jnp.cumsum(x) * jnp.cumprod(x) * lax.cummax(x)).sum(),
    "products": lambda x: jnp.einsum("ij,jk,k->i", jnp.outer(x, x), SPD, x) @ x,
    "cholesky": lambda x: jnp.linalg.cholesky(SPD + jnp.outer(x, x)).sum(),
    "solve": lambda x: jnp.linalg.solve(SPD + jnp.diag(x[::-1] / 9), x).sum(),
    "determinant": lambda x: jnp.linalg.det(SPD + jnp.diag(x / 9)) + jnp.linalg.inv(SPD + x[0] / 9).sum(),
    "scan": lambda x: lax.scan(lambda c, y: (jnp.sin(c) + y, c * y), x[0], x)[1].sum(),
    "scan backwards": lambda x: lax.scan(lambda c, y: (c * y, c), x, x, reverse=True)[0].sum(),
    "scan nested": lambda x: lax.scan(lambda c, y: (lax.scan(lambda d, z: (d * y + z, 0), c, x)), 1.0, x)[0],
    "fori_loop": lambda x: lax.fori_loop(0, 4, lambda i, x: jnp.cos(x) * (i + 1), x).sum(),
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: (x * x).sum(), lambda x: jnp.sin(x).sum(), x),
    "switch": lambda x: lax.switch((x > 0).sum(), [jnp.sum, jnp.prod, jnp.max, lambda x: x[0] ** 2], x),
    "cond in scan": lambda x: lax.scan(lambda c, y: (lax.cond(y > 0, jnp.sin, jnp.exp, c), c), 0.5, x)[0],
    "checkpoint": lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum(),
    "norm": lambda x: jnp.linalg.norm(x) + jnp.sqrt(jnp.where(x > 9, x, 0.0) + 1).sum(),
}  # fmt: skip
"""Each of three numbers, to one."""


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name):
    """Forward and reverse, of a batch of five, to 1e-11."""

    def slopes(f):
        def run(xs, dxs):
            forward = jax.vmap(lambda x, dx: jax.jvp(f, (x,), (dx,)))(xs, dxs)
            return forward, jax.vmap(jax.value_and_grad(f))(xs)

        return run

    agree(slopes, SLOPES[name], XS, jnp.cos(XS), tol=1e-11)


def test_a_while_loop_has_forward_slopes():
    def f(x):
        return lax.while_loop(lambda c: c[1] < x[0] * 3, lambda c: (jnp.sin(c[0]) * 2, c[1] + 1), (x, 0.0))[0]

    agree(lambda f: jax.vmap(jax.jacfwd(f)), f, abs(XS), tol=1e-11)
    with pytest.raises(ValueError, match="everse"):
        jax.grad(lambda x: lanes.compile(f)(x).sum())(X)


def test_a_gradient_that_cannot_be_had_leaves_the_function_as_it_was(monkeypatch):
    monkeypatch.setenv("BACKFLIP_CACHE", "off")

    @lanes.compile
    def f(x):
        return lax.while_loop(lambda c: c[1] < 3.25, lambda c: (jnp.sin(c[0]) * 2, c[1] + 1), (x, 0.0))[0]

    with pytest.raises(ValueError, match="everse"):
        jax.grad(lambda x: f(x).sum())(X)
    np.testing.assert_allclose(jax.vmap(f)(XS)[0], f(XS[0]), rtol=1e-12)


# --- loops and branches around ----------------------------------------------------------------------------


def run(f: Callable, arm: Arm, x: jax.Array, steps: int = 6) -> jax.Array:
    """Many steps, checkpointed, and a loss at the end."""

    def step(x: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        out = f(arm, x)
        return x + 0.1 * out["y"], out["energy"]

    x, energies = lax.scan(jax.checkpoint(step), x, None, length=steps)
    return x.sum() + energies.sum()


def test_scan_around_and_everything_around_that():
    agree(lambda f: partial(run, f), swing, ARM, X)
    agree(lambda f: jax.vmap(partial(run, f)), swing, ARMS, XS)
    agree(lambda f: jax.value_and_grad(partial(run, f), (0, 1)), swing, ARM, X, tol=1e-11)
    agree(lambda f: jax.vmap(jax.grad(partial(run, f), (0, 1))), swing, ARMS, XS, tol=1e-11)
    agree(lambda f: jax.grad(lambda a, xs: jax.vmap(partial(run, f), (None, 0))(a, xs).sum()), swing, ARM, XS,
          tol=1e-11)  # fmt: skip
    agree(lambda f: jax.jacfwd(partial(run, f), 1), swing, ARM, X, tol=1e-11)


def test_vmap_inside_scan():
    def steps(f):
        def run(arm, xs):
            return lax.scan(lambda xs, _: (xs + jax.vmap(f, (None, 0))(arm, xs)["y"], None), xs, None, 4)[0]

        return run

    agree(steps, swing, ARM, XS)
    agree(lambda f: jax.grad(lambda *a: steps(f)(*a).sum(), (0, 1)), swing, ARM, XS, tol=1e-11)


def test_while_and_cond_around():
    def until(f):
        return lambda arm, x: lax.while_loop(
            lambda c: c[1] < 4, lambda c: (f(arm, c[0])["y"], c[1] + 1), (x, 0)
        )[0]

    def either(f):
        return lambda arm, x: lax.cond(x[0] > 0, lambda: f(arm, x)["y"], lambda: f(arm, -x)["y"])

    for around in (until, either):
        agree(around, swing, ARM, X)
        agree(lambda f, around=around: jax.vmap(around(f)), swing, ARMS, XS)
    agree(lambda f: jax.vmap(jax.grad(lambda *a: either(f)(*a).sum(), (0, 1))), swing, ARMS, XS)


# --- closures ---------------------------------------------------------------------------------------------


def test_functions_that_differ_only_in_a_constant_differ():
    fs = [lanes.compile(lambda x, k=k: x * k) for k in (2.0, 3.0)]
    gs = [lanes.compile(lambda x, k=k: x * jnp.asarray(k)) for k in (np.arange(3.0), np.ones(3))]
    assert [f(jnp.array(1.0)) for f in fs] == [2, 3]
    assert_same([g(X) for g in gs], [X * jnp.arange(3.0), X])


def test_closures_over_arrays():
    A = numbers(3, 3)
    agree(jax.vmap, lambda x: A @ x, XS)
    agree(lambda f: jax.vmap(jax.grad(lambda x: f(x).sum())), lambda x: jnp.sin(A @ x), XS)


def close_over(k: jax.Array, compiled: bool) -> Callable:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(k * x).sum() * k.sum()

    return lanes.compile(f) if compiled else f


CLOSURES: dict[str, Callable[[bool], Any]] = {
    "jit": lambda c: jax.jit(lambda k, x: close_over(k, c)(x))(ARM.k, X),
    "grad": lambda c: jax.grad(lambda k: close_over(k, c)(X))(ARM.k),
    "jacfwd": lambda c: jax.jacfwd(lambda k: close_over(k, c)(X))(ARM.k),
    "vmap": lambda c: jax.vmap(lambda k: close_over(k, c)(X))(ARMS.k),
    "vmap of both": lambda c: jax.vmap(lambda k, x: close_over(k, c)(x))(ARMS.k, XS),
    "two vmaps": lambda c: jax.vmap(lambda k: jax.vmap(close_over(k, c))(XS))(ARMS.k),
    "grad of a batch": lambda c: jax.grad(lambda k: jax.vmap(close_over(k, c))(XS).sum())(ARM.k),
    "vmap of grad": lambda c: jax.vmap(jax.grad(lambda k, x: close_over(k, c)(x), (0, 1)))(ARMS.k, XS),
    "scan": lambda c: lax.scan(lambda k, x: (close_over(k, c)(x), k), ARM.k, XS),
    "grad of scan": lambda c: jax.grad(
        lambda k: lax.scan(lambda s, x: (s + close_over(k * s, c)(x), k), 1.0, XS)[0]
    )(ARM.k),
    "jit in jit": lambda c: jax.jit(lambda k: jax.jit(lambda x: close_over(k, c)(x))(X))(ARM.k),
}


@pytest.mark.parametrize("name", CLOSURES)
def test_closures_over_what_only_the_caller_knows(name):
    assert_same(CLOSURES[name](True), CLOSURES[name](False))


def test_one_closure_called_with_several_values_never_remembers_the_first():
    @jax.jit
    def f(k, x):
        g = close_over(k, True)
        return g(x) + close_over(2 * k, True)(x)

    for k in (1.0, 2.0):
        want = close_over(jnp.array(k), False)(X) + close_over(jnp.array(2 * k), False)(X)
        np.testing.assert_allclose(f(k, X), want, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::backflip.lanes.Uncovered")
def test_closures_over_a_typed_key_of_random_numbers():
    key = jax.random.key(3)
    agree(jax.vmap, lambda x: x + jax.random.normal(key, x.shape), XS)
    agree(jax.grad, lambda x: x @ jax.random.normal(key, x.shape), X)


def test_arguments_wider_than_numbers_are_now_are_refused_by_name():
    compiled = lanes.compile(energy)
    with jax.enable_x64(False), pytest.raises(TypeError, match=r"energy: .* float64, .*jax_enable_x64.*off"):
        compiled(ARM, X)
    assert_same(compiled(ARM, X), energy(ARM, X))


# --- threads ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_results_do_not_depend_on_the_number_of_threads_bit_for_bit(dtype, monkeypatch):
    def f(A, x):
        y = lax.fori_loop(0, 3, lambda i, y: jnp.tanh(A @ y) + y / 3, jnp.sin(A @ x))
        return jnp.sum(x * y) + jnp.exp(-(y[0] ** 2))

    def everything(A, x):
        def total(A, x):
            return jax.vmap(lane, (None, 0))(A, x).sum()

        lane = lanes.compile(f)
        return jax.vmap(jax.value_and_grad(lane, 1), (None, 0))(A, x), jax.grad(total, (0, 1))(A, x)

    A = numbers(4, 4, dtype=dtype)
    batches = [numbers(n, 4, dtype=dtype) for n in (4096, 1003)]
    found = []
    for threads in ("1", "2", "2", "5"):
        monkeypatch.setenv("BACKFLIP_LANES_THREADS", threads)
        run = jax.jit(lambda: [everything(A, x) for x in batches])
        found.append(b"".join(np.asarray(x).tobytes() for x in jax.tree.leaves(run())))
    assert len(set(found)) == 1
