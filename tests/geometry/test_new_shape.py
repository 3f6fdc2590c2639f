"""A shape from outside the package: an ellipsoid, described here, collides, rolls, weighs and is drawn."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from convex import rates_of, shifted, tangent
from scenes import compile_fast
from scipy.spatial.transform import Rotation

import backflip as bf
from backflip import lanes
from backflip.geometry import KINDS, Bulk, Polytope, Shape, form_of, kind_order, pair_of
from backflip.model import bodies_of

N = 60
STONE = bf.Hull(0.4 * np.random.default_rng(3).normal(size=(9, 3)))


@dataclass(frozen=True)
class Ellipsoid(bf.Shape):
    """Of half axes `radii` (3,) [m] along x, y, z."""

    radii: tuple[float, float, float]

    def pack(self):
        return self.radii

    def check(self):
        if len(self.radii) != 3 or min(self.radii) <= 0:
            raise ValueError(f"radii are {self.radii}; give three positive lengths")

    @classmethod
    def bulk(cls, form):
        squares = form**2
        return Bulk(
            4 / 3 * np.pi * jnp.prod(form), jnp.zeros_like(form), jnp.diag(squares.sum() - squares) / 5
        )

    @classmethod
    def support(cls, form, n):
        reach = form * n
        return form * reach / jnp.sqrt(jnp.sum(reach * reach))


def forms(kind: type[Shape], rng: np.random.Generator) -> np.ndarray:
    if kind is bf.Hull:
        return STONE.vertices + 0.02 * rng.normal(size=(N, *STONE.vertices.shape))
    numbers = {bf.Plane: 0, bf.Sphere: 1, bf.Capsule: 2, bf.Cylinder: 2}.get(kind, 3)
    return rng.uniform(0.2, 0.8, (N, 3)) * (np.arange(3) < numbers)


def scene_of(kind: type[Shape]) -> list[np.ndarray]:
    """form_a, p_WA, R_WA of the kind, form_b, p_WB, R_WB of ellipsoids, apart and overlapping."""
    rng = np.random.default_rng(5)
    turns = [Rotation.random(N, random_state=k).as_matrix() for k in (1, 2)]
    place = 0.7 * rng.normal(size=(N, 3))
    return [forms(kind, rng), np.zeros((N, 3)), turns[0], forms(Ellipsoid, rng), place, turns[1]]


def collider(kind: type[Shape]):
    """The pair as a function of six arrays."""
    collide = pair_of(kind, Ellipsoid).collide

    def of_arrays(form_a, *rest):
        return collide(Polytope(form_a, STONE.outline) if kind is bf.Hull else form_a, *rest)

    return of_arrays


def held_apart(kind: type[Shape], row: list, n: jax.Array) -> jax.Array:
    """How far planes square to n hold a pair apart [m]: never more than their signed distance."""
    form_a, p_WA, R_WA, form_b, p_WB, R_WB = row
    form_a = Polytope(form_a, STONE.outline) if kind is bf.Hull else form_a
    own = 0 if kind.endless else n @ R_WA @ kind.support(form_a, n @ R_WA)
    return n @ (p_WB - p_WA) + n @ R_WB @ Ellipsoid.support(form_b, -n @ R_WB) - own


@pytest.mark.parametrize("kind", [*KINDS, Ellipsoid], ids=lambda kind: kind.kind())
def test_an_ellipsoid_collides_with_every_shape_exactly_and_so_does_its_gradient(kind):
    scene = scene_of(kind)
    rates = rates_of(scene)
    both = compile_fast(lambda x, dx: jax.jvp(jax.vmap(collider(kind)), x, dx))

    def at(h):
        moved = shifted(scene, rates, h)
        return [
            [np.asarray(x[:, 0]) for x in part] for part in both(tuple(moved), tuple(tangent(moved, rates)))
        ]

    (gap, normal, point), slopes = at(0.0)
    check_gap(kind, scene, gap, normal)
    up, down = at(1e-6)[0], at(-1e-6)[0]
    bends = [
        np.abs(u + d - 2 * x).reshape(N, -1) for u, d, x in zip(up, down, (gap, normal, point), strict=True)
    ]
    smooth = np.max(np.concatenate(bends, -1), -1) < 1e-8
    assert smooth.mean() > 0.9
    for ours, u, d in zip(slopes, up, down, strict=True):
        np.testing.assert_allclose(ours[smooth], ((u - d) / 2e-6)[smooth], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [*KINDS, Ellipsoid], ids=lambda kind: kind.kind())
def test_its_gradients_are_finite_by_lanes_in_float32(kind):
    scene = [jnp.asarray(x, "float32") for x in scene_of(kind)]

    @jax.jit
    @jax.vmap
    @lanes.compile
    def both(*x):
        touch, pull = jax.vjp(lambda *x: tuple(collider(kind)(*x)), *x)
        return touch, pull(jax.tree.map(jnp.ones_like, touch))

    for scale in (1.0, 0.0, 1e-20):
        moved = [*scene[:4], scale * scene[4], scene[5] if scale else scene[2]]
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(both(*moved)))
    small = [x if k in (2, 5) else 1e-4 * x for k, x in enumerate(scene)]
    assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(both(*small)))


def check_gap(kind, scene, gap, normal):
    """The gap is what its normal holds apart, and no direction nearby or on a grid holds more."""
    rows = [jnp.asarray(x) for x in scene]
    around = np.random.default_rng(0).normal(size=(400, 3))
    around = np.concatenate([around, 1e-2 * around]) / np.linalg.norm(around[0])

    @compile_fast
    @jax.vmap
    def both(row, n):
        others = jnp.concatenate([around[:400], n + around[400:]])
        others = others / jnp.linalg.norm(others, axis=-1, keepdims=True)
        return held_apart(kind, row, n), jax.vmap(lambda m: held_apart(kind, row, m))(others).max()

    own, best = (np.asarray(x) for x in both(rows, jnp.asarray(normal)))
    np.testing.assert_allclose(gap, own, atol=1e-9)
    shallow = gap > -0.15
    assert shallow.sum() > N / 3 and (gap < 0).any() and (gap > 0).any()
    if not kind.endless:
        assert (gap > best - 1e-9)[shallow].all()


def settle(model: bf.Model, state: bf.State, steps: int, dt: float = 0.01) -> bf.State:
    """The states over time."""

    @jax.jit
    def run(state):
        def turn(state, _):
            state = bf.step(bf.Scheme(dt), model, state)
            return state, state

        return jax.lax.scan(turn, state, length=steps)[1]

    return run(state)


def on_ground(shape: Shape, **options) -> bf.Model:
    b = bf.Builder()
    b.add_ground(friction=0.8)
    b.add_body("egg", shape, **options)
    return b.build()


def test_it_has_the_mass_and_inertia_of_an_ellipsoid():
    model = on_ground(Ellipsoid((0.1, 0.2, 0.3)), density=500.0, position=(0, 0, 1))
    bodies = bodies_of(model)
    mass = 500 * 4 / 3 * np.pi * 0.1 * 0.2 * 0.3
    np.testing.assert_allclose(bodies.mass, [mass], rtol=1e-12)
    np.testing.assert_allclose(bodies.inertia[0], mass / 5 * np.diag([0.13, 0.10, 0.05]), atol=1e-12)


def test_it_rests_on_its_flat_side():
    model = on_ground(Ellipsoid((0.3, 0.2, 0.1)), position=(0, 0, 0.1))
    states = settle(model, bf.rest(model), 100)
    np.testing.assert_allclose(states.p_WB[:, 0], np.tile([0, 0, 0.1], (100, 1)), atol=1e-9)
    np.testing.assert_allclose(states.w_WB, 0, atol=1e-9)


def test_with_equal_half_axes_it_rolls_as_a_sphere_does():
    options = {"position": (0, 0, 0.1), "velocity": (1, 0, 0), "spin": (0, 0, 2)}
    models = [on_ground(shape, **options) for shape in (Ellipsoid((0.1, 0.1, 0.1)), bf.Sphere(0.1))]
    egg, ball = (settle(model, bf.rest(model), 100) for model in models)
    for name in ("p_WB", "R_WB", "v_WB", "w_WB"):
        np.testing.assert_allclose(getattr(egg, name), getattr(ball, name), atol=1e-9)
    assert ball.v_WB[-1, 0, 0] == pytest.approx(5 / 7, abs=1e-2)


def crowd() -> bf.Model:
    """An ellipsoid that flies into a box and a sphere, without gravity."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("egg", Ellipsoid((0.3, 0.2, 0.1)), velocity=(2, 0.1, 0), spin=(1, 2, 3), restitution=0.5)
    b.add_body("box", bf.Box((0.2, 0.3, 0.4)), position=(0.6, 0.1, 0.05), rotation=(0.3, 0.2, 0.1))
    b.add_body("ball", bf.Sphere(0.15), position=(-0.6, 0.02, 0), velocity=(3, 0, 0))
    return b.build()


def test_its_collisions_conserve_momentum_and_part_the_bodies():
    model = crowd()
    start = bf.rest(model)
    states = settle(model, start, 60)
    last = jax.tree.map(lambda x: x[-1], states)
    assert np.linalg.norm(last.v_WB[1]) > 0.3 and last.v_WB[2, 0] < 2.5
    np.testing.assert_allclose(bf.momentum(model, last), bf.momentum(model, start), atol=1e-9)
    # impulses act where bodies are at the instant of impact: about the origin of W to first order in dt
    spin = [np.asarray(bf.angular_momentum(model, state)) for state in (start, last)]
    assert np.linalg.norm(spin[1] - spin[0]) < 0.02 * np.linalg.norm(spin[0])


def test_the_gradient_of_its_steps_is_that_of_central_differences():
    model = crowd()
    start = bf.rest(model)

    @jax.jit
    def after(size, velocity):
        m = replace(model, size=model.size.at[0].set(size))
        state = replace(start, v_WB=start.v_WB.at[0].set(velocity))
        for _ in range(20):
            state = bf.step(bf.Scheme(0.01), m, state)
        return jnp.sum(jnp.sin(state.p_WB)) + jnp.sum(state.v_WB) + state.w_WB[0, 0]

    at = (model.size[0], start.v_WB[0])
    ours, h = jnp.concatenate(jax.grad(after, (0, 1))(*at)), 1e-6
    steps = h * np.eye(6).reshape(6, 2, 3)
    theirs = [(after(at[0] + a, at[1] + b) - after(at[0] - a, at[1] - b)) / (2 * h) for a, b in steps]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_it_is_drawn_in_pictures_and_on_the_page(tmp_path):
    model = on_ground(Ellipsoid((0.3, 0.2, 0.1)), position=(0, 0, 0.1))
    states = settle(model, bf.rest(model), 2)
    page = bf.save_replay(tmp_path / "egg.html", model, states, dt=0.01)
    assert '"kind": "surface"' in page.read_text("utf-8")
    from PIL import Image

    picture = np.asarray(
        Image.open(bf.save_frames(tmp_path / "egg.png", model, states, dt=0.01)).convert("RGB")
    )
    orange = (picture[..., 0] > 1.5 * picture[..., 2]).mean()
    assert 0.02 < orange < 0.5


def test_rays_meet_it_where_they_should_and_its_block_holds_it():
    size = np.array([0.3, 0.2, 0.1])
    o, d = np.array([[-2.0], [0], [0]], np.float32), np.array([[1.0], [0], [0]], np.float32)
    t, n = Ellipsoid.hit(size, o, d)
    np.testing.assert_allclose(t, [1.7], atol=5e-3)
    np.testing.assert_allclose(n[:, 0], [-1, 0, 0], atol=0.2)
    low, high = Ellipsoid.block(size)
    np.testing.assert_allclose([low, high], [-size, size], atol=1e-6)
    assert Ellipsoid.reach(form_of(Ellipsoid((0.3, 0.2, 0.1)))) == pytest.approx(0.3, rel=1e-2)


def test_its_mistakes_are_named_as_those_of_any_shape():
    with pytest.raises(ValueError, match=r'shape "egg": radii are .*; give three positive lengths'):
        on_ground(Ellipsoid((0.3, 0.2, 0)), position=(0, 0, 1))


def test_a_shape_that_does_not_say_how_far_it_reaches_is_refused_by_name():
    @dataclass(frozen=True)
    class Fog(bf.Shape):
        radius: float

        def pack(self):
            return (self.radius, 0.0, 0.0)

    b = bf.Builder()
    b.add_ground()
    b.add_body("fog", Fog(0.1), mass=1.0, inertia=(1, 1, 1), position=(0, 0, 1))
    with pytest.raises(ValueError, match='"fog" does not say how far it reaches'):
        b.build()


def test_a_general_pair_gives_one_contact_and_a_half_space_those_of_a_plane():
    assert pair_of(Ellipsoid, Ellipsoid).count == pair_of(bf.Box, Ellipsoid).count == 1
    assert pair_of(Floor, bf.Box) is pair_of(bf.Plane, bf.Box)


@dataclass(frozen=True)
class Floor(bf.Shape):
    """A half-space from outside."""

    endless: ClassVar[bool] = True
    measures: ClassVar[int] = 0

    def pack(self):
        return (0.0, 0.0, 0.0)


def test_an_endless_shape_from_outside_carries_a_sphere():
    b = bf.Builder()
    b.add_shape("world", Floor(), name="floor")
    b.add_body("ball", bf.Sphere(0.1), position=(0, 0, 0.1))
    model = b.build()
    states = settle(model, bf.rest(model), 20)
    np.testing.assert_allclose(states.p_WB[-1, 0], [0, 0, 0.1], atol=1e-4)


def test_endless_kinds_come_first_and_known_kinds_stay_in_order():
    assert sorted([Ellipsoid, *reversed(KINDS), Floor], key=kind_order) == [
        bf.Plane, Floor, bf.Sphere, bf.Capsule, bf.Box, bf.Cylinder, bf.Hull, Ellipsoid
    ]  # fmt: skip


def test_a_pair_that_cannot_be_names_its_kinds():
    with pytest.raises(ValueError, match="a plane and a floor: two endless shapes never touch"):
        pair_of(bf.Plane, Floor)
    with pytest.raises(ValueError, match=r"a sphere and a floor: .*; give the floor first"):
        pair_of(bf.Sphere, Floor)


@dataclass(frozen=True)
class Drop(bf.Shape):
    """A ball of `radius`; its other number, `shift`, may be 0 and negative."""

    shift: float
    radius: float
    measures: ClassVar[int] = 2

    def pack(self):
        return (self.shift, self.radius, 0.0)

    def check(self):
        if self.radius <= 0:
            raise ValueError(f"radius is {self.radius}; give a positive length")

    @classmethod
    def bulk(cls, form):
        return bf.Sphere.bulk(form[1:])

    @classmethod
    def support(cls, form, n):
        return form[1] * n


def test_a_size_that_holds_a_zero_is_read_replaced_and_checked():
    b = bf.Builder()
    b.add_body("drop", Drop(0.0, 0.2))
    model = b.build()
    bf.check(model)
    np.testing.assert_allclose(bf.get(model, "size", "drop"), [0, 0.2])
    changed = bf.replace(model, size={"drop": (-0.1, 0.3)})
    np.testing.assert_allclose(changed.size, [[-0.1, 0.3, 0]])
    bf.check(changed)


def test_a_positive_size_is_demanded_where_a_shape_has_no_check_of_its_own():
    b = bf.Builder()
    b.add_body("can", bf.Cylinder(0.1, 0.2))
    with pytest.raises(ValueError, match='size of shape "can" is 0; give positive lengths'):
        bf.check(bf.replace(b.build(), size={"can": (0.1, 0.0)}))


def test_what_a_shape_has_stored_about_itself_is_no_number_of_it():
    @dataclass(frozen=True)
    class Ball(Drop):
        check = bf.Shape.check

        @cached_property
        def name(self) -> str:
            return "ball"

    shape = Ball(0.1, 0.2)
    assert shape.name == "ball"
    shape.check()


@pytest.mark.parametrize(
    "packed, measures, mistake",
    [
        ((0.1, 0.1), 2, r"pack\(\) is \(0.1, 0.1\); give 3 finite numbers"),
        ((0.1, np.nan, 0.0), 2, r"pack\(\) is .*nan.*; give 3 finite numbers"),
        ("abc", 2, r"pack\(\) is 'abc'; give 3 finite numbers"),
        ((0.1, 0.1, 0.1), 2, r"pack\(\) is .* but its class has measures = 2; give 0 for the rest"),
        ((0.1, 0.1, 0.1), 4, r"its class has measures = 4; give 0, 1, 2 or 3"),
    ],
)
def test_a_size_that_is_not_three_numbers_is_refused_by_name(packed, measures, mistake):
    kind = type("Odd", (Drop,), {"pack": lambda self: packed, "measures": measures})
    b = bf.Builder()
    b.add_body("drop", kind(0.1, 0.1))
    with pytest.raises(ValueError, match=f'shape "drop": {mistake}'):
        b.build()
