"""Our side of `backflip bench`: rollouts and their gradients through public names, on lanes or on XLA."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import backflip as bf
from backflip import robots
from backflip.experiments.bench.job import DT, SWEEPS, Job, Run, trot

INPUTS, OUTPUTS = 81, 16
"""of the paper's controllers"""
READINGS = 15
"""of each body that quadruped17 observes: position 3, velocity 3, orientation 9"""
SEEN = np.concatenate([np.r_[0:6, 12:15] + READINGS * body for body in range(9)])
"""The 81 of them that a controller gets, as the paper's does: position, velocity and orientation x 3 axes of
nine bodies. Of an orientation the last row: where up is."""
FORWARD = 3
"""Reading that is the torso's velocity along x."""


def prepare(job: Job) -> Run:
    """The job's program; it is traced for the job's engine and keeps it."""
    bf.set_backend("xla" if job.engine == "xla" else "lanes")
    if job.what.startswith("network"):
        return _network(job)
    if job.what == "drift":
        return _drift(job)
    return _trotting(job) if job.hidden is None else _walking(job)


def _trotting(job: Job) -> Run:
    """Mean torso speed [m/s] of a trot; gradient: with respect to the start and to all targets over time."""
    model = _robot(job.robot)
    targets = trot(job.robots, job.steps) if model.controls else np.zeros((job.robots, job.steps, 0))

    def speed(start, targets):
        return jnp.mean(bf.rollout(scheme(job), model, start, targets).state.v_WB[:, 0, 0])

    return _run(job, speed, (_starts(model, job.robots), jnp.asarray(targets, jnp.float32)), (0, 0), (0, 1))


def _walking(job: Job) -> Run:
    """Distance [m] with a controller in the loop; gradient: with respect to its weights.

    The distance is summed in the policy's memory, so nobody needs the whole trajectory.
    """
    model = _robot(job.robot)

    def distance(weights, start):
        def policy(observation, walked):
            return _act(weights, observation[SEEN]), walked + DT * observation[FORWARD]

        nothing = jnp.zeros((), jnp.float32)
        return bf.rollout(scheme(job), model, start, policy, steps=job.steps, memory=nothing).memory

    return _run(job, distance, (_weights(job), _starts(model, job.robots)), (None, 0), (0,))


def _network(job: Job) -> Run:
    """The controller alone, step after step and checkpointed as in a rollout, without a robot."""

    def last(weights, seen):
        def once(seen, _):
            u = _act(weights, seen)
            return jnp.concatenate([u, seen[len(u) :]]), None

        again = jax.checkpoint(once, prevent_cse=False)
        return jnp.mean(jax.lax.scan(again, seen, None, length=job.steps)[0])

    seen = np.random.default_rng(1).normal(size=(job.robots, INPUTS))
    return _run(job, last, (_weights(job), jnp.asarray(seen, jnp.float32)), (None, 0), (0,))


def _drift(job: Job) -> Run:
    """The largest gap [m] of a joint at any time of a trot."""
    model = _robot(job.robot)

    def drift(start, targets):
        states = bf.rollout(scheme(job), model, start, targets).state
        return jnp.max(jax.vmap(lambda state: bf.joint_error(model, state))(states))

    inputs = _starts(model, job.robots), jnp.asarray(trot(job.robots, job.steps), jnp.float32)
    return _run(job, drift, inputs, (0, 0), ())


def _run(job: Job, of_one: Callable, inputs: tuple, axes: tuple, wanted: tuple[int, ...]) -> Run:
    """The mean over robots, with the gradients of the inputs `wanted`; one robot has no batch axis."""
    if job.robots == 1:
        f = of_one
        inputs = tuple(
            x if a is None else jax.tree.map(lambda y: y[0], x) for x, a in zip(inputs, axes, strict=True)
        )
    else:

        def f(*inputs):
            return jnp.mean(jax.vmap(of_one, axes)(*inputs))

    program = jax.jit(jax.value_and_grad(f, argnums=wanted) if job.derives else f)

    def run() -> tuple[float, list[Any]]:
        value, *slopes = jax.tree.leaves(jax.block_until_ready(program(*inputs)))
        return float(value), slopes

    return run


def _robot(name: str) -> bf.Model:
    """quadruped, or chain 8."""
    kind, *links = name.split()
    return getattr(robots, kind)(*map(int, links))


def scheme(job: Job) -> bf.Scheme:
    """Sweeps, or the default solver."""
    return bf.Scheme(DT) if job.engine == "newton" else bf.Scheme(DT, solver=bf.PGS(sweeps=SWEEPS))


def _starts(model: bf.Model, count: int) -> bf.State:
    """Where `count` robots start: at rest."""
    return jax.device_put(jax.tree.map(lambda x: np.broadcast_to(x, (count, *x.shape)), bf.rest(model)))


def _weights(job: Job) -> list[Array]:
    """Small, so that the robot fidgets and does not fall."""
    sizes = (INPUTS, *(job.hidden or ()), OUTPUTS)
    random = np.random.default_rng(0)
    shapes = pairwise(sizes)
    return [jnp.asarray(random.normal(size=s) * 0.3 / math.sqrt(s[0]), jnp.float32) for s in shapes]


def _act(weights: list[Array], seen: Array) -> Array:
    """Rectifiers between dense layers without biases; two outputs add up to the target of one servo [rad]."""
    for layer in weights[:-1]:
        seen = jax.nn.relu(seen @ layer)
    out = seen @ weights[-1]
    return out[: OUTPUTS // 2] + out[OUTPUTS // 2 :]
