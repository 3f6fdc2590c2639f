"""The CPU that kernels are made for: named, checked, and the same results whatever it is."""

import platform

import jax
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest

import backflip as bf
from backflip import lanes, robots
from backflip.lanes import machine, worker
from backflip.lanes.kernel import kernel_ir
from backflip.lanes.target import target

x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86")
TARGETS = ["sse2", "avx", "avx2", "avx2,-fma", "native,-fma", "native"]


@pytest.fixture
def on(monkeypatch):
    """Choose a target; skip where this CPU has less."""

    def choose(name: str) -> None:
        monkeypatch.setenv("BACKFLIP_TARGET", name)
        try:
            target()
        except ValueError as reason:
            if "this CPU" not in str(reason):
                raise
            pytest.skip(str(reason))

    return choose


def swing(x: jax.Array) -> jax.Array:
    return jnp.sin(x @ x) + jnp.exp(-x[0] * x[1] + x[2]) / (2 + jnp.cumsum(x)[-1] ** 2)


def instructions(name: str, monkeypatch) -> str:
    """Machine code of the function above, as text."""
    monkeypatch.setenv("BACKFLIP_TARGET", name)
    closed = jax.make_jaxpr(swing)(jnp.ones(3, jnp.float32))
    text = kernel_ir(closed, (False,), True, machine.lane_count(), 1)[0].text
    return worker.generator(*target()).emit_assembly(llvm.parse_assembly(text))


@x86
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_value_and_its_gradient_are_those_of_xla_on_every_target(on, name: str, dtype):
    on(name)
    xs = jnp.asarray(np.random.default_rng(0).normal(size=(37, 3)), dtype)
    close = {"rtol": 3e-5, "atol": 1e-5} if dtype == jnp.float32 else {"rtol": 1e-12, "atol": 1e-13}
    got = jax.jit(jax.vmap(jax.value_and_grad(lanes.compile(swing))))(xs)
    for a, b in zip(got, jax.vmap(jax.value_and_grad(swing))(xs), strict=True):
        np.testing.assert_allclose(a, b, **close)


@x86
def test_a_step_and_its_gradient_are_those_of_xla_with_plain_sse2(on):
    on("sse2")
    model, scheme = robots.pendulum(), bf.Scheme(0.01)
    start = bf.rest(model)

    def reached(turn: jax.Array) -> jax.Array:
        state = jax.tree.map(lambda x: x + turn if x.shape == start.w_WB.shape else x, start)
        return (bf.step(scheme, model, state).w_WB ** 2).sum()

    def ask() -> tuple:
        return jax.jit(jax.vmap(jax.value_and_grad(reached)))(jnp.linspace(0.0, 0.1, 5))

    by_lanes = ask()
    with bf.backend("xla"):
        for a, b in zip(by_lanes, ask(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@x86
def test_targets_differ_in_their_instructions(on, monkeypatch):
    on("avx2")
    assert "vfmadd" in instructions("avx2", monkeypatch) and "ymm" in instructions("avx2", monkeypatch)
    without = instructions("avx2,-fma", monkeypatch)
    assert "vfmadd" not in without and "ymm" in without
    plain = instructions("sse2", monkeypatch)
    assert "xmm" in plain and "ymm" not in plain and "vmul" not in plain
    assert instructions("x86-64", monkeypatch) == plain
    assert "vfmadd" not in instructions("native,-fma", monkeypatch)


def test_kernels_are_named_by_their_target(on, monkeypatch):
    monkeypatch.delenv("BACKFLIP_TARGET", raising=False)
    usual = machine.key_of("a program")
    on("native")
    assert machine.key_of("a program") == usual
    on("native,-fma")
    assert machine.key_of("a program") != usual


def test_a_target_is_read_whenever_a_kernel_is_made(on, monkeypatch):
    compiled = lanes.compile(swing)

    def name() -> str:
        text = jax.jit(lambda x: compiled(x)).lower(jnp.ones(3)).as_text()
        return next(line for line in text.splitlines() if "backflip_lanes" in line)

    monkeypatch.delenv("BACKFLIP_TARGET", raising=False)
    usual = name()
    on("native,-fma")
    assert name() != usual
    monkeypatch.delenv("BACKFLIP_TARGET")
    assert name() == usual


BAD = {
    "pentium": "there is no target 'pentium'; give one of native",
    "native,fma": "no feature 'fma'",
    "native,-warp": "no feature '-warp'",
    "native,": "no feature ''",
}


@x86
@pytest.mark.parametrize("name", BAD)
def test_a_target_that_is_none_is_named(name: str, monkeypatch):
    monkeypatch.setenv("BACKFLIP_TARGET", name)
    with pytest.raises(ValueError, match=f"BACKFLIP_TARGET is '{name}'.*{BAD[name]}"):
        jax.jit(lanes.compile(swing))(jnp.ones(3))


@x86
def test_a_target_that_this_cpu_cannot_run_is_refused(monkeypatch):
    lacks = next(f for f, there in llvm.get_host_cpu_features().items() if not there)
    monkeypatch.setenv("BACKFLIP_TARGET", f"native,+{lacks}")
    with pytest.raises(ValueError, match=f"this CPU .* has no {lacks}; kernels would not run"):
        jax.jit(lanes.compile(swing))(jnp.ones(3))
