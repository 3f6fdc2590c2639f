"""A hundred thousand steps from random and special states: value and gradient are always finite."""

import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import Array

from backflip import (
    Box,
    Builder,
    Capsule,
    Cylinder,
    Hull,
    Model,
    Plane,
    Scheme,
    Shape,
    Sphere,
    State,
    backend,
    lanes,
    rest,
    step,
)
from backflip.geometry import form_of, pair_of

BATCH = 2500
BATCHES = 4
"""Per scene and precision: 5 scenes x 2 precisions x 4 batches x 2500 states = 100,000."""


def ground_scene(shape: Sphere | Capsule | Box) -> Model:
    builder = Builder()
    builder.add_ground(friction=0.5, restitution=0.5)
    builder.add_body("body", shape, position=(0, 0, 0.5))
    return builder.build()


def balls_scene() -> Model:
    builder = Builder()
    builder.add_body("a", Sphere(0.1), restitution=0.5)
    builder.add_body("b", Sphere(0.15), position=(0.5, 0, 0))
    return builder.build()


def arm_scene() -> Model:
    builder = Builder()
    builder.add_body("upper", Capsule(0.05, 0.3), position=(0, 0, 1))
    builder.add_body("lower", Sphere(0.1), position=(0, 0, 0.7))
    hinge = {"limits": (-0.5, 0.5), "stiffness": 1, "damping": 0.1}
    builder.add_hinge("knee", "upper", "lower", position=(0, 0, 0.8), axis=(0, 1, 0), **hinge)
    builder.add_servo("knee", gain=10, max_velocity=5, max_torque=2)
    return builder.build()


SCENES: dict[str, Callable[[], Model]] = {
    "sphere": lambda: ground_scene(Sphere(0.1)),
    "capsule": lambda: ground_scene(Capsule(0.1, 0.3)),
    "box": lambda: ground_scene(Box((0.2, 0.2, 0.2))),
    "balls": balls_scene,
    "arm": arm_scene,
}

HEIGHTS = (0.1, 0.1, 0.25, 0.0, 0.5)
"""[m] exactly touching for the sphere, the cube and the lying or standing capsule; buried; free."""


def random_rotation(key: Array, like: Array) -> Array:
    return jnp.linalg.qr(jax.random.normal(key, like.shape, like.dtype))[0]


def quarter_turns(key: Array, like: Array) -> Array:
    """Axes onto axes, so that faces and edges lie exactly parallel."""
    turns = jnp.array(
        [
            [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
            [[0, 0, 1], [1, 0, 0], [0, 1, 0]],
            [[0, 1, 0], [0, 0, 1], [1, 0, 0]],
            [[1, 0, 0], [0, -1, 0], [0, 0, -1]],
        ],
        like.dtype,
    )
    return turns[jax.random.randint(key, like.shape[:1], 0, len(turns))]


def random_state(start: State, key: Array) -> State:
    """Each field is random, special (touching, coincident, parallel, still, unloaded) or as described."""
    keys = iter(jax.random.split(key, 20))

    def normal(like: Array, scale: float) -> Array:
        return scale * jax.random.normal(next(keys), like.shape, like.dtype)

    def one_of(*options: Array) -> Array:
        return jnp.stack(options)[jax.random.randint(next(keys), (), 0, len(options))]

    p, v, w, force = start.p_WB, start.v_WB, start.w_WB, start.force
    height = jnp.array(HEIGHTS, p.dtype)[jax.random.randint(next(keys), (p.shape[0],), 0, len(HEIGHTS))]
    on_height = jnp.zeros_like(p).at[:, 2].set(height)
    turned, parallel = random_rotation(next(keys), start.R_WB), quarter_turns(next(keys), start.R_WB)
    down = jnp.zeros_like(v).at[:, 2].set(-1)
    return replace(
        start,
        p_WB=one_of(p, p + normal(p, 0.2), on_height, jnp.zeros_like(p), on_height + normal(p, 1e-4)),
        R_WB=one_of(jnp.broadcast_to(jnp.eye(3, dtype=p.dtype), turned.shape), turned, parallel),
        v_WB=one_of(jnp.zeros_like(v), normal(v, 3), down, normal(v, 1e-9)),
        w_WB=one_of(jnp.zeros_like(w), normal(w, 5), normal(w, 1e-9)),
        force=one_of(jnp.zeros_like(force), normal(force, 10)),
    )


def all_finite(tree: object) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


@partial(jax.jit, static_argnames="dt")
def finite(model: Model, start: State, keys: Array, dt: float = 0.01) -> tuple[Array, Array]:
    """Whether the step, and its vjp of a random cotangent, are finite, for every key."""

    def one(key: Array) -> tuple[Array, Array]:
        first, second, third = jax.random.split(key, 3)
        state = random_state(start, first)
        u = jax.random.normal(second, (model.controls,), model.gravity.dtype)
        u = jnp.where(jax.random.bernoulli(second), u, 0)
        after, pull = jax.vjp(lambda m, s, u: step(Scheme(dt=dt), m, s, u), model, state, u)
        leaves, tree = jax.tree.flatten(after)
        normals = zip(jax.random.split(third, len(leaves)), leaves, strict=True)
        cotangent = tree.unflatten([jax.random.normal(k, x.shape, x.dtype) for k, x in normals])
        return all_finite(after), all_finite(pull(cotangent))

    return jax.vmap(one)(keys)


@pytest.mark.parametrize(
    "precision",
    [
        pytest.param(jnp.float32, id="float32"),
        pytest.param(jnp.float64, id="float64", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", SCENES)
def test_steps_and_gradients_are_finite_from_any_state(name: str, precision: type) -> None:
    model = jax.tree.map(lambda x: x.astype(precision), SCENES[name]())
    start = rest(model)
    assert start.p_WB.dtype == precision
    for seed in range(BATCHES):
        keys = jax.random.split(jax.random.key(seed), BATCH)
        step_ok, slope_ok = finite(model, start, keys)
        for what, ok in (("step", step_ok), ("gradient", slope_ok)):
            bad = int((~ok).sum())
            assert bad == 0, f"{what}: {bad} of {BATCH} not finite, the first at {int(ok.argmin())}"


@pytest.mark.parametrize("by", ["lanes", "xla"])
def test_friction_next_to_nothing_has_a_gradient_in_float32(by: str) -> None:
    """As under a ball that rolls."""
    model = jax.tree.map(lambda x: x.astype("float32"), ground_scene(Sphere(0.1)))
    still = rest(model)
    still = replace(
        still, p_WB=still.p_WB.at[0, 2].set(0.1), force=jnp.array([40, -1e-18, -1e-18], "float32")
    )
    with backend(by):
        after, pull = jax.vjp(lambda *x: step(Scheme(0.01), *x), model, still)
        slope = pull(jax.tree.map(jnp.ones_like, after))
    assert 0 < abs(float(after.force[1])) < 1e-17
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((after, slope)))


CUBE = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
SOLIDS = (Sphere(0.1), Capsule(0.08, 0.2), Box((0.2, 0.15, 0.3)), Cylinder(0.1, 0.2), Hull(CUBE))
STATES = 2048
SCALES = (1.0, 1e-4, 300.0)
"""of all lengths"""


def touches(a: Shape, b: Shape) -> Callable:
    """The candidates of two shapes and the vjp of a cotangent, from their forms and poses, by lanes."""

    @lanes.compile
    def both(place: tuple, cotangent: tuple) -> tuple:
        touch, pull = jax.vjp(lambda x: tuple(pair_of(type(a), type(b)).collide(*x)), place)
        return touch, pull(cotangent)

    return jax.jit(jax.vmap(both))


def random_places(a: Shape, b: Shape, scale: float, key: Array) -> tuple:
    """Forms and poses of pairs apart, touching and overlapping, turned at random or by quarters."""
    keys = jax.random.split(key, 6)
    like = jnp.zeros((STATES, 3, 3), "float32")
    random, quarters = (
        [turn(k, like) for k in pair]
        for turn, pair in ((random_rotation, keys[:2]), (quarter_turns, keys[2:4]))
    )
    quarter = (jnp.arange(STATES) % 2 == 0)[:, None, None]
    R_WA, R_WB = (jnp.where(quarter, q, r) for q, r in zip(quarters, random, strict=True))
    special = jnp.array([(0, 0, 0), (0.2, 0, 0), (0, 0.2, 0.2), (0, 0, 0.3)], "float32")
    place = special[jax.random.randint(keys[4], (STATES,), 0, len(special))]
    place = jnp.where(quarter[:, 0], place, 0.2 * jax.random.normal(keys[5], (STATES, 3), "float32"))
    forms = [
        jax.tree.map(lambda x: jnp.broadcast_to(scale * x, (STATES, *x.shape)), form_of(shape, "float32"))
        for shape in (a, b)
    ]
    return forms[0], jnp.zeros_like(place), R_WA, forms[1], (scale * place).astype("float32"), R_WB


PAIRS = [(a, b) for i, a in enumerate((Plane(), *SOLIDS)) for b in SOLIDS[max(i - 1, 0) :]]


@pytest.mark.parametrize("target", ["native", "native,-fma"], ids=["fused", "not fused"])
@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda shape: shape.kind())
def test_every_pair_of_shapes_has_a_finite_gradient_by_lanes_in_float32(
    a: Shape, b: Shape, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "-fma" in target and platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("fused operations are always there")
    monkeypatch.setenv("BACKFLIP_TARGET", target)
    both, count = touches(a, b), pair_of(type(a), type(b)).count
    for k, scale in enumerate(SCALES):
        keys = jax.random.split(jax.random.key(k), 4)
        place = random_places(a, b, scale, keys[0])
        shapes = (count,), (count, 3), (count, 3)
        cotangent = tuple(
            jax.random.normal(key, (STATES, *shape), "float32")
            for key, shape in zip(keys[1:], shapes, strict=True)
        )
        finite = jax.vmap(all_finite)(both(place, cotangent))
        assert bool(finite.all()), f"at {scale}: {int((~finite).sum())} of {STATES} not finite"


def hinged_boxes(d: float) -> Model:
    """Two boxes with edges d [m] on a hinge, over the ground."""
    builder = Builder()
    builder.add_ground()
    builder.add_body("a", Box((d, d, d)), position=(0, 0, 3 * d), spin=(1, 2, 3))
    builder.add_body("b", Box((d, d, d)), position=(1.5 * d, 0, 3 * d))
    builder.add_hinge("h", "a", "b", position=(0.75 * d, 0, 3 * d), axis=(0, 1, 0))
    return jax.tree.map(lambda x: x.astype("float32"), builder.build())


def test_boxes_of_a_millimetre_and_of_a_hundred_metres_turn_alike_and_have_gradients_in_float32() -> None:
    spins = []
    for d in (1e-3, 0.1, 100.0):
        model = hinged_boxes(d)
        after, pull = jax.vjp(lambda *x: step(Scheme(0.001), *x), model, rest(model))
        assert bool(all_finite((after, pull(jax.tree.map(jnp.ones_like, after)))))
        spins.append(after.w_WB)
    for spin in spins:
        # joints close within half a step, so that rounding of places shows in velocities
        assert jnp.abs(spin - spins[1]).max() < 1e-2


def test_a_drop_of_water_spins_on_in_float32() -> None:
    builder = Builder(gravity=(0, 0, 0))
    builder.add_body("drop", Sphere(6e-4), spin=(1, 2, 3))
    model = jax.tree.map(lambda x: x.astype("float32"), builder.build())
    after, pull = jax.vjp(lambda *x: step(Scheme(0.001), *x), model, rest(model))
    assert jnp.abs(after.w_WB - rest(model).w_WB).max() < 1e-5
    assert bool(all_finite(pull(jax.tree.map(jnp.ones_like, after))))
