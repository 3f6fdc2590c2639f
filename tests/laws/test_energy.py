"""Energy: passive motion keeps it, and pendulums keep time."""

import jax
import jax.numpy as jnp
import numpy as np
from laws.scenes import run

import backflip as bf


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


def test_a_passive_pendulum_keeps_its_energy():
    model, start = pendulum(2.0)
    states = run(model, start, dt=1e-3, seconds=10)
    assert energy_error(model, start, states, scale=9.81 * 0.25) <= 0.005


def test_a_free_spinning_body_with_three_inertias_keeps_its_energy():
    b = bf.Builder(gravity=(0, 0, 0))
    # about the middle axis: it flips over again and again
    b.add_body("book", bf.Box((0.1, 0.2, 0.4)), spin=(0.1, 10.0, 0.1))
    model = b.build()
    start = bf.rest(model)
    states = run(model, start, dt=1e-3, seconds=10)
    assert float(jnp.min(states.w_WB[:, 0, 1])) < 10 and float(jnp.min(states.R_WB[:, 0, 1, 1])) < -0.9
    assert energy_error(model, start, states, scale=float(bf.energy(model, start))) <= 0.005


def test_a_small_swing_takes_two_pi_root_inertia_over_torque():
    model, start = pendulum(0.01)
    states = run(model, start, dt=1e-3, seconds=10)
    angle = np.asarray(jax.vmap(lambda s: bf.observe(model, s))(states))[:, 0]
    down = np.nonzero((angle[:-1] > 0) & (angle[1:] <= 0))[0]
    times = [k + angle[k] / (angle[k] - angle[k + 1]) for k in down]
    period = 1e-3 * (times[-1] - times[0]) / (len(times) - 1)
    r, L, d = 0.03, 0.4, 0.25
    ends = 4 / 3 * r / (L + 4 / 3 * r)
    inertia = (1 - ends) * (r**2 / 4 + L**2 / 12) + ends * (0.4 * r**2 + L**2 / 4 + 3 / 8 * r * L) + d**2
    assert abs(period / (2 * np.pi * np.sqrt(inertia / (9.81 * d))) - 1) <= 0.002


def test_flight_follows_the_parabola():
    b = bf.Builder()
    b.add_body("stone", bf.Sphere(0.1), position=(0, 0, 50), velocity=(3, -2, 5), spin=(1, 2, 3))
    model = b.build()
    states = run(model, bf.rest(model), dt=0.01, seconds=2)
    t = 0.01 * np.arange(1, 201)[:, None]
    g = np.array([0, 0, -9.81])
    # Störmer-Verlet is exact for a constant force
    assert np.allclose(states.p_WB[:, 0], [0, 0, 50] + t * [3, -2, 5] + t**2 / 2 * g, atol=1e-9)
    assert np.allclose(states.v_WB[:, 0], [3, -2, 5] + t * g, atol=1e-9)


def test_rotation_matrices_stay_orthogonal_for_a_million_float32_steps():
    from backflip.math import rotate

    turn = jnp.asarray([0.05, -0.08, 0.03], jnp.float32)
    R = jnp.eye(3, dtype=jnp.float32)
    R = jax.jit(lambda R: jax.lax.fori_loop(0, 1_000_000, lambda _, R: rotate(turn, R), R))(R)
    assert float(jnp.max(jnp.abs(R.T @ R - jnp.eye(3)))) <= 1e-5
    assert R.dtype == jnp.float32
