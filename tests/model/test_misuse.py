"""Mistakes that once passed unnoticed."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf


def test_a_model_without_bodies_is_refused():
    b = bf.Builder()
    b.add_ground()
    with pytest.raises(ValueError, match="no body"):
        b.build()


def test_a_universal_joint_with_one_axis_is_refused():
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1))
    b.add_universal("u", "world", "a", position=(0, 0, 0), axes=((0, 0, 1),))
    with pytest.raises(ValueError, match='joint "u": 1 axes'):
        b.build()


def test_a_shape_density_beside_a_body_mass_is_refused():
    b = bf.Builder()
    b.add_body("a", mass=1.0)
    b.add_shape("a", bf.Sphere(0.1), density=500.0)
    with pytest.raises(ValueError, match="both mass and density"):
        b.build()


def test_thin_plates_that_overlap_are_warned_of():
    b = bf.Builder()
    b.add_body("a", bf.Box((1, 1, 0.01)))
    b.add_body("b", bf.Box((1, 1, 0.01)), position=(0, 0, 0.005))
    with pytest.warns(UserWarning, match="inside each other"):
        b.build()


def test_sensors_given_arrays_stay_hashable():
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1))
    b.add_sensor(bf.Distance("a", target=np.array([1.0, 0, 0])))
    model = b.build()
    hash(model.topology)
    assert np.allclose(bf.observe(model, bf.rest(model)), [1.0])


def hung(height: float, **joint) -> bf.Builder:
    """A rod that swings about its upper end, `height` above the ground."""
    b = bf.Builder()
    b.add_body("rod", bf.Capsule(0.05, 0.8), position=(0, 0, height - 0.45))
    b.add_hinge("pin", "world", "rod", position=(0, 0, height), axis=(0, 1, 0), **joint)
    b.add_ground()
    return b


def test_a_body_hinged_to_the_world_that_can_reach_the_ground_is_warned_of_with_the_remedy():
    words = r'"rod" hangs from the world by joint "pin".*through "ground".*collide=True.*ignore_contact'
    with pytest.warns(UserWarning, match=words):
        hung(0.5).build()
    b = bf.Builder()
    b.add_body("lift", bf.Box((1, 1, 1)), position=(0, 0, 2))
    b.add_slider("rail", "world", "lift", axis=(0, 0, 1))
    b.add_ground()
    with pytest.warns(UserWarning, match='"lift" hangs from the world by joint "rail"'):
        b.build()


@pytest.mark.filterwarnings("error")
def test_a_body_hinged_to_the_world_that_cannot_reach_the_ground_or_is_meant_to_pass_does_not_warn():
    hung(1.0).build()
    hung(0.5, limits=(1.5, 3.0)).build()
    b = hung(0.5)
    b.ignore_contact("world", "rod")
    b.build()
    b = bf.Builder()
    b.add_body("cart", bf.Box((1, 1, 1)), position=(0, 0, 0.5))
    b.add_slider("rail", "world", "cart", axis=(1, 0, 0))
    b.add_ground()
    b.build()


def test_collide_true_lets_the_hinged_body_touch_the_ground():
    b = hung(0.9, collide=True)
    assert len(b.build().topology.pairs) == 1


@pytest.mark.parametrize("solver", [bf.PGS(), bf.InteriorPoint()], ids=str)
def test_a_scene_with_everything_welded_to_the_world_stands_still(solver):
    b = bf.Builder()
    for i, name in enumerate("ab"):
        b.add_body(name, bf.Sphere(0.1), position=(i, 0, 1))
        b.add_fixed(f"weld {name}", "world", name)
    b.add_hinge("again", "a", "b", position=(0, 0, 1), axis=(0, 1, 0))
    model = b.build()
    start = bf.rest(model)
    after = bf.step(bf.Scheme(0.01, solver), model, start)
    np.testing.assert_array_equal(after.p_WB, start.p_WB)


@pytest.mark.parametrize("dt", [np.float32(0.01), np.array(0.01), jnp.asarray(0.01, "float32")])
def test_a_time_step_of_numpy_or_jax_is_taken(dt):
    assert bf.Scheme(dt) == bf.Scheme(0.01)


@pytest.fixture(scope="module")
def pair() -> bf.Model:
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1), mass=1.0, friction=0.5)
    b.add_body("b", bf.Sphere(0.1), mass=2.0, position=(0, 0, -1))
    b.add_hinge("knee", "a", "b", position=(0, 0, -0.5), axis=(0, 1, 0), limits=(-1, 1))
    b.add_servo("knee", gain=5.0, max_velocity=2.0, max_torque=3.0)
    return b.build()


BROKEN = {
    "mass": (lambda m: m.mass.at[1].set(-2.0), 'model.mass of body "b" is -2; give positive masses'),
    "three masses": (lambda m: jnp.ones(3), r"model.mass has shape \(3,\) but this model needs \(2,\)"),
    "friction": (lambda m: m.friction.at[0].set(jnp.nan), 'model.friction of shape "a" is nan; give finite'),
    "lower": (lambda m: m.lower + 3, 'model.lower of joint "knee" is 2; it is above upper'),
    "R_AJ": (lambda m: 2 * m.R_AJ, 'model.R_AJ of joint "knee" is .*rotation matrices'),
    "gain": (lambda m: 0 * m.gain, 'model.gain of servo "knee" is 0; give positive'),
    "size": (lambda m: -m.size, 'model.size of shape "a" is -0.1; give positive lengths'),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_model_made_bad_leaf_by_leaf_is_found_by_check(pair, broken):
    change, words = BROKEN[broken]
    field = "mass" if broken == "three masses" else broken
    with pytest.raises(ValueError, match=words):
        bf.check(eqx.tree_at(lambda m: getattr(m, field), pair, change(pair)))


def test_a_model_as_it_was_built_passes_its_check_under_jit_too(pair):
    bf.check(pair)
    jax.jit(lambda m: [bf.check(m), m.mass][1])(pair)
    jax.vmap(lambda x: [bf.check(bf.replace(pair, mass={"a": x})), x][1])(jnp.ones(3))


def many(tree):
    return jax.tree.map(lambda x: jnp.stack([x, x]), tree)


CALLS = {
    "swapped": (lambda m, s: bf.observe(s, m), TypeError, "observe: a State was given where a Model belongs"),
    "no state": (lambda m, s: bf.observe(m, m), TypeError, "a Model was given where a State belongs"),
    "swapped in step": (lambda m, s: bf.step(bf.Scheme(0.01), s, m), TypeError, "step: a State was given"),
    "scheme for model": (lambda m, s: bf.step(m, bf.Scheme(0.01), s), TypeError, "step: a Scheme was given"),
    "u for state": (
        lambda m, s: bf.step(bf.Scheme(0.01), m, jnp.zeros(1), s),
        TypeError,
        "step: an array was given where a State belongs",
    ),
    "batch observed": (lambda m, s: bf.observe(m, many(s)), ValueError, r"observe: state.*\(2, 2, 3\).*vmap"),
    "batch of models": (lambda m, s: bf.rest(many(m)), ValueError, r"rest: model.*shape \(2, .*vmap"),
    "batch of positions": (
        lambda m, s: bf.rest(m, jnp.ones((5, 1))),
        ValueError,
        r"\(5, 1\).*vmap",
    ),
    "three masses": (
        lambda m, s: bf.step(bf.Scheme(0.01), eqx.tree_at(lambda m: m.mass, m, jnp.ones(3)), s),
        ValueError,
        r"step: model.mass has shape \(3,\) but this model needs \(2,\)",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_does_not_fit_is_refused_in_words_before_anything_runs(pair, call):
    wrong, error, words = CALLS[call]
    with pytest.raises(error, match=words):
        wrong(pair, bf.rest(pair))


def test_a_batch_or_a_single_state_for_a_replay_says_so(pair, tmp_path):
    path = bf.rollout(bf.Scheme(0.01), pair, bf.rest(pair), jnp.zeros((3, 1)))
    for wrong in (many(path.state), path.last):
        with pytest.raises(ValueError, match=r"replay: p_WB has shape .* \(T, 2, 3\).*of a batch choose one"):
            bf.save_replay(tmp_path / "run.html", pair, wrong, dt=0.01)
    with pytest.raises(TypeError, match="replay: a State was given where a Model belongs"):
        bf.save_replay(tmp_path / "run.html", path.last, path)


def test_a_float64_model_is_refused_where_jax_works_in_float32(pair):
    state = bf.rest(pair)
    jax.config.update("jax_enable_x64", False)
    try:
        for call in (lambda: bf.rest(pair), lambda: bf.step(bf.Scheme(0.01), pair, state)):
            with pytest.raises((ValueError, TypeError), match=r"float64.*jax_enable_x64"):
                call()
    finally:
        jax.config.update("jax_enable_x64", True)


def test_a_start_in_degrees_or_beyond_its_limits_is_warned_of():
    b = bf.Builder()
    b.add_body("link", bf.Sphere(0.1))
    b.add_hinge("knee", "world", "link", position=(0, 0, 1), axis=(0, 1, 0), limits=(-2, 2))
    b.add_body("wheel", bf.Sphere(0.1), position=(1, 0, 0))
    b.add_hinge("axle", "world", "wheel", position=(1, 0, 1), axis=(0, 1, 0))
    model = b.build()
    with pytest.warns(UserWarning, match=r'joint "knee" starts at 2.5, beyond its limits \(-2, 2\)'):
        bf.rest(model, {"knee": 2.5})
    with pytest.warns(
        UserWarning, match='joint "axle" starts at 90, more than a turn: angles are in radians'
    ):
        bf.rest(model, {"axle": 90.0})


def test_numbers_that_make_no_sense_are_refused_by_replace():
    b = bf.Builder(planar=True)
    b.add_body("ball", bf.Sphere(0.1), mass=1.0, friction=0.5)
    model = b.build()
    with pytest.raises(ValueError, match=r"mass.*ball.*positive"):
        bf.replace(model, mass={"ball": -1.0})
    with pytest.raises(ValueError, match=r"friction.*ball.*not negative"):
        bf.replace(model, friction={"ball": -1.0})
    with pytest.raises(ValueError, match=r"v_WB leaves the plane of a planar model"):
        bf.replace(model, bf.rest(model), v_WB={"ball": (0, 1, 0)})


def test_what_is_no_scheme_or_no_model_yet_is_named():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1))
    model = b.build()
    with pytest.raises(TypeError, match="the first argument is no Scheme"):
        bf.step(0.01, model, bf.rest(model))
    with pytest.raises(TypeError, match=r"a Builder was given where a Model belongs; call its build\(\)"):
        bf.rest(b)


def test_measures_refuse_batches_and_swapped_arguments():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1))
    model = b.build()
    state = bf.rest(model)
    batch = jax.tree.map(lambda x: jnp.stack([x] * 3), state)
    for measure in (
        bf.energy,
        bf.momentum,
        bf.angular_momentum,
        bf.joint_error,
        bf.penetration,
        bf.servo_torque,
    ):
        with pytest.raises(ValueError, match=rf"{measure.__name__}: state\..*wrap the call in jax.vmap"):
            measure(model, batch)
        with pytest.raises(TypeError, match=f"{measure.__name__}: a State was given where a Model belongs"):
            measure(state, model)


def test_a_model_and_a_state_of_other_precision_are_refused_and_leaves_that_are_no_floats():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1), mass=1.0)
    model = b.build()
    state = jax.tree.map(lambda x: x.astype(jnp.float32), bf.rest(model))
    with pytest.raises(ValueError, match="the state is in float32 but the model in float64"):
        bf.step(bf.Scheme(0.01), model, state)
    for mass in (jnp.ones(1, int), jnp.ones(1, complex)):
        with pytest.raises(ValueError, match=r"model.mass is of dtype .*; give an array of floats"):
            bf.check(eqx.tree_at(lambda m: m.mass, model, mass))


def test_a_float32_model_steps_in_float32_where_x64_is_on():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1))
    b.add_force("ball", direction=(0, 0, 1))
    model = jax.tree.map(lambda x: x.astype(jnp.float32), b.build())
    assert bf.step(bf.Scheme(0.01), model, bf.rest(model), jnp.ones(1)).p_WB.dtype == jnp.float32


def test_positions_that_leave_a_loop_open_are_warned_of():
    with pytest.warns(UserWarning, match=r'leave the loop at joint "far" open by 0\.\d+ m'):
        bf.rest(bf.robots.four_bar(), {"motor": 0.5})
