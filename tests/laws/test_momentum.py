"""Momentum: what nothing pushes keeps it, to rounding."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from laws.scenes import both_solvers, run_all

import backflip as bf

MIRROR = "a mirrored robot moves as in a mirror, in the air and on the ground"


def articulated(mirrored=False):
    """Five bodies: every kind of joint, masses and sizes all different."""
    sign = -1 if mirrored else 1
    b = bf.Builder(gravity=(0, 0, 0))
    sizes = [(0.5, 0.3, 0.2), (0.3, 0.1, 0.2), (0.2, 0.2, 0.4), (0.1, 0.3, 0.2), (0.2, 0.1, 0.1)]
    places = [(0, 0, 0), (0.5, 0.1 * sign, 0), (0, 0, 0.4), (0, -0.4 * sign, 0), (0.8, 0.1 * sign, 0.1)]
    for i, (size, place) in enumerate(zip(sizes, places, strict=True)):
        b.add_body(f"b{i}", bf.Box(size), density=300.0 + 100 * i, position=place, group="robot")
    # an axis is a pseudo-vector: mirrored in y it becomes (−x, y, −z)
    axis = (sign * 1.0, 1.0, sign * 0.5)
    b.add_hinge("hinge", "b0", "b1", position=(0.3, 0, 0), axis=axis, stiffness=2.0)
    b.add_universal("universal", "b0", "b2", position=(0, 0, 0.2), axes=((sign, 0, 0), (0, 1, 0)))
    b.add_ball_joint("ball", "b0", "b3", position=(0, -0.2 * sign, 0))
    b.add_slider("slider", "b1", "b4", axis=(1, 0, 0), damping=0.1)
    b.add_motor("hinge")
    b.add_servo("slider", gain=5.0, max_velocity=1.0, max_torque=3.0)
    return b.build()


def tumbling(model, mirrored=False):
    state = bf.rest(model)
    v = np.random.default_rng(0).normal(size=state.v_WB.shape)
    w = 2 * np.random.default_rng(1).normal(size=state.w_WB.shape)
    if mirrored:
        v, w = v * [1, -1, 1], w * [-1, 1, -1]
    return eqx.tree_at(lambda s: (s.v_WB, s.w_WB), state, (jnp.asarray(v), jnp.asarray(w)))


def controls(steps):
    t = np.arange(steps)
    return jnp.asarray(np.stack([np.sin(0.05 * t), 0.1 * np.cos(0.03 * t)], 1))


@both_solvers
def test_a_tumbling_robot_keeps_its_momenta_and_a_mirrored_one_moves_as_in_a_mirror(law, solver):
    models = articulated(), articulated(mirrored=True)
    starts = tumbling(models[0]), tumbling(models[1], mirrored=True)
    states = run_all(models, starts, dt=0.01, seconds=10, controls=controls(1000), solver=solver)
    plain, mirrored = (jax.tree.map(lambda x, i=i: x[i], states) for i in (0, 1))
    for measure in (bf.momentum, bf.angular_momentum):
        before = measure(models[0], starts[0])
        after = jax.vmap(lambda s, m=measure: m(models[0], s))(plain)
        drift = jnp.max(jnp.abs(after - before)) / jnp.linalg.norm(before)
        law("linear and angular momentum of a tumbling robot, 1,000 steps", 1e-8, drift, "", solver)
    for name, sign in (("p_WB", [1, -1, 1]), ("w_WB", [-1, 1, -1])):
        one, other = (getattr(x, name)[:100] for x in (plain, mirrored))
        law(MIRROR, 1e-9, np.abs(one * np.array(sign) - other).max(), "", solver)


def tossed_box(friction, sign):
    b = bf.Builder()
    b.add_ground(friction=friction, restitution=0.3)
    b.add_body(
        "box", bf.Box((0.3, 0.2, 0.1)), position=(0, 0, 0.4), rotation=(0.3 * sign, 0.4, 0.2 * sign),
        velocity=(1, 0.5 * sign, 0), spin=(2 * sign, 3, -1 * sign),
    )  # fmt: skip
    return b.build()


@both_solvers
def test_a_mirrored_box_tumbles_over_the_ground_as_in_a_mirror(law, solver):
    models = [tossed_box(friction, sign) for friction in (0.0, 0.5) for sign in (1, -1)]
    p = np.asarray(run_all(models, dt=0.005, seconds=0.5, solver=solver).p_WB)
    law(MIRROR, 1e-9, np.abs(p[::2] * np.array([1, -1, 1]) - p[1::2]).max(), "", solver)
