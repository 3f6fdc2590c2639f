"""Every sensor on a known state, and what an IMU and a contact feel."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import backflip as bf
from backflip.sense import reading_sizes

G = 9.81
observe = jax.jit(bf.observe)


def rotation(vector) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec(vector).as_matrix()


@pytest.fixture(scope="module")
def known() -> tuple[bf.Model, bf.State, dict[str, np.ndarray]]:
    """Two boxes anywhere, with one sensor of every kind that looks at them."""
    b = bf.Builder()
    for name in ("one", "two"):
        b.add_body(name, bf.Box((0.2, 0.3, 0.4)), mass=1.0, group="loose")
    sensors = {
        "position": bf.Position("one"),
        "velocity": bf.Velocity("one"),
        "orientation": bf.Orientation("two"),
        "spin": bf.AngularVelocity("two"),
        "seen position": bf.Position("one", relative_to="two"),
        "seen velocity": bf.Velocity("one", relative_to="two"),
        "seen orientation": bf.Orientation("one", relative_to="two"),
        "distance": bf.Distance("one", target=(1.0, 2.0, 3.0), position=(0.0, 0.1, 0.0)),
        "imu": bf.IMU("one", position=(0.1, 0.0, 0.0)),
    }
    b.add_sensor(*sensors.values())
    model = b.build()
    assert reading_sizes(model) == (3, 3, 9, 3, 3, 3, 9, 1, 6)
    random = np.random.default_rng(1)
    p, v, w, a, dw = random.normal(size=(5, 2, 3))
    R = np.stack([rotation((0.3, -0.4, 0.5)), rotation((-0.7, 0.2, 0.1))])
    state = bf.rest(model)
    state = eqx.tree_at(
        lambda s: (s.p_WB, s.R_WB, s.v_WB, s.w_WB, s.a_WB, s.dw_WB),
        state,
        tuple(map(jnp.asarray, (p, R, v, w, a, dw))),
    )
    parts = np.split(np.asarray(observe(model, state)), np.cumsum(reading_sizes(model))[:-1])
    return model, state, dict(zip(sensors, parts, strict=True))


def test_readings_in_the_world_are_the_state(known):
    _, s, read = known
    np.testing.assert_allclose(read["position"], s.p_WB[0])
    np.testing.assert_allclose(read["velocity"], s.v_WB[0])
    np.testing.assert_allclose(read["orientation"], s.R_WB[1].reshape(-1))
    np.testing.assert_allclose(read["spin"], s.w_WB[1])


def test_what_another_body_sees_is_the_rate_of_where_it_sees_it(known):
    _, s, read = known
    p, R, v, w = (np.asarray(x) for x in (s.p_WB, s.R_WB, s.v_WB, s.w_WB))
    np.testing.assert_allclose(read["seen position"], R[1].T @ (p[0] - p[1]))
    np.testing.assert_allclose(read["seen orientation"], (R[1].T @ R[0]).reshape(-1), atol=1e-15)
    h = 1e-6
    later, before = ((rotation(t * w[1]) @ R[1]).T @ (p[0] + t * v[0] - p[1] - t * v[1]) for t in (h, -h))
    np.testing.assert_allclose(read["seen velocity"], (later - before) / (2 * h), rtol=1e-8)


def test_distance_is_from_the_point_on_the_body(known):
    _, s, read = known
    point = s.p_WB[0] + s.R_WB[0] @ jnp.array([0, 0.1, 0])
    np.testing.assert_allclose(read["distance"], [np.linalg.norm(point - np.array([1, 2, 3]))])


def test_an_imu_off_centre_feels_gravity_turning_and_the_centripetal_pull(known):
    _, s, read = known
    R, w, arm = s.R_WB[0], s.w_WB[0], s.R_WB[0] @ jnp.array([0.1, 0, 0])
    a = s.a_WB[0] + np.cross(s.dw_WB[0], arm) + np.cross(w, np.cross(w, arm))
    np.testing.assert_allclose(read["imu"][:3], R.T @ w)
    np.testing.assert_allclose(read["imu"][3:], R.T @ (a + jnp.array([0, 0, G])))


def test_without_sensors_the_state_itself_is_observed():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1), position=(1, 2, 3), velocity=(4, 5, 6), spin=(7, 8, 9))
    model = b.build()
    expected = np.concatenate([[1, 2, 3], np.eye(3).reshape(-1), [4, 5, 6, 7, 8, 9]])
    np.testing.assert_allclose(observe(model, bf.rest(model)), expected)


def play(model: bf.Model, steps: int, dt: float = 0.005) -> np.ndarray:
    run = jax.jit(lambda m, s: jax.lax.fori_loop(0, steps, lambda _, s: bf.step(bf.Scheme(dt), m, s), s))
    return np.asarray(observe(model, run(model, bf.rest(model))))


def test_at_rest_on_the_ground_an_imu_reads_gravity_and_the_contact_bears_the_weight():
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1), mass=2.0, position=(0, 0, 0.1))
    b.add_ground()
    b.add_sensor(bf.ContactForce("ground"), bf.IMU("ball"), bf.ContactForce("ball"))
    read = play(b.build(), 200)
    np.testing.assert_allclose(read[:3], [0, 0, -2 * G], atol=1e-6)
    np.testing.assert_allclose(read[3:9], [0, 0, 0, 0, 0, G], atol=1e-6)
    np.testing.assert_allclose(read[9:], [0, 0, 2 * G], atol=1e-6)


def test_in_free_fall_an_imu_reads_nothing_at_the_centre_and_the_centripetal_pull_off_it():
    b = bf.Builder()
    b.add_body("box", bf.Box((0.2, 0.2, 0.2)), rotation=(0, 0.5, 0), spin=(0, 3.0, 0))
    b.add_sensor(bf.IMU("box"), bf.IMU("box", position=(0.2, 0, 0)))
    read = play(b.build(), 50)
    np.testing.assert_allclose(read[:6], [0, 3, 0, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(read[6:], [0, 3, 0, -(3**2) * 0.2, 0, 0], atol=1e-9)


def test_readings_come_in_the_order_sensors_were_added_and_joints_give_their_coordinates():
    b = bf.Builder()
    b.add_body("a", bf.Sphere(0.1), position=(0, 0, -1))
    b.add_body("b", bf.Sphere(0.1), position=(0, 0, -2))
    b.add_universal("hip", "world", "a", position=(0, 0, 0), axes=((1, 0, 0), (0, 1, 0)))
    b.add_slider("rail", "a", "b", axis=(0, 0, 1))
    b.add_sensor(bf.JointAngle("rail"), bf.Position("a"), bf.JointAngle("hip"), bf.JointRate("rail"))
    model = b.build()
    assert reading_sizes(model) == (1, 3, 2, 1)
    read = observe(model, bf.rest(model, jnp.array([0.0, 0.4, 0.25])))
    arm = [-np.sin(0.4), 0, -np.cos(0.4)]
    np.testing.assert_allclose(read, [0.25, *arm, 0, 0.4, 0], atol=1e-14)


def stack() -> bf.Model:
    """A ball on another, which lies on the ground."""
    b = bf.Builder()
    b.add_body("lower", bf.Sphere(0.1), mass=3.0, position=(0, 0, 0.1))
    b.add_body("upper", bf.Sphere(0.1), mass=2.0, position=(0, 0, 0.3))
    b.add_ground()
    b.add_sensor(bf.ContactForce("lower"))
    return b.build()


def test_the_force_of_a_pair_is_known_by_name_and_answers_with_its_opposite():
    model = stack()
    run = jax.jit(lambda s: jax.lax.fori_loop(0, 100, lambda _, s: bf.step(bf.Scheme(0.005), model, s), s))
    state = run(bf.rest(model))
    np.testing.assert_allclose(bf.contact_force(model, state, "lower", "ground"), [0, 0, 5 * G], atol=1e-2)
    on_upper = bf.contact_force(model, state, "upper", "lower")
    np.testing.assert_allclose(on_upper, [0, 0, 2 * G], atol=1e-2)
    np.testing.assert_allclose(bf.contact_force(model, state, "lower", "upper"), -on_upper)
    both = bf.contact_force(model, state, "lower", "ground") - on_upper
    np.testing.assert_allclose(bf.readings(model, state)["ContactForce(lower)"], both, atol=1e-12)

    def f(force):
        changed = bf.replace(model, state, force=force)
        return jnp.sin(bf.contact_force(model, changed, "lower", "ground") / 10).sum()

    check_grads(f, (state.force,), order=1, modes=("rev",), eps=1e-4)
    with pytest.raises(ValueError, match='unknown shape "lowe"; did you mean "lower"'):
        bf.contact_force(model, state, "lowe", "ground")
    with pytest.raises(ValueError, match='"ground" and "ground" never touch'):
        bf.contact_force(model, state, "ground", "ground")


def test_gradients_of_readings_are_central_differences(known):
    model, state, _ = known

    def f(p, w, place):
        changed = bf.replace(model, sensors={"IMU(one)": {"position": place}})
        moved = bf.replace(changed, state, p_WB={"one": p}, w_WB={"one": w})
        return sum(jnp.sin(x).sum() for x in bf.readings(changed, moved).values())

    at = (state.p_WB[0], state.w_WB[0], jnp.array([0.1, 0.2, 0.3]))
    check_grads(f, at, order=1, modes=("rev",), eps=1e-5, rtol=1e-5)
