"""What kernels on disk are named by: all that a program is, and nothing that changes between processes."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip import lanes
from backflip.lanes.jaxpr_text import text_of

X = jnp.ones(3)
TABLE = np.arange(3000.0, dtype=np.float32)
OTHER = TABLE.copy()
OTHER[1500] = np.nextafter(OTHER[1500], np.float32(np.inf))


def loop(turns):
    return lambda x: jax.lax.fori_loop(0, turns, lambda i, y: y + 1, x)


DIFFERENT = {
    "a number": (lambda x: x * 2.0, lambda x: x * 2.0000002),
    "a number of an array": (lambda x: x[0] * TABLE, lambda x: x[0] * OTHER),
    "the sign of zero": (lambda x: x + 0.0, lambda x: x + -0.0),
    "an operation": (jnp.sin, jnp.cos),
    "the order of operands": (lambda x: x[0] - x[1], lambda x: x[1] - x[0]),
    "the order of results": (lambda x: (x[0], x[1]), lambda x: (x[1], x[0])),
    "a shape": (lambda x: x, lambda x: x[:2]),
    "an axis": (lambda x: jnp.outer(x, x).sum(0), lambda x: jnp.outer(x, x).sum(1)),
    "turns of a loop": (loop(3), loop(4)),
    "a branch": (
        lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
        lambda x: jax.lax.cond(x[0] > 0, jnp.cos, jnp.sin, x),
    ),
    "what is read at": (lambda x: x[np.array([0, 2])], lambda x: x[np.array([0, 1])]),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_programs_that_differ_have_other_texts(what):
    one, two = (text_of(jax.make_jaxpr(f)(X)) for f in DIFFERENT[what])
    assert one != two
    assert one == text_of(jax.make_jaxpr(DIFFERENT[what][0])(X))


@pytest.mark.parametrize("result", [3, 0.1])
def test_a_result_that_is_a_plain_number_has_the_width_of_its_day(result):
    compiled = lanes.compile(lambda x: (x * 2, result))
    for wide in (False, True, False):
        with jax.enable_x64(wide):
            many = jax.jit(jax.vmap(compiled))(np.ones((20, 3), np.float32))[1]
            assert many.dtype.itemsize == (8 if wide else 4)
            np.testing.assert_array_equal(many, np.full(20, result, many.dtype))


ASK = """
import jax, jax.numpy as jnp
import backflip as bf
from backflip import robots
from backflip.lanes.jaxpr_text import text_of
bf.set_backend("xla")
model, scheme = robots.pendulum(), bf.Scheme(0.01)
jaxpr = jax.make_jaxpr(lambda state, u: bf.step(scheme, model, state, u))(bf.rest(model), jnp.zeros(0))
print(text_of(jaxpr))
"""


def test_a_program_has_the_same_text_in_every_process():
    def text(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, check=True).stdout

    assert text("1") == text("2")
