"""What `backflip bench` measures, and how much of it."""

from dataclasses import dataclass

from backflip.experiments.bench.job import ACCURACY, Job

DEEP = (1024, 1024)
"""hidden layers of the paper's large controller; its small one has none"""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rounds: int = 7
    """samples of every speed"""
    starts: int = 3
    """processes of every first gradient"""
    many: int = 128
    """robots in a batch"""
    steps: int = 1000
    xla_steps: tuple[int, int, int, int] = (1000, 100, 100, 50)
    """of XLA, which is slow: forward and gradient of one robot, forward and gradient of many"""
    xla_robots: tuple[str, ...] = ("quadruped", "quadruped17")
    """that XLA is measured on: it compiles for minutes"""
    deep_steps: int = 100
    """of the paper's large controller: minutes of matrix products otherwise"""
    wide: int = 1024
    wide_steps: int = 200
    """robots and steps for two cores against one"""
    links: tuple[int, ...] = (4, 8, 16, 32)
    link_steps: int = 200
    memory_steps: tuple[int, int] = (1000, 10_000)
    xla_flags: str = ""


FULL = Size()
QUICK = Size(
    rounds=2,
    starts=1,
    many=16,
    steps=60,
    xla_steps=(60, 10, 20, 5),
    xla_robots=("quadruped",),
    deep_steps=10,
    wide=64,
    wide_steps=20,
    links=(2, 4),
    link_steps=20,
    memory_steps=(50, 200),
    xla_flags="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
)
"""To see that everything runs; its figures mean nothing."""

Race = tuple[Job, ...]
"""Jobs that are sampled in turn."""


def plan(size: Size) -> list[Race]:
    """Everything the issue's table asks for."""
    return [
        *(_engines(size, robot) for robot in ("quadruped", "quadruped17")),
        tuple(Job("lanes", "drift", robot, 1, size.steps) for robot in ("quadruped", "quadruped17")),
        tuple(
            Job(engine, what, robot, 1, size.steps)
            for robot in ("quadruped", "quadruped17")
            for engine in ("lanes", "newton", "mujoco")
            for what in ACCURACY
        ),
        tuple(Job("lanes", when, "quadruped", 1, size.steps, 2) for when in ("cold", "warm")),
        tuple(
            Job("lanes", what, "quadruped", size.wide, size.wide_steps, cores)
            for what in ("forward", "gradient")
            for cores in (1, 2)
        ),
        tuple(
            Job("lanes", what, f"chain {links}", size.many, size.link_steps)
            for links in size.links
            for what in ("forward", "gradient")
        ),
        *(_memory(size, robot, hidden) for robot, hidden in (("quadruped", None), ("quadruped17", ()))),
        *(_controllers(size, robots) for robots in (1, size.many)),
    ]


def _engines(size: Size, robot: str) -> Race:
    """Forward and gradient, one robot and many, by every engine; MuJoCo has no gradient of a batch."""
    cases = [(robots, what) for robots in (1, size.many) for what in ("forward", "gradient")]
    ours = [
        Job(engine, what, robot, robots, size.steps)
        for engine in ("lanes", "newton")
        for robots, what in cases
    ]
    xla = [
        Job("xla", what, robot, robots, steps)
        for (robots, what), steps in zip(cases, size.xla_steps, strict=True)
        if robot in size.xla_robots
    ]
    peers = [Job("mujoco", what, robot, robots, size.steps) for robots, what in cases[:3]]
    return (*ours, *xla, *peers)


def _memory(size: Size, robot: str, hidden: tuple[int, ...] | None) -> Race:
    return tuple(
        Job("lanes", "memory", robot, size.many, steps, hidden=hidden) for steps in size.memory_steps
    )


def _controllers(size: Size, robots: int) -> Race:
    """The paper's Table 1, and its controllers without a robot."""
    return tuple(
        Job(
            "lanes",
            what,
            "quadruped17",
            robots,
            size.deep_steps if hidden else size.steps,
            hidden=hidden,
        )
        for hidden in ((), DEEP)
        for what in ("forward", "gradient", "network", "network gradient")
    )
