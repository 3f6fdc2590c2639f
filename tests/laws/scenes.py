"""What the laws share: solvers, running a scene, and scenes more than one law looks at."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from law_table import DEFAULT, SOLVERS

import backflip as bf

both_solvers = pytest.mark.parametrize("solver", SOLVERS)
slow_but_by_default = pytest.mark.parametrize(
    "solver", [name if name == DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in SOLVERS]
)


def run(model, state, *, dt, seconds, solver=DEFAULT, controls=None):
    """All states of a rollout; the solver by its name, or another one."""
    return jax.jit(_rollout(dt, seconds, solver, controls))(model, state)


def run_all(models, starts=None, *, dt, seconds, solver=DEFAULT, controls=None):
    """All states (models, steps, ...) of models that differ in numbers only."""
    starts = starts or [bf.rest(model) for model in models]
    stacked = (jax.tree.map(lambda *x: jnp.stack(x), *trees) for trees in (models, starts))
    return jax.jit(jax.vmap(_rollout(dt, seconds, solver, controls)))(*stacked)


def _rollout(dt, seconds, solver, controls):
    scheme = bf.Scheme(dt=dt, solver=SOLVERS[solver] if isinstance(solver, str) else solver)
    steps = round(seconds / dt)
    return lambda model, state: bf.rollout(scheme, model, state, controls, steps=steps).state


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
