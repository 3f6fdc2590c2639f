"""A quadruped learns to run (Degrave et al., section 3.3): 17,952 weights, one robot, 10 s at a time.

The controller sees nothing but a sine and a cosine. The paper: 1.17 m/s after 500 simulations and an hour,
with somersaults; by hand a trot of 0.7 m/s.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.base import Claim, Progress
from backflip.experiments.honest import BARS, FINER, Audit, audit, finer
from backflip.experiments.school import SEEDS, first_below, median, middle, seconds_per_update, train_seeds

NAME = "gait"
SUMMARY = "a quadruped learns to run, from a sine and a cosine"

STEPS, DT, SWEEPS = 1000, 0.01, 20
FREQUENCY = 1.5
"""[Hz]"""
STRIDE = 200
"""steps that make whole strides, over which a posture is the mean"""
UPDATES, RATE = 400, 0.05
"""how many steps, and how long the first is: they shrink to nothing along half a cosine"""
FADE, CLIP = 0.98, 1.0
"""of the gradient, per step backwards"""
FELL = 0.3
"""[m/s] a cost so much above the best is taken for a fall"""
UPRIGHT = 1.0
"""[m/s] what lying on its side costs; upright it is nothing"""
POSTURE = 0.5
"""how much of its mean angle a servo is given. Rectifiers are all bias: without this a step of the weights
moves the posture several times as far as the swing, and the robot leans until it falls"""
FAST = 1.3
"""[m/s]"""
PRINTED = 4.0
"""[N m] the torque that the paper prints"""


class Trot(NamedTuple):
    """Diagonal legs together; all in rad."""

    hip: float
    knee: float
    """swings"""
    bend: float
    """of the knees, mean"""
    lead: float
    """of the knee before the hip"""
    lean: float
    """of the hips, mean"""

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """(8, 2) and (8,): what a dense layer on sine and cosine needs to trot."""
        swings, means = [], []
        for phase in (0.0, np.pi, np.pi, 0.0):
            for swing, ahead, mean in (
                (self.hip, phase, self.lean),
                (self.knee, phase + self.lead, self.bend),
            ):
                swings.append([-swing * np.sin(ahead), swing * np.cos(ahead)])
                means.append(mean)
        return np.array(swings), np.array(means)


BY_HAND = Trot(hip=0.68, knee=0.56, bend=-0.65, lead=2.71, lean=0.05)
"""tuned by trial"""
SLOW = Trot(hip=0.3, knee=0.3, bend=-0.15, lead=2.5, lean=0.05)
"""what training starts from. Standing still is a saddle: all legs are alike, no small change of one lifts a
foot, and what the gradient finds is to lean forward, and fall"""


class Problem(NamedTuple):
    """The task, with the torque of one kind of servo."""

    model: Any
    scheme: Any
    start: Any

    def rollout(self, controls, between=(), fine=False):
        import backflip as bf

        scheme = finer(self.scheme) if fine else self.scheme
        return bf.rollout(scheme, self.model, self.start, controls, between=between)

    def cost(self, policy, key):
        """Backward speed, and how far from upright."""
        import backflip as bf

        path = self.rollout(controls(policy), (bf.fade(FADE), bf.clip(CLIP)))
        speed, upright = path.state.v_WB[:, 0, 0].mean(), path.state.R_WB[:, 0, 2, 2]
        return UPRIGHT * (1 - upright).mean() - speed, {"speed": speed, "upright": upright.min()}


def controls(policy, fine: bool = False, steps: int | None = None, ahead=0.0):
    """(steps, 8) what a policy does with the clock, which may be `ahead` by a part of a stride."""
    import backflip as bf

    times = FINER if fine else 1
    dt = DT / times
    stride = bf.play(policy, bf.clock(times * STRIDE, dt, FREQUENCY)).mean(0)
    angles = bf.play(policy, bf.clock(steps or times * STEPS, dt, FREQUENCY, ahead))
    return angles - (1 - POSTURE) * stride


def problem(max_torque: float | None = None) -> Problem:
    """The quadruped of the paper, with the torque it needs or with the one that is printed."""
    import backflip as bf
    from backflip.robots import dog

    model = dog() if max_torque is None else dog(max_torque=max_torque)
    return Problem(model, bf.Scheme(dt=DT, solver=bf.PGS(sweeps=SWEEPS)), bf.rest(model))


def network(seed: int, trot: Trot = SLOW):
    """2-128-128-8 with skip, 17,952 weights; the skip layer trots, the rest is silent at first."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import backflip as bf

    silent = bf.MLP(2, 8, (128, 128), key=jax.random.key(seed), skip=True)
    swings, means = (jnp.asarray(x, jnp.zeros(()).dtype) for x in trot.weights)
    return eqx.tree_at(lambda p: (p.skip.weight, p.skip.bias), silent, (swings, means / POSTURE))


def learn(setup: Problem, seed: int, updates: int = UPDATES, **how: Any):
    """Gradient descent with steps of one length, along a gradient that fades backwards in time."""
    import jax

    import backflip as bf

    key, optimizer = jax.random.key(seed), steady_descent(RATE, UPDATES, FELL)
    return bf.train(setup.cost, network(seed), optimizer=optimizer, updates=updates, key=key, **how)


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


def measure(setup: Problem, plan) -> Measured:
    """Play `plan(fine)` as it was trained, and with a finer step."""
    import jax

    coarse = jax.jit(setup.rollout)(plan(False))
    fine = jax.jit(lambda u: setup.rollout(u, fine=True))(plan(True))
    return Measured(
        float(coarse.state.v_WB[:, 0, 0].mean()),
        float(fine.state.v_WB[:, 0, 0].mean()),
        float(coarse.state.R_WB[:, 0, 2, 2].min()),
        audit(setup.model, setup.start, coarse),
    )


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Five seeds; the hand-tuned trot; one run with the printed torque."""
    import backflip as bf

    setup, weak = problem(), problem(PRINTED)
    found = train_seeds(out, seed, progress, resume, lambda s, **how: learn(setup, s, **how))
    feebly = train_seeds(
        out, seed, progress, resume, lambda s, **how: learn(weak, s, 150, **how), 1, "printed torque"
    )
    printed = feebly[0][1]
    logs = [log for _, log in found]
    speeds = [log.column("speed") for log in logs]
    measured = [measure(setup, lambda fine, p=log.best: controls(p, fine)) for log in logs]
    by_hand = measure(setup, lambda fine: controls(network(seed, BY_HAND), fine))
    for s, log in enumerate(logs, seed):
        bf.save_weights(out / f"weights-{s}.npz", log.best)
    shown = middle([m.speed for m in measured])
    _draw(out, setup, logs[shown], speeds, by_hand.speed, printed.column("speed"))
    fast = [first_below(-s, -FAST) for s in speeds]
    return {
        "evaluations": UPDATES,
        "error": -float(np.median([m.speed for m in measured])),
        "evaluations_to_1.3_m_per_s": fast,
        "seconds_to_1.3_m_per_s": [_seconds(log, n) for log, n in zip(logs, fast, strict=True)],
        "speeds": [m.speed for m in measured],
        "speeds_at_quarter_step": [m.fine_speed for m in measured],
        "upright": [m.upright for m in measured],
        "audits": [m.audit._asdict() for m in measured],
        "trot_by_hand": by_hand._asdict() | {"audit": by_hand.audit._asdict()},
        "printed_torque_speed": float(printed.column("speed").max()),
        "seconds_per_update": seconds_per_update(logs),
        "files": ["convergence.png", "replay.html", "motion.png"],
    }


def _seconds(log, count: int | None) -> float | None:
    """[s] that the first `count` updates took."""
    return None if count is None else float(log.column("seconds")[:count].sum())


def _draw(out: Path, setup: Problem, log, speeds, by_hand: float, printed) -> None:
    import jax

    import backflip as bf
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    with figure(
        out / "convergence.png", title="A quadruped learns to run", x="simulations", y="mean speed [m/s]"
    ) as axes:
        for k, curve in enumerate(speeds):
            axes.plot(curve, color=PALETTE[k], label=f"seed {k}")
        axes.plot(printed, color=INK, alpha=0.5, label="printed torque of 4 N m")
        axes.axhline(by_hand, color=INK, linestyle=":", label="trot tuned by hand")
        axes.axhline(FAST, color=INK, linestyle="--", linewidth=1, label="asked")
    path = jax.jit(setup.rollout)(controls(log.best))
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

    record = json.loads((out.parent / f"{NAME}.json").read_text(encoding="utf-8"))
    setup, seeds = problem(), range(record["seed"], record["seed"] + SEEDS)
    policies = [bf.load_weights(out / f"weights-{s}.npz", network(s)) for s in seeds]
    stored = [measure(setup, lambda fine, p=policy: controls(p, fine)) for policy in policies]
    speed, fine = (float(np.median([getattr(m, x) for m in stored])) for x in ("speed", "fine_speed"))
    evaluations, seconds = (median(record[f"{what}_to_1.3_m_per_s"]) for what in ("evaluations", "seconds"))
    worst = Audit(*np.max([m.audit for m in stored], axis=0))
    honest = sum(m.audit.ok for m in stored)

    def claim(text: str, asked: str, measured: str, ok: bool) -> Claim:
        return Claim(NAME, text, asked, measured, bool(ok))

    return [
        claim("speed of the stored controllers, median", ">= 1.3 m/s", f"{speed:.3f} m/s", speed >= FAST),
        claim("the same with steps a quarter as long", ">= 1.3 m/s", f"{fine:.3f} m/s", fine >= FAST),
        claim("simulations to 1.3 m/s, median of the run", "<= 500", f"{evaluations:g}", evaluations <= 500),
        claim("time to 1.3 m/s, median of the run", "<= 120 s", f"{seconds:.0f} s", seconds <= 120),
        claim("the motions are physics", f"all: {BARS}", f"{honest} of {SEEDS}; worst {worst.told()}",
              honest == SEEDS),
    ]  # fmt: skip
