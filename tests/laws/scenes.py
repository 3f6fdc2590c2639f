"""What the laws share: running a scene, and scenes more than one law looks at."""

import jax
import numpy as np

import backflip as bf


def run(model, state, *, dt, seconds, solver=None, controls=None):
    """All states of a rollout."""
    scheme = bf.Scheme(dt=dt, solver=solver or bf.PGS(sweeps=20))
    steps = round(seconds / dt)
    return jax.jit(lambda m, s: bf.rollout(scheme, m, s, controls, steps=steps).state)(model, state)


def last(states):
    return jax.tree.map(lambda x: x[-1], states)


def on_ground(shape, *, gravity=(0, 0, -9.81), friction=0.5, restitution=0.0, planar=False, **body):
    """One body above a ground plane."""
    b = bf.Builder(gravity=gravity, planar=planar)
    b.add_ground(friction=friction, restitution=restitution)
    b.add_body("body", shape, **body)
    return b.build()


def slope_gravity(degrees):
    """Gravity of 9.81 m/s² seen from a slope that falls towards +x."""
    angle = np.deg2rad(degrees)
    return (9.81 * np.sin(angle), 0, -9.81 * np.cos(angle))
