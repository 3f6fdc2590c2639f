"""Whatever the Builder is given, it answers with a finite Model or a ValueError that names the culprit."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import backflip as bf
from backflip.model import bodies_of

weigh = jax.jit(bodies_of)

NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 0.5, 1e-46, 1e-30, 1e-12, 1e12, 1e30, 1e39, 1e200, 10**400, -(10**400)]),
    st.floats(),
    st.integers(),
)
ODD = st.sampled_from(
    [
        None, True, np.True_, "", "a", "b", "knee", "world", b"a", 1j, 0.0, np.datetime64("2020"),
        [], (), {}, {"a": 1}, set(), object(), int, np.zeros((0, 3)), np.array("a"), np.array([True] * 3),
        np.eye(3), np.array([1j] * 3), np.array(["1", "2", "3"]), [1, [2]], np.float16(1), bf.Sphere,
        bf.Sphere(0.1), Ellipsis, np.array([None, 1, 2]), float("nan"), float("inf"), jax.random.key(0),
    ]
)  # fmt: skip
VECTORS = st.lists(st.one_of(NUMBERS, ODD), max_size=4).flatmap(lambda x: st.sampled_from([x, tuple(x)]))
NONSENSE = st.one_of(NUMBERS, ODD, VECTORS, st.lists(VECTORS, max_size=3))

CALLS = {
    "add_body": dict(
        name="c", shape=bf.Sphere(0.1), mass=1.0, density=None, inertia=None, position=(0, 0, 0),
        rotation=None, velocity=(0, 0, 0), spin=(0, 0, 0), friction=None, restitution=None,
        group="g", collide=True,
    ),
    "add_shape": dict(
        body="a", shape=bf.Sphere(0.1), name="s", position=(0, 0, 0), rotation=None, density=None,
        friction=None, restitution=None, collide=False,
    ),
    "add_hinge": dict(
        name="h", parent="b", child="a", position=(0, 0, 0), axis=(0, 1, 0), limits=None, stiffness=0.0,
        damping=0.0, neutral=0.0, frequency=None, damping_ratio=1.0, collide=False,
    ),
    "add_universal": dict(
        name="u", parent="world", child="b", position=(0, 0, 0), axes=((1, 0, 0), (0, 1, 0)),
        limits=(None, None), stiffness=(0, 0), damping=(0, 0), neutral=(0, 0), frequency=3.0,
    ),
    "add_ball_joint": dict(name="j", parent="world", child="a", position=(0, 0, 0), damping=0.0),
    "add_servo": dict(joint="knee", gain=1.0, max_velocity=1.0, max_torque=1.0, axis=0, name="s"),
    "add_motor": dict(joint="knee", axis=0, name="m"),
    "add_force": dict(body="a", direction=(1, 0, 0), position=(0, 0, 0), name="f"),
    "add_torque": dict(body="a", direction=(1, 0, 0), name="t"),
    "ignore_contact": dict(body="a", other="b"),
}  # fmt: skip
SENSORS = {
    bf.JointAngle: dict(joint="knee", name="q"),
    bf.Position: dict(body="a", relative_to="b"),
    bf.IMU: dict(body="a", position=(0, 0, 0)),
    bf.Distance: dict(body="a", target=(0, 0, 0), position=(0, 0, 0)),
    bf.ServoTorque: dict(servo="knee"),
    bf.ContactForce: dict(shape="a"),
}
SHAPES = {bf.Sphere: ("radius",), bf.Capsule: ("radius", "length"), bf.Box: ("size",), bf.Hull: ("points",)}


def base(**options) -> bf.Builder:
    b = bf.Builder(**options)
    b.add_body("a", bf.Sphere(0.1), mass=1.0, group="g")
    b.add_body("b", bf.Sphere(0.1), position=(0, 0, -1), group="g")
    b.add_hinge("knee", "a", "b", position=(0, 0, 0), axis=(0, 1, 0))
    return b


def answer(describe) -> None:
    """A finite Model, in float32 too, or a ValueError in two parts: what is wrong, and what to do."""
    try:
        model = describe().build()
    except ValueError as error:
        assert ":" in str(error) and ";" in str(error), error
        return
    hash(model.topology)
    with np.errstate(over="ignore"):
        leaves = [np.float32(leaf) for leaf in jax.tree.leaves(model)]
    assert all(np.isfinite(leaf).all() for leaf in leaves)
    bodies = jax.tree.map(np.float32, weigh(model))
    assert all(np.isfinite(leaf).all() for leaf in bodies)
    assert (bodies.mass > 0).all() and (np.linalg.det(bodies.inertia.astype(float)) > 0).all()


quick = settings(max_examples=250, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@quick
@given(st.data())
def test_any_call_with_one_argument_of_nonsense(data):
    method = data.draw(st.sampled_from(sorted(CALLS)))
    argument = data.draw(st.sampled_from(sorted(CALLS[method])))
    value = data.draw(NONSENSE)

    def describe():
        b = base()
        getattr(b, method)(**(CALLS[method] | {argument: value}))
        return b

    answer(describe)


@quick
@given(st.data())
def test_any_sensor_with_one_argument_of_nonsense(data):
    kind = data.draw(st.sampled_from(list(SENSORS)))
    argument = data.draw(st.sampled_from(sorted(SENSORS[kind])))
    value = data.draw(NONSENSE)

    def describe():
        b = base()
        b.add_servo("knee", gain=1.0, max_velocity=1.0, max_torque=1.0)
        b.add_sensor(kind(**(SENSORS[kind] | {argument: value})))
        return b

    answer(describe)


@settings(quick, max_examples=100)
@given(st.data())
def test_any_shape_with_measures_of_nonsense(data):
    kind = data.draw(st.sampled_from(list(SHAPES)))
    measures = {name: data.draw(NONSENSE) for name in SHAPES[kind]}

    def describe():
        b = base()
        b.add_shape("a", kind(**measures), collide=False)
        return b

    answer(describe)


@pytest.mark.parametrize(
    "options", [{"gravity": 1j}, {"gravity": [[0, 0, 1]]}, {"planar": np.ones(2)}], ids=str
)
def test_a_builder_of_nonsense(options):
    with pytest.raises(ValueError, match=r"Builder: (gravity|planar) is .*; give"):
        base(**options).build()


def test_known_culprits():
    for change, words in (
        ({"mass": 10**400}, "mass is"),
        ({"mass": 1e39}, "mass is 1e.39"),
        ({"mass": 1e-46}, "mass is 1e-46"),
        ({"mass": np.datetime64("2020")}, "mass is"),
        ({"restitution": 1j}, "restitution is 1j"),
        ({"rotation": (1e200, 0, 0)}, "rotation is"),
    ):
        b = base()
        b.add_body(**(CALLS["add_body"] | change))
        with pytest.raises(ValueError, match=f'"c": {words}'):
            b.build()
    b = base()
    b.add_motor("knee", axis=0.0)
    with pytest.raises(ValueError, match=r'motor "knee": axis 0.0'):
        b.build()
    with pytest.raises(ValueError, match='add_hold of body "a"'):
        base(planar=True).add_hold("a", 5)
    b = base()
    b.add_slider("rail", "world", "a", axis=np.array([0, 0, 1]), limits=np.array([-1, 1]))
    assert b.build().topology.limits == (1,)
