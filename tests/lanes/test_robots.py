"""Every robot's step and its VJP by lanes against XLA, after a few steps of random controls."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import backflip as bf
from backflip import robots

pytestmark = pytest.mark.filterwarnings("error::backflip.lanes.Uncovered")

SCHEME = bf.Scheme(0.01)
BATCH, STEPS = 5, 4
"""random robots, and steps they have made when they are looked at"""
MANY = 48
"""robots for a look at rounding, which is large for one in ten of them"""
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
"""of the largest number in each array, over one step"""
OWN = 5
"""Where XLA in float32 is further than 1e-5 from float64, lanes may be so many times as far"""
NOISE = 1e-6
"""an array this much smaller than the largest of its tree is rounding of something that cancels"""


def slow(name: str) -> Any:
    """A robot that XLA takes long to compile."""
    return pytest.param(name, marks=pytest.mark.slow)


def robots_to_check(always: str) -> list:
    """Every robot; those that are not looked at `always` are slow, since XLA takes long to compile them."""
    marks = {n: [pytest.mark.slow] for n in robots.__all__ if n not in always.split()}
    return [pytest.param(n, marks=marks.get(n, ())) for n in sorted(robots.__all__)]


def robot(name: str) -> bf.Model:
    return robots.pendulum(motor=True) if name == "pendulum" else getattr(robots, name)()


def as_(precision: str, tree: Any) -> Any:
    return jax.tree.map(lambda x: x.astype(precision), tree)


def step(model: bf.Model, state: bf.State, u: Array) -> bf.State:
    return bf.step(SCHEME, model, state, u)


def step_and_pull(model: bf.Model, state: bf.State, u: Array, ct: bf.State) -> tuple[bf.State, tuple]:
    """The state after, and ct pulled back to model, state and u."""
    after, pull = jax.vjp(step, model, state, u)
    return after, pull(ct)


def by(backend: str, fn: Callable, *args: Any) -> Any:
    """fn of args run by that backend; jitted anew, so that nothing is remembered."""
    with bf.backend(backend):
        return jax.jit(lambda *args: fn(*args))(*args)


def random_controls(model: bf.Model, count: int = BATCH) -> tuple[Array, bf.State]:
    """u (count, controls), and a cotangent for each state after."""
    rng = np.random.default_rng(0)
    u = jnp.asarray(rng.normal(size=(count, model.controls)))
    ct = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=(count, *x.shape))), bf.rest(model))
    return u, ct


def reached(model: bf.Model, start: bf.State, us: Array) -> bf.State:
    """States of a batch after STEPS steps; they start with random velocities."""
    rng = np.random.default_rng(1)
    push = jnp.asarray(0.3 * rng.normal(size=(len(us), *start.v_WB.shape)))
    states = jax.tree.map(lambda x: jnp.stack([x] * len(us)), start)
    states = (
        eqx.tree_at(lambda s: s.v_WB, states, states.v_WB + push) if model.topology.joints == () else states
    )
    return jax.lax.fori_loop(0, STEPS, lambda _, s: jax.vmap(step, (None, 0, 0))(model, s, us), states)


def errors(got: Any, want: Any) -> dict[str, float]:
    """By array: the largest difference over the largest number of any robot in it."""
    found, pairs = {}, jax.tree.leaves_with_path(want)
    most = max(np.max(np.abs(y), initial=0) for _, y in pairs)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for (path, y), x in zip(pairs, jax.tree.leaves(got), strict=True):
        assert np.isfinite(x).all() and x.shape == y.shape
        if y.size:
            off = np.max(np.abs(np.asarray(x, float) - np.asarray(y, float)))
            found[jax.tree_util.keystr(path)] = float(off / max(np.max(np.abs(y)), NOISE * most, 1e-30))
    return found


def assert_within(bar: dict[str, float] | float, found: dict[str, float], what: str) -> None:
    bars = bar if isinstance(bar, dict) else dict.fromkeys(found, bar)
    worse = {at: f"{e:.1e} > {bars[at]:.1e}" for at, e in found.items() if not e <= bars[at]}
    assert not worse, f"{what}: {worse}"


def assert_by_lanes(fn: Callable, *args: Any) -> None:
    with bf.backend("lanes"):
        assert "custom_call" in jax.jit(lambda *args: fn(*args)).lower(*args).as_text()


shared = jax.vmap(step_and_pull, (None, 0, 0, 0))
"""A batch of one model in different states."""


@pytest.mark.parametrize("name", robots_to_check("ball pendulum"))
def test_step_and_vjp_are_those_of_xla_to_1e_10_in_float64(name: str) -> None:
    model = robot(name)
    us, cts = random_controls(model)
    states = by("lanes", reached, model, bf.rest(model), us)
    args = (model, states, us, cts)
    assert_by_lanes(shared, *args)
    after, pulled = by("lanes", shared, *args)
    want_after, want_pulled = by("xla", shared, *args)
    bar = TOLERANCE["float64"]
    assert_within(bar, errors(after, want_after), "step")
    assert_within(bar, errors(pulled, want_pulled), "vjp")


@pytest.mark.parametrize("name", ["ball", slow("four_bar")])
def test_one_robot_alone_is_the_first_of_a_batch(name: str) -> None:
    model = robot(name)
    us, cts = random_controls(model)
    states = by("lanes", reached, model, bf.rest(model), us)
    first = jax.tree.map(lambda x: x[0], (states, us, cts))
    batch = jax.tree.map(lambda x: x[:1].repeat(BATCH, 0), (states, us, cts))
    alone, among = by("lanes", step_and_pull, model, *first), by("lanes", shared, model, *batch)
    assert_within(1e-12, errors(alone, jax.tree.map(lambda x: x[0], among)), "alone")


@pytest.mark.parametrize("name", robots_to_check("ball"))
def test_step_and_vjp_are_those_of_xla_to_1e_5_or_to_the_coarseness_of_float32(name: str) -> None:
    model = robot(name)
    us, cts = random_controls(model, MANY)
    args = (model, by("lanes", reached, model, bf.rest(model), us), us, cts)
    single = as_("float32", args)
    exact = by("lanes", shared, *as_("float64", single))
    got, own = by("lanes", shared, *single), by("xla", shared, *single)
    for what, g, o, e in zip(("step", "vjp"), got, own, exact, strict=True):
        assert all(x.dtype == np.float32 for x in jax.tree.leaves(g))
        coarse = {at: max(TOLERANCE["float32"], OWN * err) for at, err in errors(o, e).items()}
        assert_within(coarse, errors(g, e), what)


@pytest.mark.parametrize("name", [slow("ball"), "pendulum"])
def test_a_batch_of_different_models_is_that_of_xla(name: str) -> None:
    model = robot(name)
    us, cts = random_controls(model)
    rng = np.random.default_rng(2)

    def another(x: Array) -> Array:
        return jnp.asarray(x * rng.uniform(0.95, 1.05, (BATCH, *[1] * x.ndim)))

    inertial = lambda m: (m.mass, m.inertia, m.density, m.friction, m.gain, m.gravity)  # noqa: E731
    changed = jax.tree.map(lambda x: jnp.stack([x] * BATCH), model)
    changed = eqx.tree_at(inertial, changed, jax.tree.map(another, inertial(model)))
    args = (changed, by("lanes", reached, model, bf.rest(model), us), us, cts)
    batch = jax.vmap(step_and_pull)
    for what, g, w in zip(("step", "vjp"), by("lanes", batch, *args), by("xla", batch, *args), strict=True):
        assert_within(TOLERANCE["float64"], errors(g, w), what)


@pytest.mark.parametrize("name", robots_to_check("ball pendulum four_bar"))
def test_a_second_of_steps_ends_where_xla_ends(name: str) -> None:
    """To 1e-6 m: chaos has multiplied rounding, but not taken over."""
    model = robot(name)
    us = jnp.asarray(np.random.default_rng(3).normal(size=(1, model.controls))) * jnp.ones((100, 1))

    def play(model: bf.Model, us: Array) -> bf.State:
        return bf.rollout(SCHEME, model, bf.rest(model), us).state

    by_lanes, by_xla = by("lanes", play, model, us), by("xla", play, model, us)
    np.testing.assert_allclose(by_lanes.p_WB, by_xla.p_WB, atol=1e-6)
    assert np.ptp(by_xla.p_WB, axis=0).max() > 1e-3 or name == "ball"


@pytest.mark.parametrize("name", [slow("ball"), "pendulum"])
def test_a_gradient_through_a_rollout_is_that_of_xla(name: str) -> None:
    """Of many robots that share a model: to the model, by the sum over the robots, and to the controls."""
    model = robot(name)
    us = jnp.asarray(np.random.default_rng(4).normal(size=(BATCH, 20, model.controls)))

    def loss(model: bf.Model, us: Array) -> Array:
        def one(us: Array) -> Array:
            last = bf.rollout(SCHEME, model, bf.rest(model), us).last
            return (last.p_WB**2).sum() + (last.v_WB * last.v_WB[:, ::-1]).sum()

        return jax.vmap(one)(us).sum()

    slopes = jax.grad(loss, (0, 1))
    assert_within(1e-8, errors(by("lanes", slopes, model, us), by("xla", slopes, model, us)), "gradient")


@pytest.mark.slow
def test_step_and_vjp_by_interior_point_are_those_of_xla() -> None:
    b = bf.Builder()
    b.add_ground(friction=0.4)
    b.add_body("ball", bf.Sphere(0.1), mass=1.0, position=(0, 0, 0.1), velocity=(1, 0.2, 0), spin=(1, 2, 3))
    model, scheme = b.build(), bf.Scheme(0.01, bf.InteriorPoint())
    ct = jax.tree.map(jnp.ones_like, bf.rest(model))

    def both(model: bf.Model, state: bf.State) -> tuple[bf.State, Any]:
        after, pull = jax.vjp(lambda m, s: bf.step(scheme, m, s), model, state)
        return after, pull(ct)

    args = model, bf.rest(model)
    assert_by_lanes(both, *args)
    assert_within(TOLERANCE["float64"], errors(by("lanes", both, *args), by("xla", both, *args)), "step")
