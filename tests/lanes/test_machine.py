"""Building machine code: modules at once, and Python free meanwhile."""

import jax
import jax.numpy as jnp
import pytest

from backflip.lanes.kernel import kernel_ir
from backflip.lanes.machine import build, load
from backflip.lanes.program import Program

X = jnp.ones(4)


def test_python_does_something_else_while_llvm_works():
    done = []
    code = build(kernel_ir(jax.make_jaxpr(jnp.sin)(X), (False,), True, 8, 1), lambda: done.append(True))
    assert done and load(code)


def test_what_goes_wrong_meanwhile_is_told():
    with pytest.raises(ZeroDivisionError):
        build(kernel_ir(jax.make_jaxpr(jnp.sin)(X), (False,), True, 8, 1), lambda: 1 / 0)


def test_derivatives_that_were_asked_for_are_traced_while_their_function_is_compiled(monkeypatch):
    monkeypatch.setenv("BACKFLIP_CACHE", "off")
    program = Program.of(jax.make_jaxpr(lambda x: x * 2.5 + 0.75)(X))
    pullback = program.pullback((True,))
    assert "closed" not in vars(pullback)
    program.kernel((False,), 3)
    assert "closed" in vars(pullback)
