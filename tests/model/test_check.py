"""Every mistake is a ValueError that names the culprit and says what to do."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf

NAN = float("nan")
BALL = bf.Sphere(0.1)


def two(**options) -> bf.Builder:
    b = bf.Builder(**options)
    b.add_body("upper", BALL)
    b.add_body("lower", BALL, position=(0, 0, -1))
    return b


def hinge(b: bf.Builder, name: str = "knee", child: str = "lower", **options) -> bf.Builder:
    b.add_hinge(name, "upper", child, **({"position": (0, 0, 0), "axis": (0, 1, 0)} | options))
    return b


def servo(b: bf.Builder, joint: str = "knee", **options) -> bf.Builder:
    b.add_servo(joint, **({"gain": 1.0, "max_velocity": 1.0, "max_torque": 1.0} | options))
    return b


def body(*args, **options) -> bf.Builder:
    b = bf.Builder()
    b.add_body("torso", *args, **options)
    return b


def also(b: bf.Builder, method: str, *args, **options) -> bf.Builder:
    getattr(b, method)(*args, **options)
    return b


def universal(**options) -> bf.Builder:
    given = {"position": (0, 0, 0), "axes": ((1, 0, 0), (0, 1, 0))} | options
    return also(two(), "add_universal", "hip", "upper", "lower", **given)


MISTAKES = {
    "zero mass": (lambda: body(BALL, mass=0.0), "torso.*mass is 0.*positive mass in kg"),
    "negative mass": (lambda: body(BALL, mass=-1), "torso.*mass is -1.*positive"),
    "mass is nan": (lambda: body(BALL, mass=NAN), "torso.*mass is nan.*positive"),
    "mass is a string": (lambda: body(BALL, mass="1"), "torso.*mass is '1'.*positive"),
    "mass is a truth": (lambda: body(BALL, mass=np.True_), "torso.*mass is .*True.*positive"),
    "mass is a list": (lambda: body(BALL, mass=[1.0]), "torso.*mass.*positive"),
    "mass and density": (lambda: body(BALL, mass=1, density=1), "torso.*both mass and density.*one of them"),
    "zero density": (lambda: body(BALL, density=0.0), "torso.*density is 0.*positive"),
    "zero radius": (lambda: body(bf.Sphere(0.0)), "torso.*radius is 0.*positive length"),
    "negative size": (lambda: body(bf.Box((1, -1, 1))), "torso.*size is -1.*positive length"),
    "nan length": (lambda: body(bf.Capsule(0.1, NAN)), "torso.*length is nan.*positive length"),
    "two edges": (lambda: body(bf.Box((1, 1))), r"torso.*size is \(1, 1\).*3 finite numbers"),
    "one edge": (lambda: body(bf.Box(1.0)), "torso.*size is 1.0.*3 finite numbers"),
    "radius is a string": (lambda: body(bf.Sphere("big")), "torso.*radius is 'big'.*positive length"),
    "shape is a string": (lambda: body("sphere"), "torso.*'sphere' is not a shape.*Sphere"),
    "shape is a class": (lambda: body(bf.Sphere), "torso.*is not a shape.*Sphere"),
    "plane on a body": (lambda: body(bf.Plane()), "torso.*plane is endless.*world"),
    "no shape": (lambda: body(), "torso.*no shape.*mass and inertia"),
    "no mass": (lambda: body(inertia=(1, 1, 1)), "torso.*inertia is given without mass.*give the mass"),
    "inertia not positive": (lambda: body(mass=1, inertia=(1, 1, 0)), "torso.*principal value 0.*positive"),
    "inertia no triangle": (lambda: body(mass=1, inertia=(1, 1, 3)), "torso.*triangle.*1 . 1 < 3.*add up"),
    "inertia lopsided": (lambda: body(mass=1, inertia=np.eye(3) + np.eye(3, k=1) / 9), "torso.*symmetric"),
    "inertia of four": (lambda: body(mass=1, inertia=(1, 1, 1, 1)), "torso.*inertia is.*kg m²"),
    "flat position": (lambda: body(BALL, position=(0, 0)), r"torso.*position is \(0, 0\).*3 finite numbers"),
    "no position": (lambda: body(BALL, position=None), "torso.*position is None.*3 finite numbers"),
    "word position": (lambda: body(BALL, position="here"), "torso.*position is 'here'.*3 finite numbers"),
    "nan velocity": (lambda: body(BALL, velocity=(0, NAN, 0)), "torso.*velocity.*3 finite numbers"),
    "sheared rotation": (lambda: body(BALL, rotation=np.eye(3) * 2), "torso.*not a rotation.*orthonormal"),
    "mirrored rotation": (lambda: body(BALL, rotation=np.diag([1, 1, -1])), "torso.*right-handed"),
    "word rotation": (lambda: body(BALL, rotation="up"), "torso.*rotation is 'up'.*rotation vector"),
    "number for a name": (lambda: also(bf.Builder(), "add_body", 3, BALL), "body 3.*non-empty string"),
    "body named world": (lambda: also(bf.Builder(), "add_body", "world", BALL), "world.*another name"),
    "duplicate body": (lambda: also(two(), "add_body", "upper", BALL), "upper.*twice.*own name"),
    "duplicate joint": (lambda: hinge(hinge(two())), "knee.*twice.*own name"),
    "duplicate servo": (lambda: servo(servo(hinge(two()))), "knee.*twice.*own name"),
    "unknown body": (lambda: hinge(two(), child="foot"), 'knee.*unknown body "foot".*lower, upper, world'),
    "no child": (lambda: hinge(two(), child=None), "knee.*unknown body None.*lower, upper, world"),
    "shape on nobody": (lambda: also(two(), "add_shape", "foot", BALL), 'unknown body "foot".*known are'),
    "unknown joint": (lambda: servo(two(), "hip"), 'hip.*unknown joint "hip".*none'),
    "unknown in ignore": (lambda: also(two(), "ignore_contact", "upper", "x"), 'ignore_contact.*"x".*known'),
    "unknown sensed": (lambda: also(two(), "add_sensor", bf.IMU("head")), 'IMU.*"head".*known are'),
    "unknown touched": (lambda: also(two(), "add_sensor", bf.ContactForce("x")), 'ContactForce.*"x".*known'),
    "no sensor": (
        lambda: also(two(), "add_sensor", "upper"),
        "add_sensor.*'upper' is not a sensor.*give one",
    ),
    "joint with itself": (lambda: hinge(two(), child="upper"), "knee.*upper.*itself.*two different"),
    "world as child": (lambda: hinge(two(), child="world"), "knee.*world.*parent"),
    "zero axis": (lambda: hinge(two(), axis=(0, 0, 0)), "knee.*zero length.*non-zero axis"),
    "word axis": (lambda: hinge(two(), axis="y"), "knee.*axis is 'y'.*3 finite numbers"),
    "lo above hi": (lambda: hinge(two(), limits=(1, -1)), "knee.*lo 1.0 > hi -1.0.*swap"),
    "one limit": (lambda: hinge(two(), limits=0.5), "knee.*limits is 0.5.*2 finite numbers"),
    "limits in degrees": (lambda: hinge(two(), limits=(-90, 90)), "knee.*beyond ±π.*narrow"),
    "negative spring": (lambda: hinge(two(), stiffness=-1.0), "knee.*stiffness.*-1.*not negative"),
    "spring is a word": (lambda: hinge(two(), stiffness="a"), "knee.*stiffness.*'a'.*not negative"),
    "nan neutral": (lambda: hinge(two(), neutral=NAN), "knee.*neutral is nan.*finite"),
    "zero frequency": (lambda: hinge(two(), frequency=0.0), "knee.*frequency is 0.*None for rigid"),
    "slanting universal": (
        lambda: universal(axes=((1, 0, 0), (1, 1, 0))),
        "hip.*right angles.*perpendicular",
    ),
    "universal, one spring": (
        lambda: universal(stiffness=1.0),
        r"hip.*stiffness is \(1.0,\).*2, one for each",
    ),
    "universal, one limit": (lambda: universal(limits=(-1, 1)), "hip.*limits is -1.*2 finite numbers"),
    "servo on a weld": (
        lambda: servo(also(two(), "add_fixed", "weld", "upper", "lower"), "weld"),
        'servo "weld".*fixed.*no axis.*hinge',
    ),
    "motor on a ball": (
        lambda: also(
            also(two(), "add_ball_joint", "b", "upper", "lower", position=(0, 0, 0)), "add_motor", "b"
        ),
        'motor "b".*ball.*no axis.*hinge',
    ),
    "angle of a weld": (
        lambda: also(also(two(), "add_fixed", "w", "upper", "lower"), "add_sensor", bf.JointAngle("w")),
        'JointAngle.*"w" has no coordinate.*sense its bodies',
    ),
    "no gain": (lambda: servo(hinge(two()), gain=None), "knee.*gain is None.*positive"),
    "axis too many": (lambda: servo(hinge(two()), axis=1), "knee.*axis 1.*count from 0"),
    "axis is a word": (lambda: servo(hinge(two()), axis="y"), "knee.*axis y.*count from 0"),
    "aimless force": (
        lambda: also(two(), "add_force", "upper", direction=(0, 0, 0)),
        "upper force.*non-zero",
    ),
    "force on the world": (
        lambda: also(two(), "add_force", "world", direction=(1, 0, 0)),
        "world.*known are",
    ),
    "bouncy": (lambda: also(two(), "add_ground", restitution=1.1), "ground.*restitution is 1.1.*0 to 1"),
    "negative friction": (lambda: also(two(), "add_ground", friction=-0.1), "ground.*friction.*not negative"),
    "gravity is a number": (lambda: two(gravity=-9.81), "gravity is -9.81.*3 finite numbers"),
    "loop with a spring": (
        lambda: hinge(hinge(two()), "again", position=(0, 0, -1), stiffness=1.0),
        "again.*closes a loop.*another joint",
    ),
    "soft with a damper": (lambda: hinge(two(), frequency=9.0, damping=1.0), "knee.*is soft.*another joint"),
    "planar hinge": (lambda: hinge(two(planar=True), axis=(0, 1, 0.1)), r"knee.*planar.*\(0, 1, 0\)"),
    "planar slider": (
        lambda: also(two(planar=True), "add_slider", "rail", "upper", "lower", axis=(0, 1, 1)),
        r"rail.*planar.*\(x, 0, z\)",
    ),
    "planar ball joint": (
        lambda: also(two(planar=True), "add_ball_joint", "b", "upper", "lower", position=(0, 0, 0)),
        "b.*planar.*hinge about",
    ),
    "planar velocity": (
        lambda: also(two(planar=True), "add_body", "puck", BALL, velocity=(1, 1, 0)),
        r"puck.*planar.*\(vx, 0, vz\)",
    ),
    "planar spin": (
        lambda: also(two(planar=True), "add_body", "puck", BALL, spin=(0, 1, 1)),
        r"puck.*planar.*\(0, wy, 0\)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_its_culprit_and_the_remedy(mistake):
    describe, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        describe().build()


def test_a_planar_model_may_turn_about_y_and_slide_in_its_plane():
    b = hinge(two(planar=True), axis=(0, -2, 0))
    b.add_slider("rail", "world", "upper", axis=(1, 0, 1))
    assert b.build().topology.planar


def test_numbers_may_be_integers_arrays_and_numpy_scalars():
    b = bf.Builder(gravity=np.array([0, 0, -10]))
    b.add_body("a", bf.Box(np.ones(3)), mass=np.float32(2), position=jnp.ones(3), rotation=[0, 0, 1])
    model = b.build()
    assert model.mass[0] == 2 and model.size[0, 1] == 1


def test_shapes_that_start_deep_inside_each_other_warn_with_pair_and_depth():
    b = body(bf.Sphere(0.5), position=(0, 0, 0.3))
    b.add_ground()
    with pytest.warns(UserWarning, match=r'"ground" and "torso" start 0.2 m inside.*ignore_contact'):
        b.build()


@pytest.mark.filterwarnings("error")
def test_shapes_that_only_touch_or_may_pass_do_not_warn():
    b = body(bf.Sphere(0.5), position=(0, 0, 0.5))
    b.add_ground()
    b.add_body("ghost", bf.Sphere(0.5), position=(0, 0.3, 5))
    b.add_body("other", bf.Sphere(0.5), position=(0, 0, 5))
    b.ignore_contact("ghost", "other")
    b.build()


@pytest.mark.parametrize("dt", [0.0, -0.01, NAN, float("inf")])
def test_a_time_step_must_be_positive(dt):
    with pytest.raises(ValueError, match=r"Scheme: dt is .*positive time step"):
        bf.Scheme(dt)


def test_a_solver_must_sweep():
    with pytest.raises(ValueError, match=r"PGS: sweeps is 0.*at least 1"):
        bf.PGS(sweeps=0)
    with pytest.raises(ValueError, match=r"PGS: warm_start is 2.*0 to 1"):
        bf.PGS(warm_start=2)


@pytest.fixture(scope="module")
def arm() -> bf.Model:
    b = hinge(two())
    b.add_motor("knee")
    return b.build()


@pytest.mark.parametrize("shape", [(2,), (), (4, 1)], ids=str)
def test_controls_of_the_wrong_shape_say_both_shapes_before_anything_runs(arm, shape):
    with pytest.raises(ValueError, match=rf"u has shape {re.escape(str(shape))}.*1 actuators.*vmap"):
        jax.eval_shape(bf.step, bf.Scheme(0.01), arm, bf.rest(arm), jnp.zeros(shape))


def test_a_state_of_another_model_says_both_shapes(arm):
    other = body(BALL).build()
    with pytest.raises(ValueError, match=r"state.p_WB has shape \(1, 3\).*needs \(2, 3\).*rest\(model\)"):
        bf.step(bf.Scheme(0.01), arm, bf.rest(other), jnp.zeros(1))


@pytest.mark.parametrize("shape, steps", [((5, 2), None), ((5,), None), ((5, 1), 6)])
def test_controls_of_a_rollout_must_fit(arm, shape, steps):
    with pytest.raises(ValueError, match=r"rollout: controls have shape .* needs \(.*, 1\)"):
        bf.rollout(bf.Scheme(0.01), arm, bf.rest(arm), jnp.zeros(shape), steps=steps)


def test_a_rollout_without_steps_asks_for_them(arm):
    with pytest.raises(ValueError, match="steps is missing"):
        bf.rollout(bf.Scheme(0.01), arm, bf.rest(arm))


def test_positions_of_the_wrong_number_say_both(arm):
    with pytest.raises(ValueError, match=r"positions has shape \(3,\).*1 coordinates"):
        bf.rest(arm, jnp.zeros(3))


def test_a_model_keeps_its_numbers_when_the_arrays_it_was_given_change():
    """JAX takes over arrays that happen to lie well in memory instead of copying them."""
    room = np.zeros(64, np.float32)
    start = (-room.ctypes.data % 64) // 4
    gravity = room[start : start + 3]
    gravity[2] = -9.81
    b = bf.Builder(gravity=gravity)
    b.add_body("ball", shape=bf.Sphere(0.1))
    model = b.build()
    gravity[2] = 5
    np.testing.assert_allclose(model.gravity, [0, 0, -9.81])
