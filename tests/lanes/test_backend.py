"""Who runs a compiled function: chosen by hand, by the environment, or by what lanes can do."""

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip import lanes, robots

X = jnp.arange(8.0)


def calls(fn: Callable, *args: Any) -> int:
    """How many times the program that XLA gets calls code that is not its own."""
    return jax.jit(lambda *args: fn(*args)).lower(*args).as_text().count("custom_call @backflip")


def double(x: jax.Array) -> jax.Array:
    return 2 * jnp.sin(x)


@pytest.fixture
def ball() -> tuple:
    model = robots.ball()
    return bf.Scheme(0.01), model, bf.rest(model)


# --- by hand ----------------------------------------------------------------------------------------------


def test_a_choice_for_a_while_ends_with_it():
    compiled = lanes.compile(double)
    with bf.backend("xla"):
        assert calls(compiled, X) == 0
        with bf.backend("lanes"):
            assert calls(compiled, X) == 1
        assert calls(compiled, X) == 0
    assert calls(compiled, X) == 1


def test_a_choice_for_a_while_ends_with_an_error_too():
    with pytest.raises(LookupError), bf.backend("xla"):
        raise LookupError
    assert calls(lanes.compile(double), X) == 1


@pytest.mark.parametrize("name", ["gpu", "XLA", "", None, 0])
def test_a_backend_that_does_not_exist_is_refused_with_the_two_that_do(name):
    for choose in (bf.backend, bf.set_backend):
        with pytest.raises(ValueError, match=r"xla.*lanes|lanes.*xla"):
            choose(name)
    assert calls(lanes.compile(double), X) == 1


def test_a_choice_reaches_functions_that_jit_already_knows():
    compiled = jax.jit(lanes.compile(double))
    for backend, count in (("lanes", 1), ("xla", 0), ("lanes", 1), ("xla", 0)):
        with bf.backend(backend):
            np.testing.assert_allclose(compiled(X), double(X), rtol=1e-14)
            assert compiled.lower(X).as_text().count("custom_call @backflip") == count


def test_constructing_a_choice_changes_nothing():
    choice = bf.backend("xla")
    assert calls(lanes.compile(double), X) == 1
    for _ in range(2):
        with choice, choice:
            assert calls(lanes.compile(double), X) == 0
        assert calls(lanes.compile(double), X) == 1


def test_a_choice_decorates_a_function():
    @bf.backend("xla")
    def ask() -> int:
        return calls(lanes.compile(double), X)

    assert [ask(), ask(), calls(lanes.compile(double), X)] == [0, 0, 1]


def test_overlapping_choices_of_threads_do_not_mix():
    """One enters first and leaves first; jit, which both call, keeps their programs apart."""
    compiled, entered, left = jax.jit(lanes.compile(double)), threading.Event(), threading.Event()
    counts: dict[str, list[int]] = {"xla": [], "lanes": []}

    def ask(name: str) -> None:
        np.testing.assert_allclose(compiled(X), double(X), rtol=1e-14)
        counts[name].append(compiled.lower(X).as_text().count("custom_call @backflip"))

    def first() -> None:
        with bf.backend("xla"):
            ask("xla")
            entered.set()
            assert inside.wait(60)
            ask("xla")
        left.set()

    def second() -> None:
        assert entered.wait(60)
        with bf.backend("lanes"):
            inside.set()
            ask("lanes")
            assert left.wait(60)
            ask("lanes")
        ask("lanes")

    inside = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(first), pool.submit(second)]:
            done.result()
    assert counts == {"xla": [0, 0], "lanes": [1, 1, 1]}


CHOOSE = """
import threading, jax, jax.numpy as jnp, backflip as bf
from backflip import lanes
double, seen = jax.jit(lanes.compile(lambda x: 2 * x)), []
def ask():
    double(jnp.ones(3))
    seen.append((lanes.chosen(), double.lower(jnp.ones(3)).as_text().count("custom_call @backflip")))
def ask_twice():
    ask()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
ask_twice()
bf.set_backend("xla")
ask_twice()
with bf.backend("lanes"):
    bf.set_backend("xla")
    ask_twice()  # a block is stronger than the default, in its own thread
bf.set_backend("lanes")
ask_twice()
print(*(f"{name} {count}" for name, count in seen), sep="\\n")
"""


def test_the_default_holds_in_all_threads_where_no_block_says_otherwise():
    by_lanes, by_xla = "lanes 1", "xla 0"
    assert answer(CHOOSE) == [by_lanes] * 2 + [by_xla] * 2 + [by_lanes, by_xla] + [by_lanes] * 2


def test_results_of_both_agree():
    compiled = lanes.compile(double)
    by_lanes = compiled(X)
    with bf.backend("xla"):
        np.testing.assert_allclose(compiled(X), by_lanes, rtol=1e-14)


# --- the seam ---------------------------------------------------------------------------------------------


def test_step_runs_by_lanes_unless_told_otherwise(ball):
    assert calls(bf.step, *ball) == 1
    with bf.backend("xla"):
        assert calls(bf.step, *ball) == 0


def test_a_batch_and_its_gradient_are_one_call_each():
    f = lanes.compile(lambda A, x: jnp.sin(A @ x).sum())
    args = jnp.ones((7, 3)), jnp.ones((6, 3))
    assert calls(jax.vmap(f, (None, 0)), *args) == 1
    gradient = jax.vmap(jax.grad(f, (0, 1)), (None, 0))
    assert 1 <= calls(gradient, *args) <= 2
    with bf.backend("xla"):
        assert calls(gradient, *args) == 0


def test_second_derivatives_are_left_to_nobody_else():
    text = jax.jit(jax.hessian(lanes.compile(lambda x: jnp.sin(x) @ x))).lower(X).as_text()
    assert text.count("custom_call @backflip_lanes") == 1
    assert "sine" not in text


def test_rollouts_run_by_lanes(ball):
    assert calls(lambda m, s: bf.rollout(ball[0], m, s, steps=9).last.p_WB, *ball[1:]) >= 1


def test_what_a_batch_shares_is_not_copied():
    def f(A: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sin(A @ x)

    lowered = jax.jit(jax.vmap(lanes.compile(f), (None, 0))).lower(jnp.ones((7, 3)), jnp.ones((1000, 3)))
    assert "1000x7x3" not in lowered.as_text()
    assert "1000x7x" in lowered.as_text()


def test_a_batch_of_batches_is_one_call():
    f = lanes.compile(lambda A, x: jnp.sin(A @ x))
    nested = jax.vmap(jax.vmap(f, (None, 0)), (0, None))
    assert calls(nested, jnp.ones((4, 7, 3)), jnp.ones((6, 3))) == 1


def test_python_threads_may_call_at_once():
    compiled = jax.jit(jax.vmap(lanes.compile(lambda x: jnp.sin(x @ x) * x)))
    xs = [np.random.default_rng(i).normal(size=(2000, 3)) for i in range(8)]
    want = [np.asarray(compiled(x)) for x in xs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            for got, w in zip(pool.map(compiled, xs), want, strict=True):
                np.testing.assert_array_equal(got, w)


# --- the environment --------------------------------------------------------------------------------------

ASK = """
import jax, jax.numpy as jnp, backflip as bf
from backflip import lanes
def calls():
    return jax.jit(lambda x: lanes.compile(jnp.sin)(x)).lower(jnp.ones(3)).as_text().count("custom_call")
print(lanes.chosen(), calls())
for name in ("xla", "lanes"):
    bf.set_backend(name)
    print(lanes.chosen(), calls())
"""


def answer(code: str = ASK, **env: str) -> list[str]:
    """Who runs functions, at first and after each choice by hand, and the calls in such a function."""
    plain = {k: v for k, v in os.environ.items() if k != "BACKFLIP_LANES"}
    done = subprocess.run([sys.executable, "-c", code], env=plain | env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_lanes_are_the_default_and_a_choice_by_hand_is_stronger():
    assert answer() == ["lanes 1", "xla 0", "lanes 1"]


def test_the_environment_can_turn_them_off_and_a_choice_by_hand_is_stronger():
    assert answer(BACKFLIP_LANES="0") == ["xla 0", "xla 0", "lanes 1"]


# --- what lanes cannot do ---------------------------------------------------------------------------------


def spectrum(x: jax.Array) -> jax.Array:
    return jnp.abs(jnp.fft.fft(2 * x)) ** 2


def stretches(x: jax.Array) -> jax.Array:
    return jnp.linalg.eigh(jnp.outer(x, x) + jnp.diag(x))[0]


UNCOVERED = {"complex128": spectrum, "eigh": stretches}
"""By what the warning names: a type, or an operation"""


@pytest.mark.parametrize("what", UNCOVERED)
def test_what_is_not_covered_runs_by_xla_and_says_so_with_its_place(what):
    fn = UNCOVERED[what]
    line = fn.__code__.co_firstlineno + 1
    with pytest.warns(lanes.Uncovered, match=rf"{what}(.|\n)*test_backend\.py:{line}"):
        got = lanes.compile(fn)(X)
    np.testing.assert_allclose(got, fn(X), rtol=1e-12, atol=1e-12)
    assert not lanes.covers(fn, X) and lanes.covers(double, X)
    assert issubclass(lanes.Uncovered, UserWarning)


@pytest.mark.filterwarnings("ignore::backflip.lanes.Uncovered")
@pytest.mark.parametrize("what", UNCOVERED)
def test_what_is_not_covered_can_be_transformed_all_the_same(what):
    fn = UNCOVERED[what]
    compiled, xs = lanes.compile(fn), X + jnp.arange(3.0)[:, None] ** 2 + 0.1

    def loss(f: Callable) -> Callable:
        return lambda x: (f(x) ** 2).sum()

    for do in (jax.vmap, lambda f: jax.vmap(jax.grad(loss(f))), lambda f: jax.vmap(jax.jacfwd(loss(f)))):
        np.testing.assert_allclose(jax.jit(do(compiled))(xs), jax.jit(do(fn))(xs), rtol=1e-10)


def test_the_same_place_is_named_once():
    def odd(x: jax.Array) -> jax.Array:
        return jnp.fft.fft(x).real

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")  # what Python does unless told otherwise
        for _ in range(3):
            lanes.compile(odd)(X)
            jax.vmap(lanes.compile(odd))(X[None])
            jax.grad(lambda x: lanes.compile(odd)(x).sum())(X)
    assert [issubclass(w.category, lanes.Uncovered) for w in heard] == [True]


def test_two_places_are_named_each():
    def here(x: jax.Array) -> jax.Array:
        return jnp.fft.fft(x).real

    def there(x: jax.Array) -> jax.Array:
        return jnp.fft.fft(x).imag

    for fn in (here, there):
        with pytest.warns(lanes.Uncovered, match=f"test_backend.py:{fn.__code__.co_firstlineno + 1}"):
            lanes.compile(fn)(X)


@pytest.mark.filterwarnings("ignore::backflip.lanes.Uncovered")
def test_a_huge_array_and_a_long_sort_work_covered_or_not():
    x = jnp.sin(jnp.arange(200_000.0))
    np.testing.assert_allclose(lanes.compile(lambda x: jnp.sin(x) @ x)(x), jnp.sin(x) @ x, rtol=1e-12)
    np.testing.assert_array_equal(lanes.compile(jnp.sort)(x[:500]), jnp.sort(x[:500]))


def test_nothing_is_said_where_xla_was_asked_for():
    with warnings.catch_warnings(), bf.backend("xla"):
        warnings.simplefilter("error")
        np.testing.assert_allclose(lanes.compile(lambda x: jnp.fft.fft(x).real)(X)[0], 28)


@pytest.mark.filterwarnings("ignore::backflip.lanes.Uncovered")
def test_random_numbers_and_half_precision_work_covered_or_not():
    def noise(key: jax.Array, x: jax.Array) -> jax.Array:
        return x + jax.random.normal(key, x.shape)

    keys = jax.random.split(jax.random.key(0), 3)
    for do in (lambda f: f(keys[0], X), lambda f: jax.vmap(f, (0, None))(keys, X)):
        np.testing.assert_allclose(do(lanes.compile(noise)), do(noise), rtol=1e-12)
    half = X.astype(jnp.float16)
    np.testing.assert_allclose(lanes.compile(double)(half), double(half), rtol=1e-3)


@pytest.mark.parametrize("threads", ["many", "0", "-1"])
def test_a_number_of_threads_that_is_none_is_named(monkeypatch, threads: str) -> None:
    monkeypatch.setenv("BACKFLIP_LANES_THREADS", threads)
    with pytest.raises(ValueError, match=f"BACKFLIP_LANES_THREADS is '{threads}'"):
        jax.jit(jax.vmap(lanes.compile(lambda x: x + 1)))(X)


def test_what_is_no_function_is_named() -> None:
    with pytest.raises(TypeError, match="3 is no function"):
        lanes.compile(3)  # type: ignore[arg-type]
