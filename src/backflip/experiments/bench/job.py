"""What is measured: a Job, the time step and the sweeps of all, and the trot that robots play."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

DT, SWEEPS = 0.01, 10
"""[s] a step, and the sweeps of its solver; the engine newton has the default one instead"""

ACCURACY = ("residual", "overlap", "slip")
"""How well steps are solved: [m/s], [m], [m/s]."""
FIGURES = ("cold", "warm", "memory", "drift", *ACCURACY)
"""What a process finds once, while it gets ready: [s], [s], [bytes], [m], ..."""
DERIVING = ("gradient", "network gradient", "cold", "warm", "memory")


@dataclass(frozen=True)
class Job:
    """One thing to measure, in a process of its own."""

    engine: str
    """lanes, newton (lanes too, with the default solver), xla or mujoco"""
    what: str
    """forward, gradient, network (the controller alone), network gradient, or one of FIGURES"""
    robot: str
    """a function of backflip.robots, or chain with its number of links"""
    robots: int
    steps: int
    cores: int = 1
    hidden: tuple[int, ...] | None = None
    """layers of the controller between 81 and 16; None: the robot plays its trot"""

    @property
    def name(self) -> str:
        """What it is called in the results."""
        words = [self.engine, self.what, self.robot, f"x{self.robots}"]
        words += [] if self.hidden is None else ["81-" + "".join(f"{n}-" for n in self.hidden) + "16"]
        words += [f"{self.steps} steps"] if self.what == "memory" else []
        words += [f"{self.cores} cores"] if self.cores > 1 else []
        return " ".join(words)

    @property
    def derives(self) -> bool:
        """Whether it runs backwards too."""
        return self.what in DERIVING

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Job":
        """From the command line."""
        fields = json.loads(text)
        return Job(**{**fields, "hidden": None if fields["hidden"] is None else tuple(fields["hidden"])})


HERTZ, RAMP = 2.5, 1.0
"""[Hz] of the trot, [s] until it takes full strides"""
SHOULDER, ELBOW = (0.1, 0.04), (-0.2, 0.08)
"""[rad] middle and swing. 4 Nm carry it, and no robot falls, neither ours nor MuJoCo's. Of 72 gaits tried it
is one of two in which every robot's gradient over 1,000 steps stays finite in float32: most grow
exponentially. Time hardly depends on it: our program has no branches, MuJoCo took much the same for five."""
LEG_PHASES = (0.0, np.pi, np.pi, 0.0)
"""[rad] legs move in diagonal pairs"""


def trot(robots: int, steps: int) -> np.ndarray:
    """Servo targets (robots, steps, 8) [rad]: sines, whose swings make all robots differ."""
    t = DT * np.arange(steps)[:, None]
    phase = 2 * np.pi * HERTZ * t + np.array(LEG_PHASES)
    swing = 1 + np.arange(robots)[:, None, None] / (8 * robots)
    shoulder = SHOULDER[0] + swing * SHOULDER[1] * np.sin(phase)
    elbow = ELBOW[0] + swing * ELBOW[1] * np.cos(phase)
    targets = np.minimum(1, t / RAMP)[..., None] * np.stack([shoulder, elbow], -1)
    return targets.reshape(robots, steps, 8)


Run = Callable[[], tuple[float, list[Any]]]
"""Runs a program to its end: its value, and the arrays of its gradients if it has any. The first compiles."""
