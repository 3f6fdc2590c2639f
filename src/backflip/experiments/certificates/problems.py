"""Problems that solvers meet: the rows of every step of robots that trot, stumble, stand, lie and gallop, of
an arm against its stop and of boxes on each other.

A problem is what a solver gets: rows, Delassus matrix, row velocities, in float32, with last step's impulses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import backflip as bf
from backflip.robots import quadruped, quadruped17

STEPS = 200
"""problems of a scene and time step"""
TIMES = (0.005, 0.01)
"""[s]"""
LEG_PHASES = {"trot": (0.0, np.pi, np.pi, 0.0), "gallop": (0.0, 0.4, np.pi, np.pi + 0.4)}
"""[rad] front left, front right, back left, back right"""

Problem = tuple[Any, Any, Array]
"""rows, delassus, velocity, as Solver.solve gets them; with a leading axis, of many"""


class Recorder(bf.Solver):
    """Solves by `inner` and hands every problem out; on XLA only."""

    inner: bf.Solver
    keep: Callable[[Problem], None] = eqx.field(static=True)

    @property
    def friction(self) -> bf.Friction:
        """Of `inner`."""
        return self.inner.friction

    @property
    def gradient(self) -> Any:
        """Of `inner`."""
        return self.inner.gradient

    def solve(self, rows: Any, delassus: Any, velocity: Array) -> Array:
        """As `inner`."""
        jax.debug.callback(self.keep, (rows, delassus, velocity))
        return self.inner.solve(rows, delassus, velocity)


@dataclass(frozen=True)
class Scene:
    """A model, and what its actuators are told at times t (n,) [s]."""

    name: str
    model: Callable[[], bf.Model]
    controls: Callable[[np.ndarray], np.ndarray]


def _gait(which: str, hertz: float, shoulder: tuple[float, float], elbow: tuple[float, float]) -> Callable:
    """Sines: middle and swing [rad] of shoulders and elbows, at full stride after half a second."""

    def controls(t: np.ndarray) -> np.ndarray:
        phase = 2 * np.pi * hertz * t[:, None] + np.array(LEG_PHASES[which])
        targets = np.stack(
            [shoulder[0] + shoulder[1] * np.sin(phase), elbow[0] + elbow[1] * np.cos(phase)], -1
        )
        return np.minimum(1, 2 * t)[:, None] * targets.reshape(len(t), 8)

    return controls


def stumble(t: np.ndarray) -> np.ndarray:
    """Sines with random phases for the first half, then new random targets every 0.1 s."""
    random = np.random.default_rng(0)
    phase = random.uniform(0, 2 * np.pi, 8)
    sines = 0.4 * np.sin(4 * np.pi * t[:, None] + phase)
    jumps = random.normal(0, 0.7, (1000, 8))[(10 * t).astype(int)]
    return np.where(t[:, None] < t[-1] / 2, sines, jumps)


def _hold(*targets: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: np.broadcast_to(targets, (len(t), len(targets)))


def _arm() -> bf.Model:
    """Two links pressed against the stop of the elbow, and the tip against the ground."""
    b = bf.Builder()
    b.add_ground(friction=0.8)
    for name, z in (("upper", 0.7), ("lower", 0.3)):
        b.add_body(name, mass=2.0, position=(0, 0, z), inertia=(0.03, 0.03, 0.003), group="arm")
    b.add_shape("lower", bf.Sphere(0.06), position=(0, 0, -0.2))
    b.add_hinge("shoulder", "world", "upper", position=(0, 0, 0.9), axis=(0, 1, 0))
    b.add_hinge("elbow", "upper", "lower", position=(0, 0, 0.5), axis=(0, 1, 0), limits=(-0.1, 1.2))
    for joint in ("shoulder", "elbow"):
        b.add_servo(joint, gain=15.0, max_velocity=5.0, max_torque=60.0)
    return b.build()


def _beat(t: np.ndarray) -> np.ndarray:
    return np.stack([0.6 * np.sin(6 * t), -0.4 + 1.5 * np.sin(9 * t)], -1)


def _boxes(*masses: float) -> Callable[[], bf.Model]:
    def model() -> bf.Model:
        b = bf.Builder()
        b.add_ground(friction=0.5)
        for i, mass in enumerate(masses):
            place = (0.004 * i, -0.003 * i, 0.1 + 0.2 * i)
            b.add_body(f"box{i}", bf.Box((0.2, 0.2, 0.2)), mass=mass, position=place)
            for j in range(i - 1):
                b.ignore_contact(f"box{j}", f"box{i}")
            if i:
                b.ignore_contact("world", f"box{i}")
        return b.build()

    return model


GAITS = {
    "trots": _gait("trot", 2.5, (0.1, 0.08), (-0.2, 0.16)),
    "stumbles": stumble,
    "stands": _hold(*(0.1, -0.2) * 4),
    "lies": _hold(*(1.4, -2.4) * 4),
    "gallops": _gait("gallop", 3.0, (0.1, 0.3), (-0.2, 0.3)),
}
SCENES = (
    *(Scene(f"a quadruped of 9 bodies {what}", quadruped, controls) for what, controls in GAITS.items()),
    *(Scene(f"a quadruped of 17 bodies {what}", quadruped17, controls) for what, controls in GAITS.items()),
    Scene("an arm against its stop", _arm, _beat),
    Scene("a stack of five boxes", _boxes(*[8.0] * 5), _hold()),
    Scene("a box 1,000 times heavier on another", _boxes(1.0, 1000.0), _hold()),
)


def single(tree: Any) -> Any:
    """All floats in float32."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32) if eqx.is_inexact_array(x) else x, tree)


def record(scenes: tuple[Scene, ...], dt: float, solver: bf.Solver, steps: int) -> Iterator[Problem]:
    """All problems of each scene in turn, stacked; robots move by `solver`. Scenes share their program."""
    programs: dict[Callable, tuple] = {}
    for scene in scenes:
        if scene.model not in programs:
            programs[scene.model] = _program(scene.model(), dt, solver)
        run, kept = programs[scene.model]
        kept.clear()
        with bf.backend("xla"):
            run(jnp.asarray(scene.controls(dt * np.arange(steps)), jnp.float32))
            jax.effects_barrier()
        yield jax.tree.map(lambda *x: np.stack(x), *kept)


def _program(model: bf.Model, dt: float, solver: bf.Solver) -> tuple[Callable, list[Problem]]:
    """A rollout from rest under controls, and where its problems go."""
    kept: list[Problem] = []
    scheme = bf.Scheme(dt, Recorder(solver, lambda problem: kept.append(jax.tree.map(np.asarray, problem))))
    model = single(model)
    start = single(bf.rest(model))
    return jax.jit(lambda u: bf.rollout(scheme, model, start, u).last.p_WB), kept
