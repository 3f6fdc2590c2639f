"""Robots whose loops differ in length change vectors between turns, and nobody's numbers change by it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backflip import lanes
from backflip.lanes.kernel import kernel_ir

pytestmark = pytest.mark.filterwarnings("error::backflip.lanes.Uncovered")

SIZES = 2, 16, 17, 128, 131, 700
"""of batches: within a vector, full ones, more than one group of vectors"""


def counted(x, shared, turns):
    """Turns that are counted, of floats, whole numbers and booleans."""

    def turn(c):
        count, x, even = c
        return count + 1, jnp.sin(x) + 0.1 * shared * jnp.where(even, 1, -1), ~even

    return jax.lax.while_loop(lambda c: c[0] < turns, turn, (jnp.int32(0), x, jnp.bool_(True)))


def nested(x, shared, turns):
    """A loop in a loop, the inner one wanted by few; and another loop behind."""

    def turn(c):
        count, x = c
        inner = jax.lax.while_loop(
            lambda c: c.sum() > 20, lambda c: 0.5 * c, jnp.where(count == 3, 30 + x, x)
        )
        return count + 1, inner + shared

    count, y = jax.lax.while_loop(lambda c: (c[0] < turns) & (c[1][0] < 9), turn, (jnp.int32(0), x))
    small = jax.lax.while_loop(lambda c: jnp.abs(c).sum() > 1e-2, lambda c: 0.7 * c, y * x)
    return count, y, small + x


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("fn", [counted, nested])
def test_every_robot_makes_its_own_turns(fn, precision: str) -> None:
    run, want = (jax.jit(jax.vmap(f, (0, None, 0))) for f in (lanes.compile(fn), fn))
    shared = jnp.asarray([0.3, -0.2, 0.1], precision)
    bar = {"rtol": 1e-5, "atol": 1e-5} if precision == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    for size in SIZES:
        rng = np.random.default_rng(size)
        x, turns = jnp.asarray(rng.normal(size=(size, 3)), precision), rng.geometric(0.2, size) - 1
        found = run(x, shared, turns)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **bar), found, want(x, shared, turns))


def test_neighbours_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    x, turns = jnp.asarray(rng.normal(size=(300, 3)), "float32"), rng.geometric(0.1, 300)
    run = jax.jit(jax.vmap(lanes.compile(nested), (0, None, 0)))
    together, mixed = run(x, x[0], turns), rng.permutation(300)
    apart = run(x[mixed], x[0], turns[mixed])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[mixed], b), together, apart)


def test_one_robot_alone_has_nobody_to_join() -> None:
    closed = jax.make_jaxpr(counted)(jnp.zeros(3), jnp.zeros(3), 1)
    assert "@regroup0" in kernel_ir(closed, (False, True, False), True, 8, 1)[0].text
    assert "@regroup" not in kernel_ir(closed, (True, True, True), False, 1, 1)[0].text


def test_vectors_that_leave_room_for_no_second_turn_by_themselves() -> None:
    def fn(x, turns):
        return jax.lax.while_loop(lambda c: c[0] < turns, lambda c: (c[0] + 1, c[1].T * 0.9), (0, x))[1]

    rng = np.random.default_rng(0)
    x, turns = jnp.asarray(rng.normal(size=(20, 140, 140)), "float32"), rng.geometric(0.3, 20)
    np.testing.assert_allclose(jax.vmap(lanes.compile(fn))(x, turns), jax.vmap(fn)(x, turns), rtol=1e-6)
