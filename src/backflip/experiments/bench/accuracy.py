"""How well a trotting robot's steps were solved, ours and MuJoCo's: what stands beside their speeds.

residual    99 % of the steps' rows hold within this; ours [m/s], MuJoCo's by its own scaled gradient
overlap     the deepest of any two shapes [m]
slip        mean speed [m/s] over the ground of the lowest point of feet that stand on it
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip import robots
from backflip.experiments.bench.job import DT, Job, trot
from backflip.experiments.bench.peers import load
from backflip.experiments.certificates.problems import Scene, record
from backflip.experiments.certificates.solver_table import residuals_of

STANDS = 2e-4
"""[m] a foot whose lowest point is lower stands"""
FOOT = 0.03
"""[m] radius of a foot"""
LEGS = ("fl", "fr", "bl", "br")


def slip_of(lowest: np.ndarray, velocity: np.ndarray) -> float:
    """Mean speed of standing feet: heights (n,) [m] and velocities (n, 3) [m/s] of lowest points."""
    stands = lowest < STANDS
    speed = np.linalg.norm(velocity[..., :2], axis=-1)
    return float(speed[stands].mean()) if stands.any() else 0.0


def ours(job: Job, solver: bf.Solver) -> float:
    """One of the three, of our robot's trot."""
    build = getattr(robots, job.robot)
    if job.what == "residual":
        jax.config.update("jax_enable_x64", True)  # residuals are measured in float64, problems stay float32
        trotting = Scene(job.robot, build, lambda t: trot(1, len(t))[0])
        [problems] = record((trotting,), DT, solver, job.steps)
        return float(np.quantile(residuals_of(solver, problems), 0.99))
    model: bf.Model = build()
    targets = jnp.asarray(trot(1, job.steps)[0], jnp.float32)
    states = jax.jit(lambda u: bf.rollout(bf.Scheme(DT, solver), model, bf.rest(model), u).state)(targets)
    if job.what == "overlap":
        return float(jax.vmap(lambda state: bf.penetration(model, state))(states).max())
    return slip_of(*_our_feet(model, states))


def _our_feet(model: bf.Model, states: bf.State) -> tuple[np.ndarray, np.ndarray]:
    """Heights (steps, 4) and velocities (steps, 4, 3) of the feet's lowest points."""
    names = model.topology.bodies
    cut = f"{LEGS[0]} lower end" in names
    feet = [names.index(f"{leg} lower end" if cut else f"{leg} lower") for leg in LEGS]
    end = np.array([0, 0, -0.0375 if cut else -0.075])  # [m] a foot sits at the end of its link
    p, R, v, w = (np.asarray(x, float)[:, feet] for x in (states.p_WB, states.R_WB, states.v_WB, states.w_WB))
    arm = R @ end - np.array([0, 0, FOOT])
    return (p + arm)[..., 2], v + np.cross(w, arm)


def mujocos(job: Job) -> float:
    """One of the three, of MuJoCo's trot."""
    import mujoco

    model, data = load(job.robot)
    _, seen = load(job.robot)
    feet = [model.geom(f"{leg} foot").id for leg in LEGS]
    found: list[Any] = []
    for u in trot(1, job.steps)[0]:
        data.ctrl[:] = u
        mujoco.mj_step(model, data)
        seen.qpos[:], seen.qvel[:] = data.qpos, data.qvel
        for update in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_comVel, mujoco.mj_collision):
            update(model, seen)
        found.append(MEASURES[job.what](model, data, seen, feet))
    if job.what == "slip":
        lowest, velocity = (np.array(x) for x in zip(*found, strict=True))
        return slip_of(lowest, velocity)
    return float(np.quantile(found, 0.99) if job.what == "residual" else np.max(found))


def _their_residual(model: Any, data: Any, seen: Any, feet: list[int]) -> float:
    """The scaled gradient at which its solver stopped; 0 where there was nothing to solve."""
    count = int(data.solver_niter[0])
    return float(data.solver[count - 1].gradient) if count else 0.0


def _their_overlap(model: Any, data: Any, seen: Any, feet: list[int]) -> float:
    return max(0.0, *(-contact.dist for contact in seen.contact), 0.0)


def _their_feet(model: Any, data: Any, seen: Any, feet: list[int]) -> tuple[np.ndarray, np.ndarray]:
    import mujoco

    twist, down = np.zeros((len(feet), 6)), np.array([0, 0, -FOOT])
    for k, foot in enumerate(feet):
        mujoco.mj_objectVelocity(model, seen, mujoco.mjtObj.mjOBJ_GEOM, foot, twist[k], 0)
    return seen.geom_xpos[feet, 2] - FOOT, twist[:, 3:] + np.cross(twist[:, :3], down)


MEASURES: dict[str, Callable] = {
    "residual": _their_residual,
    "overlap": _their_overlap,
    "slip": _their_feet,
}
