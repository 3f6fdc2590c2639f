"""MuJoCo's side of `backflip bench`: the same robots (benchmarks/*.xml), time step and servo targets."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from backflip.experiments.bench.job import Job, Run, trot

FOLDER = Path(__file__).parents[4] / "benchmarks"
"""Where the MJCF files lie in a checkout."""
NUDGE = 1e-6
"""of the finite differences, one-sided: half the price of central ones"""


def missing() -> str:
    """What there is not, in words; nothing if MuJoCo can run."""
    if not FOLDER.is_dir():
        return f"bench needs a checkout of backflip, with MuJoCo's robots in {FOLDER}"
    if importlib.util.find_spec("mujoco") is None:
        return "bench needs MuJoCo to compare with: pip install mujoco"
    return ""


def prepare(job: Job) -> Run:
    """forward: mujoco.rollout in one thread; gradient: mjd_transitionFD of every step, chained backwards."""
    return _gradient(job) if job.derives else _forward(job)


def load(robot: str) -> tuple[Any, Any]:
    """Model and data of one of our robots."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(str(FOLDER / f"{robot}.xml"))
    return model, mujoco.MjData(model)


def _forward(job: Job) -> Run:
    """All states of all robots, into arrays that exist already."""
    import mujoco
    from mujoco import rollout

    model, data = load(job.robot)
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.zeros((job.robots, mujoco.mj_stateSize(model, full)))
    for one in start:
        mujoco.mj_getState(model, data, one, full)
    targets = trot(job.robots, job.steps)
    states = np.zeros((job.robots, job.steps, start.shape[1]))
    ahead = 1 + model.nq  # a state is time, qpos, qvel, ...

    def run() -> tuple[float, list[Any]]:
        rollout.rollout(model, data, start, targets, state=states)
        return float(states[..., ahead].mean()), []

    return run


def _gradient(job: Job) -> Run:
    """Mean torso speed of one robot, and its gradient with respect to the start and to all targets.

    xₜ₊₁ = f(xₜ, uₜ),  Aₜ = ∂f/∂xₜ,  Bₜ = ∂f/∂uₜ      λₜ = Aₜᵀ (λₜ₊₁ + e/T),  ∂/∂uₜ = Bₜᵀ (λₜ₊₁ + e/T)
    """
    import mujoco

    model, data = load(job.robot)
    targets, n = trot(1, job.steps)[0], 2 * model.nv
    A, B = np.zeros((job.steps, n, n)), np.zeros((job.steps, n, model.nu))
    slopes = np.zeros_like(targets)

    def run() -> tuple[float, list[Any]]:
        mujoco.mj_resetData(model, data)
        speed = 0.0
        for t, u in enumerate(targets):
            data.ctrl[:] = u
            mujoco.mjd_transitionFD(model, data, NUDGE, False, A[t], B[t], None, None)
            mujoco.mj_step(model, data)
            speed += data.qvel[0] / job.steps
        pull = np.zeros(n)
        for t in reversed(range(job.steps)):
            pull[model.nv] += 1 / job.steps
            slopes[t] = pull @ B[t]
            pull = pull @ A[t]
        return float(speed), [pull, slopes]

    return run
