"""A quadruped learns to run (Degrave et al., section 3.3): 17,952 weights, 10 s at a time.

The controller sees nothing but a sine and a cosine. The paper: 1.17 m/s after 500 simulations and an hour,
with somersaults; by hand a trot of 0.7 m/s.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.audit import BARS, Audit, audit, finer
from backflip.experiments.base import Claim, Progress, read_result
from backflip.experiments.quadruped.trot import DT, Trot, controls, network, symmetric
from backflip.experiments.quadruped.walk import disturbed
from backflip.experiments.training import (
    SEEDS,
    first_below,
    median,
    middle,
    seconds_per_update,
    simulations,
    train_seeds,
)

NAME = "gait"
SUMMARY = "a quadruped learns to run, from a sine and a cosine"

SECONDS, SWEEPS = 10.0, 20
OWN_DT = 0.005
"""[s] at a run feet strike hard: with DT they would sink too far"""
ROBOTS, UPDATES, RATE = 4, 122, 0.07
"""simulations for one update; how many updates, and how long the first step is: they shrink to nothing along
half a cosine"""
PUSHED = 0.0, 0.03, 0.1, 0.0
"""a small disturbance, see `walk`: the gradients of the four differ, and their mean tells more than one"""
FADE, CLIP = 0.99, 1.0
"""of the gradient, per step backwards"""
FELL = 0.3
"""[m/s] a cost so much above the best is taken for a fall"""
UPRIGHT = 1.0
"""[m/s] what lying on its side costs; upright it is nothing"""
FAST = 1.3
"""[m/s]"""
PRINTED = 4.0
"""[N m] the torque that the paper prints"""
BEST_TROT = Trot(hip=0.5, knee=0.3, bend=-0.5, lead=2.4, lean=0.05, beat=0.6, beat_lead=0.5)
"""of 324 that were tried by hand"""
KICKING = Trot(hip=0.35, knee=0.2, bend=-0.5, lead=2.4, lean=0.05, beat=0.4, beat_lead=0.2)
"""what training starts from: smaller, slower, and with knees that beat twice in a stride too"""


class Problem(NamedTuple):
    """The task, with the torque of one kind of servo."""

    model: Any
    scheme: Any
    start: Any

    def cost(self, policy, key):
        """Backward speed, and how far from upright."""
        import backflip as bf

        hooks = bf.gradients.fade(FADE), bf.gradients.clip(CLIP)
        start = disturbed(self.start, key, PUSHED)
        path = bf.rollout(self.scheme, self.model, start, self.plan(policy, self.scheme), hooks=hooks)
        speed, upright = path.state.v_WB[:, 0, 0].mean(), path.state.R_WB[:, 0, 2, 2]
        return UPRIGHT * (1 - upright).mean() - speed, {"speed": speed, "upright": upright.min()}

    def run(self, policy, fine: bool = False):
        """From rest, as it was trained or with steps a quarter as long."""
        import backflip as bf

        scheme = finer(self.scheme) if fine else self.scheme
        return bf.rollout(scheme, self.model, self.start, self.plan(policy, scheme))

    @staticmethod
    def plan(policy, scheme):
        """(steps, 8) what a policy does; left and right do the same, so the robot runs straight on."""
        return controls(symmetric(policy), round(SECONDS / scheme.dt), round(DT / scheme.dt))


def problem(max_torque: float | None = None, dt: float = DT) -> Problem:
    """The quadruped of the paper, with the torque it needs or with the one that is printed."""
    import backflip as bf
    from backflip.robots import dog

    model = dog() if max_torque is None else dog(max_torque=max_torque)
    return Problem(model, bf.Scheme(dt=dt, solver=bf.PGS(sweeps=SWEEPS)), bf.rest(model))


def learn(setup: Problem, seed: int, updates: int = UPDATES, **how: Any):
    """Gradient descent with steps of one length, along gradients that fade backwards in time."""
    import jax

    import backflip as bf

    return bf.train(
        setup.cost,
        network(seed, KICKING),
        optimizer=steady_descent(RATE, UPDATES, FELL),
        updates=updates,
        robots=ROBOTS,
        key=jax.random.key(seed),
        **how,
    )


def steady_descent(rate: float, updates: int, fell: float):
    """Steps of one length, which shrinks along half a cosine; back to the best weights after a fall."""
    import optax

    import backflip as bf

    return optax.chain(
        optax.normalize_by_update_norm(),
        optax.sgd(optax.cosine_decay_schedule(rate, updates)),
        bf.return_to_best(fell),
    )


class Measured(NamedTuple):
    """A motion measured."""

    speed: float
    """[m/s] of the spine, mean over 10 s"""
    fine_speed: float
    """[m/s] the same with steps a quarter as long"""
    upright: float
    """least cosine of the spine's tilt"""
    audit: Audit


def measure(setup: Problem, policy) -> Measured:
    """Run with the steps of training, and with finer ones."""
    import equinox as eqx

    coarse, fine = (eqx.filter_jit(setup.run)(policy, fine=it) for it in (False, True))
    return Measured(
        float(coarse.state.v_WB[:, 0, 0].mean()),
        float(fine.state.v_WB[:, 0, 0].mean()),
        float(coarse.state.R_WB[:, 0, 2, 2].min()),
        audit(setup.model, setup.start, coarse),
    )


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Five seeds; the best trot; one run with the printed torque."""
    import backflip as bf

    setup, weak = problem(dt=OWN_DT), problem(PRINTED, OWN_DT)
    trained = train_seeds(out, seed, progress, resume, lambda s, **how: learn(setup, s, **how))
    feebly = train_seeds(
        out, seed, progress, resume, lambda s, **how: learn(weak, s, 40, **how), 1, "printed torque"
    )
    printed = feebly[0][1]
    logs = [log for _, log in trained]
    speeds = [log.column("speed") for log in logs]
    measured = [measure(setup, log.best) for log in logs]
    trot = measure(setup, network(seed, BEST_TROT))
    for s, log in enumerate(logs, seed):
        bf.save_weights(out / f"weights-{s}.npz", log.best)
    shown = middle([m.speed for m in measured])
    _draw(out, setup, logs[shown], speeds, trot.speed, printed.column("speed"))
    fast = [first_below(-s, -FAST) for s in speeds]
    return {
        "evaluations": simulations(logs[0], UPDATES),
        "error": -float(np.median([m.speed for m in measured])),
        "evaluations_to_1.3_m_per_s": [simulations(log, n) for log, n in zip(logs, fast, strict=True)],
        "seconds_to_1.3_m_per_s": [_seconds(log, n) for log, n in zip(logs, fast, strict=True)],
        "speeds": [m.speed for m in measured],
        "speeds_at_quarter_step": [m.fine_speed for m in measured],
        "upright": [m.upright for m in measured],
        "audits": [m.audit._asdict() for m in measured],
        "trot_by_hand": trot._asdict() | {"audit": trot.audit._asdict()},
        "printed_torque_speed": float(printed.column("speed").max()),
        "seconds_per_update": seconds_per_update(logs),
        "files": ["convergence.png", "replay.html", "motion.png"],
    }


def _seconds(log, count: int | None) -> float | None:
    """[s] that the first `count` updates took."""
    return None if count is None else float(log.column("seconds")[:count].sum())


def _draw(out: Path, setup: Problem, log, speeds, trot: float, printed) -> None:
    import equinox as eqx

    import backflip as bf
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    with figure(
        out / "convergence.png", title="A quadruped learns to run", x="simulations", y="mean speed [m/s]"
    ) as axes:
        for k, curve in enumerate(speeds):
            axes.plot(ROBOTS * np.arange(len(curve)), curve, color=PALETTE[k], label=f"seed {k}")
        axes.plot(
            ROBOTS * np.arange(len(printed)), printed, color=INK, alpha=0.5, label="printed torque of 4 N m"
        )
        axes.axhline(trot, color=INK, linestyle=":", label="the best of 324 trots")
        axes.axhline(FAST, color=INK, linestyle="--", linewidth=1, label="asked")
    path = eqx.filter_jit(setup.run)(log.best)
    curve = {"mean over 10 s": log.column("speed").tolist()}
    title = "A quadruped that learned to run"
    bf.save_replay(
        out / "replay.html",
        setup.model,
        path,
        title=title,
        curve=curve,
        curve_label=("update", "speed [m/s]"),
    )
    bf.save_frames(out / "motion.png", setup.model, path, times=(5.0, 5.1, 5.2, 5.3, 5.4, 5.5))


def verify(out: Path) -> list[Claim]:
    """Play the stored controllers again."""
    import backflip as bf

    record = read_result(out.parent / f"{NAME}.json")
    setup, seeds = problem(dt=OWN_DT), range(record["seed"], record["seed"] + SEEDS)
    policies = [bf.load_weights(out / f"weights-{s}.npz", network(s)) for s in seeds]
    stored = [measure(setup, policy) for policy in policies]
    speed, fine = (float(np.median([getattr(m, x) for m in stored])) for x in ("speed", "fine_speed"))
    evaluations, seconds = (median(record[f"{what}_to_1.3_m_per_s"]) for what in ("evaluations", "seconds"))
    worst = Audit(*np.max([m.audit for m in stored], axis=0))
    physical = sum(m.audit.ok for m in stored)
    claim = partial(Claim, NAME)

    return [
        claim("speed of the stored controllers, median", ">= 1.3 m/s", f"{speed:.3f} m/s", speed >= FAST),
        claim("the same with steps a quarter as long", ">= 1.3 m/s", f"{fine:.3f} m/s", fine >= FAST),
        claim("simulations to 1.3 m/s, median of the run", "<= 500", f"{evaluations:g}", evaluations <= 500),
        claim("time to 1.3 m/s, median of the run", "<= 120 s", f"{seconds:.0f} s", seconds <= 120),
        claim("the motions are physics", f"all: {BARS}", f"{physical} of {SEEDS}; worst {worst.text()}",
              physical == SEEDS),
    ]  # fmt: skip
