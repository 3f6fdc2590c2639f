"""Springs, dampers, limits, servos, motors and body forces against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf

DT = 1e-3
SCHEME = bf.Scheme(DT)
G = 9.81
INERTIA = 0.7


def oscillator(kind: str, k: float, d: float = 0.0, m: float = 2.0) -> tuple[bf.Model, bf.State, float]:
    """Mass m on a spring, without gravity, at 0.1 from neutral; with its inertia along the coordinate."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("mass", mass=m, inertia=(INERTIA, INERTIA, INERTIA))
    how = {"axis": (1, 0, 2), "position": (0, 0, 0), "stiffness": k, "damping": d, "neutral": 0.3}
    getattr(b, f"add_{kind}")("joint", "world", "mass", **how)
    b.add_sensor(bf.JointAngle("joint"), bf.JointRate("joint"))
    model = b.build()
    return model, bf.rest(model, jnp.array([0.4])), m if kind == "slider" else INERTIA


observe = jax.jit(jax.vmap(bf.observe, in_axes=(None, 0)))


@pytest.mark.parametrize("kind", ["slider", "hinge"])
def test_a_spring_swings_at_its_frequency_and_keeps_its_energy(play, kind):
    k = 80.0
    model, start, inertia = oscillator(kind, k)
    q, rate = observe(model, play(SCHEME, model, start, steps=3000)).T
    crossings = np.flatnonzero((q[:-1] - 0.3) * (q[1:] - 0.3) < 0)
    exact = crossings + np.asarray((q[crossings] - 0.3) / (q[crossings] - q[crossings + 1]))
    omega = np.pi / (np.diff(exact).mean() * DT)
    np.testing.assert_allclose(omega, np.sqrt(k / inertia), rtol=1e-3)
    energy = k * (q - 0.3) ** 2 / 2 + inertia * rate**2 / 2
    np.testing.assert_allclose(energy, k * 0.1**2 / 2, rtol=1e-3)


@pytest.mark.parametrize("kind", ["slider", "hinge"])
def test_a_damper_decays_at_d_over_two_m(play, kind):
    k, d = 80.0, 0.5
    model, start, inertia = oscillator(kind, k, d)
    q, rate = observe(model, play(SCHEME, model, start, steps=3000)).T
    energy = k * (q - 0.3) ** 2 / 2 + inertia * rate**2 / 2
    decay = -np.polyfit(np.arange(3000) * DT, np.log(energy), 1)[0]
    np.testing.assert_allclose(decay, d / inertia, rtol=0.02)


@pytest.mark.parametrize("kind", ["slider", "hinge"])
def test_a_spring_far_too_stiff_for_the_step_stays_bounded(play, kind):
    inertia = oscillator(kind, 1.0)[2]
    model, start, _ = oscillator(kind, inertia * (10 / DT) ** 2)
    q, _ = observe(model, play(SCHEME, model, start, steps=3000)).T
    assert jnp.abs(q - 0.3).max() < 0.1 * 1.01


def arm(angle: float = 0.0, mass: float = 1.5, **options) -> bf.Builder:
    """A ball on a weightless arm of 1 m along x; gravity turns it to positive angles about y."""
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1), mass=mass, position=(1, 0, 0))
    b.add_hinge("joint", "world", "ball", position=(0, 0, 0), axis=(0, 1, 0), **options)
    b.add_sensor(bf.JointAngle("joint"), bf.JointRate("joint"))
    return b


SWING = 1.0 + 2 / 5 * 0.1**2
"""inertia of the arm per mass"""


def test_a_limit_stops_the_arm_and_bears_its_weight(play):
    model = arm(limits=(-0.5, 0.2)).build()
    states = play(SCHEME, model, bf.rest(model, jnp.array([-0.4])), steps=2000)
    q, rate = observe(model, states).T
    assert q.max() < 0.2 + 5e-3
    np.testing.assert_allclose(q[-1], 0.2, atol=2e-3)
    np.testing.assert_allclose(rate[-1], 0, atol=1e-6)
    np.testing.assert_allclose(states.force[-1], [1.5 * G * np.cos(q[-1])], rtol=1e-3)


def test_a_servo_that_presses_a_joint_against_its_stop_comes_to_rest(play):
    b = arm(limits=(-0.5, 0.2))
    b.add_servo("joint", gain=30.0, max_velocity=0.8, max_torque=40.0)
    model = b.build()
    states = play(SCHEME, model, bf.rest(model), u=jnp.array([0.4]), steps=800)
    q, rate = observe(model, states).T
    np.testing.assert_allclose(q[500:], 0.2, atol=1e-3)
    assert jnp.abs(rate[500:]).max() < 1e-6
    np.testing.assert_allclose(states.force[500:, 1], 40.0)


def test_a_motionless_limit_lets_nothing_move(play):
    model = arm(limits=(0.0, 0.0)).build()
    q, _ = observe(model, play(SCHEME, model, bf.rest(model), steps=500)).T
    assert jnp.abs(q).max() < 1e-3


def servo(max_torque: float, gain: float = 20.0) -> bf.Model:
    b = arm()
    b.add_servo("joint", gain=gain, max_velocity=2.0, max_torque=max_torque)
    return b.build()


def test_a_servo_slews_at_its_speed_and_reaches_its_target(play):
    model = servo(100.0)
    q, rate = observe(model, play(SCHEME, model, bf.rest(model), jnp.array([2.5]), steps=2500)).T
    assert rate.max() <= 2.0 + 1e-6
    assert rate[100:900].min() > 0.95 * 2.0
    np.testing.assert_allclose(q[-1], 2.5, atol=1e-6)


@pytest.mark.parametrize("sweeps", [1, 50])
def test_a_servo_never_pushes_harder_than_it_can(play, sweeps):
    model = servo(5.0)
    states = play(bf.Scheme(DT, bf.PGS(sweeps=sweeps)), model, bf.rest(model), jnp.array([-1.0]), steps=300)
    np.testing.assert_allclose(states.force, -5.0)
    # θ̈ = (m g cos θ − 5)/(m SWING): torque as promised, not per sweep
    first = (1.5 * G - 5) / (1.5 * SWING)
    np.testing.assert_allclose(states.dw_WB[0, 0, 1], first, rtol=1e-3)


def test_a_strong_servo_holds_against_gravity_and_a_weak_one_sags(play):
    def angles(model):
        return observe(model, play(SCHEME, model, bf.rest(model), jnp.zeros(1), steps=1500))[:, 0]

    strong, weak = angles(servo(15.0)), angles(servo(14.0))
    assert jnp.abs(strong).max() < 1e-3
    # 14 of 14.7 N m: the ball falls until cos θ = 14/14.7, and beyond
    assert weak.max() > 0.3


def test_a_motor_accelerates_by_torque_over_inertia(play):
    b = arm()
    b.add_motor("joint")
    model = eqx.tree_at(lambda m: m.gravity, b.build(), jnp.zeros(3))
    _, rate = observe(model, play(SCHEME, model, bf.rest(model), jnp.array([3.0]), steps=100)).T
    np.testing.assert_allclose(rate[-1], 3.0 / (1.5 * SWING) * 0.1, rtol=1e-6)


def test_body_forces_act_in_the_frame_of_the_body_and_controls_are_in_the_order_added(play):
    b = bf.Builder(gravity=(0, 0, 0))
    quarter = (0, 0, np.pi / 2)
    b.add_body("a", mass=2.0, inertia=(0.5, 0.6, 0.7), rotation=quarter)
    b.add_body("b", mass=4.0, inertia=(0.5, 0.6, 0.7), position=(3, 0, 0))
    b.add_torque("b", direction=(0, 2, 0))
    b.add_force("a", direction=(1, 0, 0))
    b.add_force("b", direction=(0, 0, 1), position=(0, 0.5, 0), name="off centre")
    model = b.build()
    assert [a.name for a in model.topology.actuators] == ["b torque", "a force", "off centre"]
    after = play(SCHEME, model, bf.rest(model), jnp.array([0.3, 5.0, 0.7]), steps=1)
    np.testing.assert_allclose(after.a_WB[0], [[0, 2.5, 0], [0, 0, 0.7 / 4]], atol=1e-9)
    np.testing.assert_allclose(after.dw_WB[0, 1], [0.7 * 0.5 / 0.5, 0.6 / 0.6, 0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(after.dw_WB[0, 0], 0, atol=1e-9)
