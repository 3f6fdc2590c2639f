"""Reading and replacing by name."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import backflip as bf
from backflip.model.fields import FIELDS, leaf_shapes
from backflip.model.notes import rotation_matrix


@pytest.fixture(scope="module")
def rich() -> bf.Model:
    """Something of everything."""
    b = bf.Builder()
    b.add_body(
        "cart",
        bf.Box((0.4, 0.2, 0.1)),
        mass=2.0,
        position=(0, 0, 1),
        friction=0.3,
        restitution=0.1,
        collide=False,
    )
    b.add_body("pole", mass=1.0, inertia=(0.1, 0.1, 0.01), position=(0, 0, 2))
    b.add_body("ball", density=500.0, position=(3, 0, 2))
    b.add_shape("ball", bf.Sphere(0.1), name="skin")
    b.add_shape("ball", bf.Capsule(0.1, 0.3), name="core", collide=False)
    b.add_body(
        "stone", bf.Hull([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]), position=(6, 0, 2), collide=False
    )
    b.add_ground(friction=0.8)
    b.add_slider("rail", "world", "cart", axis=(1, 0, 0), limits=(-1, 1), collide=True)
    b.add_universal(
        "hip", "cart", "pole", position=(0, 0, 1.5), axes=((1, 0, 0), (0, 1, 0)), limits=((-1, 1), (-1, 1))
    )
    b.add_ball_joint("rope", "pole", "ball", position=(1, 0, 2), frequency=3.0)
    b.add_servo("rail", gain=5.0, max_velocity=1.0, max_torque=10.0)
    b.add_motor("hip", axis=1)
    b.add_force("ball", direction=(0, 0, 1), name="jet")
    b.add_torque("ball", direction=(0, 0, 1), name="wheel")
    b.add_body("bob", bf.Sphere(0.05), position=(9, 0, 2), collide=False)
    b.add_ball_joint("wrist", "stone", "bob", position=(8, 0, 2))
    b.add_hinge("one end", "world", "stone", position=(6, 0, 2), axis=(0, 1, 0), frequency=2.0)
    b.add_sensor(bf.IMU("cart"), bf.JointAngle("hip"))
    return b.build()


PLACES = {
    "mass": "pole", "inertia": "pole",
    "position": "stone", "rotation": "stone", "velocity": "pole", "spin": "pole",
    "density": "core", "friction": "cart", "restitution": "cart",
    "size": "core", "p_BS": "core", "R_BS": "core",
    "vertices": "stone", "p_AJ": "hip", "R_AJ": "hip", "p_BJ": "hip", "R_BJ": "hip",
    "stiffness": "hip", "damping": "rail", "neutral": "hip", "lower": "rail", "upper": "hip",
    "ball_damping": "wrist", "frequency": "rope", "damping_ratio": "rope",
    "gain": "rail", "max_velocity": "rail", "max_torque": "rail", "direction": "jet", "point": "jet",
}  # fmt: skip


def test_every_leaf_but_gravity_and_sensors_goes_by_name(rich):
    leaves = {f.name for f in dataclasses.fields(rich)} - {"topology", "sensors", "gravity"}
    assert leaves == set(PLACES) == set(FIELDS) - {"gravity"}
    assert {name: getattr(rich, name).shape for name in FIELDS} == leaf_shapes(rich.topology)


def _other(field: str, value: np.ndarray) -> np.ndarray:
    """Something else that makes as much sense."""
    if field == "inertia":
        return 1.25 * value + 0.001
    if value.shape[-2:] == (3, 3):
        return value @ rotation_matrix((0.2, 0.3, 0.4))
    return value + 0.25


@pytest.mark.parametrize("field", PLACES)
def test_what_is_replaced_is_what_is_read_and_nothing_else_changes(rich, field):
    name = PLACES[field]
    value = _other(field, np.asarray(bf.get(rich, field, name)))
    changed = bf.replace(rich, **{field: {name: value}})
    np.testing.assert_array_equal(bf.get(changed, field, name), value)
    before, after = getattr(rich, field), getattr(changed, field)
    assert np.sum(before != after) == value.size
    assert all(getattr(rich, f) is getattr(changed, f) for f in FIELDS if f != field)


def test_sizes_are_given_as_the_shape_has_them(rich):
    assert bf.get(rich, "size", "skin").shape == ()
    changed = bf.replace(rich, size={"skin": 0.2, "core": (0.3, 0.4), "cart": (1, 2, 3)})
    np.testing.assert_allclose(changed.size[np.array([0, 1, 2])], [[1, 2, 3], [0.2, 0, 0], [0.3, 0.4, 0]])


def test_one_limit_of_two_can_be_changed():
    b = bf.Builder()
    b.add_body("pole", bf.Sphere(0.1))
    axes, limits = ((1, 0, 0), (0, 1, 0)), ((-1, 1), None)
    b.add_universal("hip", "world", "pole", position=(0, 0, 1), axes=axes, limits=limits)
    changed = bf.replace(b.build(), lower={"hip": (-0.5, 0)})
    np.testing.assert_allclose(changed.lower, [-0.5, 0])


def test_gravity_is_replaced_whole_and_sensors_by_their_leaves(rich):
    changed = bf.replace(rich, gravity=(0, 0, -1.6), sensors={"IMU(cart)": {"position": (0, 0, 0.1)}})
    np.testing.assert_allclose(changed.gravity, [0, 0, -1.6])
    np.testing.assert_allclose(changed.sensors[0]["position"], [0, 0, 0.1])


def test_indices_are_found_by_name(rich):
    assert (rich.body("ball"), rich.joint("hip"), rich.shape("ground")) == (2, 1, 4)
    assert (rich.actuator("hip"), rich.sensor("JointAngle(hip)")) == (1, 1)
    assert rich.observation_size == bf.observe(rich, bf.rest(rich)).shape[0] == 8


def test_a_start_is_replaced_by_body(rich):
    state = bf.rest(rich)
    pushed = bf.replace(rich, state, v_WB={"ball": (1, 2, 3)}, w_WB=jnp.ones((5, 3)))
    np.testing.assert_allclose(pushed.v_WB[:4], [[0, 0, 0], [0, 0, 0], [1, 2, 3], [0, 0, 0]])
    assert pushed.w_WB.all() and pushed.p_WB is state.p_WB


def test_it_works_under_vmap_and_grad(rich):
    def mass(m, mu):
        changed = bf.replace(rich, mass={"pole": m}, friction={"ground": mu, "cart": mu})
        return jnp.sin(changed.mass).sum() + changed.friction.sum() ** 2

    check_grads(mass, (jnp.asarray(1.5), jnp.asarray(0.4)), order=1, modes=("rev",), eps=1e-5)
    assert jax.vmap(mass)(jnp.arange(1.0, 4.0), jnp.ones(3)).shape == (3,)


MISTAKES = {
    "field": ({"mas": {"pole": 1}}, 'unknown field "mas"; did you mean "mass"'),
    "name": (
        {"mass": {"poel": 1}},
        'mass: unknown body "poel"; did you mean "pole"? known are: cart, pole, ball',
    ),
    "shape for a body": ({"mass": {"skin": 1}}, 'unknown body "skin"'),
    "shape": ({"mass": {"pole": (1, 2)}}, 'mass of "pole" has shape (2,) but needs ()'),
    "whole": ({"mass": (1, 2)}, "mass has shape (2,) but needs (5,)"),
    "words": ({"mass": {"pole": "heavy"}}, "mass of \"pole\" is 'heavy'"),
    "two angles": ({"stiffness": {"hip": 1.0}}, 'stiffness of "hip" has shape () but needs (2,)'),
    "gravity": ({"gravity": {"pole": 1}}, "gravity belongs to no name"),
    "mass of density": ({"mass": {"ball": 1}}, 'body "ball" has its mass from the density'),
    "density of mass": ({"density": {"cart": 1}}, 'body "cart", whose mass is given'),
    "no friction": ({"friction": {"skin": 1}}, 'shape "skin" was described without friction'),
    "not a servo": ({"gain": {"hip": 1}}, 'unknown servo "hip"; known are: rail'),
    "rigid": ({"frequency": {"hip": 1}}, 'joint "hip" is rigid'),
    "no coordinate": ({"damping": {"wrist": 1}}, "no coordinates and so no damping; change its ball_damping"),
    "a hinge's spin": ({"ball_damping": {"rail": 1}}, 'joint "rail" is a slider; change its damping'),
    "soft spring": ({"stiffness": {"one end": 1}}, 'joint "one end" is soft and has no springs'),
    "placed by a joint": ({"position": {"pole": (0, 0, 0)}}, 'body "pole" is placed by its joint "hip"'),
    "no point": ({"point": {"wheel": (0, 0, 0)}}, 'torque "wheel" acts on all of its body'),
    "no limits": ({"lower": {"one end": 1}}, 'joint "one end" has no limits to change'),
    "sensor leaf": ({"sensors": {"IMU(cart)": {"place": 1}}}, 'unknown leaf of sensor IMU(cart) "place"'),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_name_the_culprit_and_the_nearest_name(rich, mistake):
    changes, words = MISTAKES[mistake]
    with pytest.raises(ValueError, match=re.escape(words)):
        bf.replace(rich, **changes)


def test_a_start_says_what_is_wrong_too(rich):
    state = bf.rest(rich)
    for changes, words in (
        ({"v_WB": {"bal": (1, 0, 0)}}, 'v_WB: unknown body "bal"; did you mean "ball"'),
        ({"mass": {"ball": 1}}, 'unknown field "mass"'),
        ({"force": {"ball": 1}}, "force belongs to no name"),
        ({"v_WB": {"ball": 1.0}}, "needs (3,)"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            bf.replace(rich, state, **changes)
