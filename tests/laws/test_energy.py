"""Energy: passive motion keeps it, and pendulums keep time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import run

import backflip as bf
from backflip import robots


def pendulum(angle):
    """A 1 kg capsule on a hinge, `angle` [rad] from hanging; also its inertia about the hinge."""
    b = bf.Builder()
    b.add_body("rod", bf.Capsule(0.03, 0.4), mass=1.0, position=(0, 0, -0.25))
    b.add_hinge("hinge", "world", "rod", position=(0, 0, 0), axis=(0, 1, 0))
    b.add_sensor(bf.JointAngle("hinge"))
    model = b.build()
    return model, bf.rest(model, jnp.array([angle]))


def energy_error(model, start, states, scale):
    energies = jax.vmap(lambda s: bf.energy(model, s))(states)
    return float(jnp.max(jnp.abs(energies - bf.energy(model, start)))) / scale


def test_a_passive_pendulum_keeps_its_energy(law):
    model, start = pendulum(2.0)
    states = run(model, start, dt=1e-3, seconds=10)
    error = energy_error(model, start, states, scale=9.81 * 0.25)
    law("energy of a passive pendulum, 10 s at 1 ms", 0.5, 100 * error, "%")


def test_a_short_pendulum_keeps_its_energy_for_a_minute_at_10_ms(law):
    model = robots.pendulum(length=0.1, radius=0.02)
    start = bf.rest(model, {"pivot": np.pi / 2})
    states = run(model, start, dt=0.01, seconds=60)
    error = energy_error(model, start, states, scale=9.81 * 0.1)
    law("energy of a pendulum of 0.1 m from 90°, 60 s at 10 ms", 0.5, 100 * error, "%")


@pytest.mark.slow
def test_a_chain_of_ten_keeps_its_energy_for_a_minute(law):
    model = robots.chain(10)
    start = bf.rest(model)
    states = run(model, start, dt=1e-3, seconds=60)
    energies = jax.vmap(lambda s: bf.energy(model, s))(states) - bf.energy(model, start)
    # in parts of the work of gravity until it would hang: 1 kg, 1 m. Its end whips at 100 rad/s now and then,
    # which ripples for some steps: the median of five seconds tells the drift
    drift, ripple = jnp.median(energies[-5000:]) / 9.81, jnp.quantile(jnp.abs(energies), 0.999) / 9.81
    law("energy of a chain of ten links from 90°, 60 s at 1 ms: drift", 0.5, 100 * abs(drift), "%")
    law("energy of a chain of ten links from 90°, 60 s at 1 ms: 99.9 % of ripples", 0.5, 100 * ripple, "%")


def test_a_free_spinning_body_with_three_inertias_keeps_its_energy(law):
    b = bf.Builder(gravity=(0, 0, 0))
    # about the middle axis: it flips over again and again
    b.add_body("book", bf.Box((0.1, 0.2, 0.4)), spin=(0.1, 10.0, 0.1))
    model = b.build()
    start = bf.rest(model)
    states = run(model, start, dt=1e-3, seconds=10)
    assert float(jnp.min(states.w_WB[:, 0, 1])) < 10 and float(jnp.min(states.R_WB[:, 0, 1, 1])) < -0.9
    error = energy_error(model, start, states, scale=float(bf.energy(model, start)))
    law("energy of a free body flipping about its middle axis, 10 s at 1 ms", 0.5, 100 * error, "%")


def test_a_small_swing_takes_two_pi_root_inertia_over_torque(law):
    model, start = pendulum(0.01)
    states = run(model, start, dt=1e-3, seconds=10)
    angle = np.asarray(jax.vmap(lambda s: bf.observe(model, s))(states))[:, 0]
    down = np.nonzero((angle[:-1] > 0) & (angle[1:] <= 0))[0]
    times = [k + angle[k] / (angle[k] - angle[k + 1]) for k in down]
    period = 1e-3 * (times[-1] - times[0]) / (len(times) - 1)
    r, L, d = 0.03, 0.4, 0.25
    ends = 4 / 3 * r / (L + 4 / 3 * r)
    inertia = (1 - ends) * (r**2 / 4 + L**2 / 12) + ends * (0.4 * r**2 + L**2 / 4 + 3 / 8 * r * L) + d**2
    error = abs(period / (2 * np.pi * np.sqrt(inertia / (9.81 * d))) - 1)
    law("period of a small swing", 0.2, 100 * error, "%")


def test_flight_follows_the_parabola(law):
    b = bf.Builder()
    b.add_body("stone", bf.Sphere(0.1), position=(0, 0, 50), velocity=(3, -2, 5), spin=(1, 2, 3))
    model = b.build()
    states = run(model, bf.rest(model), dt=0.01, seconds=2)
    t = 0.01 * np.arange(1, 201)[:, None]
    g = np.array([0, 0, -9.81])
    # Störmer-Verlet is exact for a constant force
    places, speeds = [0, 0, 50] + t * [3, -2, 5] + t**2 / 2 * g, [3, -2, 5] + t * g
    error = max(np.abs(states.p_WB[:, 0] - places).max(), np.abs(states.v_WB[:, 0] - speeds).max())
    law("free flight against the parabola, 2 s", 1e-9, error, "m")


def test_rotation_matrices_stay_orthogonal_for_a_million_float32_steps(law):
    from backflip.math import orthonormal, rotate

    turn = jnp.asarray([0.05, -0.08, 0.03], jnp.float32)
    R = jnp.eye(3, dtype=jnp.float32)
    R = jax.jit(lambda R: jax.lax.fori_loop(0, 1_000_000, lambda _, R: orthonormal(rotate(turn, R)), R))(R)
    assert R.dtype == jnp.float32
    law("rotation matrices after a million float32 steps", 1e-5, jnp.max(jnp.abs(R.T @ R - jnp.eye(3))))
