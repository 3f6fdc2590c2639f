"""Golden trajectories: every robot, both solvers, float64; `python tests/golden/measure.py` writes them.

They are no law: they only say that a change which should not touch the physics did not. A change that should
touch it writes them anew, with the reason in the changelog.
"""

import json
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip import robots

FILE = Path(__file__).with_name("golden.json")
DT, STEPS, SAVED = 0.005, 200, 50
"""[s], steps of a trajectory, and how many lie between two states that are stored"""
GRADIENT_STEPS = 20


def _thrown(model: bf.Model) -> bf.Model:
    """The same, moving and spinning at the start."""
    velocity, spin = jnp.array([[2.0, 0.3, -1.0]]), jnp.array([[1.0, 5.0, -2.0]])
    return eqx.tree_at(lambda m: (m.velocity, m.spin), model, (velocity, spin))


ROBOTS: dict[str, Callable[[], bf.Model]] = {
    "arm": robots.arm,
    "ball": lambda: _thrown(robots.ball()),
    "chain": robots.chain,
    "dog": robots.dog,
    "four_bar": robots.four_bar,
    "pendulum": lambda: robots.pendulum(motor=True),
    "quadruped": robots.quadruped,
    "quadruped17": robots.quadruped17,
    "struck_chain": robots.struck_chain,
}
SOLVERS: dict[str, bf.PGS | bf.InteriorPoint] = {
    "PGS": bf.PGS(sweeps=10),
    "interior point": bf.InteriorPoint(iterations=12),
}


def controls(model: bf.Model) -> jax.Array:
    """(STEPS, controls) slow sines, each with its own phase."""
    t = DT * np.arange(STEPS)[:, None]
    return jnp.asarray(0.4 * np.sin(6 * t + np.arange(model.controls)))


def trajectory(scheme: bf.Scheme, model: bf.Model) -> np.ndarray:
    """(STEPS / SAVED, n, 18) poses and velocities of all bodies."""

    @jax.jit
    def run(model):
        return bf.rollout(scheme, model, bf.rest(model), controls(model)).state

    state = run(model)
    n = len(model.topology.bodies)
    parts = [x.reshape(STEPS, n, -1) for x in (state.p_WB, state.R_WB, state.v_WB, state.w_WB)]
    return np.asarray(jnp.concatenate(parts, -1))[SAVED - 1 :: SAVED]


def gradient(scheme: bf.Scheme, model: bf.Model) -> dict[str, np.ndarray]:
    """Of where the bodies are after GRADIENT_STEPS steps, by gravity, mass or density, and controls."""

    def cost(model, u):
        end = bf.rollout(scheme, model, bf.rest(model), u).last
        weights = jnp.cos(jnp.arange(end.p_WB.size)).reshape(end.p_WB.shape)
        return jnp.sum(weights * (end.p_WB + 0.1 * end.w_WB))

    dmodel, du = jax.jit(jax.grad(cost, (0, 1)))(model, controls(model)[:GRADIENT_STEPS])
    return {
        "gravity": np.asarray(dmodel.gravity),
        "mass": np.asarray(dmodel.mass),
        "density": np.asarray(dmodel.density),
        "u": np.asarray(du.sum(0)),
    }


def measure(robot: str, solver: str) -> dict:
    """All golden numbers of a robot under a solver."""
    model, scheme = ROBOTS[robot](), bf.Scheme(dt=DT, solver=SOLVERS[solver])
    return {"trajectory": trajectory(scheme, model)} | gradient(scheme, model)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    numbers = {}
    for robot in ROBOTS:
        for solver in SOLVERS:
            numbers[f"{robot}, {solver}"] = {k: v.tolist() for k, v in measure(robot, solver).items()}
            print(robot, solver, flush=True)
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in numbers.items())
    FILE.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
