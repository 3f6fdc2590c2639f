"""A quadruped learns to run as an animal does: level, sparing, and from any start.

The network, robot and clock are those of `gait`. The cost also counts tilt, bobbing and the work of the
servos, and sixteen robots at a time start turned, pushed, dropped, and anywhere in their stride.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.audit import BARS, Audit, audit, finer
from backflip.experiments.base import Claim, Progress, read_result
from backflip.experiments.quadruped import gait, trot
from backflip.experiments.quadruped.walk import Walk, disturbed, walk_of
from backflip.experiments.training import SEEDS, middle, seconds_per_update, simulations, train_seeds

NAME = "gait-lifelike"
SUMMARY = "a quadruped learns to run level and sparing, from disturbed starts"

SECONDS, ROBOTS, UPDATES, RATE = 5.0, 16, 100, 0.035
LEVEL, BOBBING, SPARING = 1.0, 40.0, 0.1
"""[m/s] for lying on its side; [1/(m s)] per square of the height's deviation; per power over weight"""
FADE, CLIP, FELL = 0.975, 1.0, 0.3
STARTS, LONG, SEED_UNSEEN = 32, 60.0, 1_000_003
"""[s]"""
FAST = 0.8
"""[m/s]"""
SHORT = 10.0
"""[s] that are audited, and shown"""


def walk(setup: gait.Problem, policy, key, seconds: float, hooks=(), fine: bool = False):
    """Where a walk from a disturbed start begins, and its trajectory."""
    import jax

    import backflip as bf

    how, when = jax.random.split(key)
    start = disturbed(setup.start, how)
    scheme = finer(setup.scheme) if fine else setup.scheme
    steps, times = round(seconds / scheme.dt), round(trot.DT / scheme.dt)
    angles = trot.controls(policy, steps, times, jax.random.uniform(when))
    return start, bf.rollout(scheme, setup.model, start, angles, hooks=hooks)


def cost(setup: gait.Problem, policy, key):
    """Backward speed, tilt, bobbing and work."""
    import backflip as bf

    motion = walk_of(
        setup.model, *walk(setup, policy, key, SECONDS, (bf.gradients.fade(FADE), bf.gradients.clip(CLIP)))
    )
    tilt, bobbing = (1 - motion.upright).mean(), motion.height.var()
    total = -motion.speed + LEVEL * tilt + BOBBING * bobbing + SPARING * motion.power.mean() / motion.weight
    return total, {"speed": motion.speed, "upright": motion.upright.min()}


def learn(setup: gait.Problem, seed: int, updates: int = UPDATES, **how: Any):
    """As `gait` learns, and from its trot, sixteen robots at a time; from a shuffle one seed stayed slow."""
    import jax

    import backflip as bf

    return bf.train(
        lambda policy, key: cost(setup, policy, key),
        trot.network(seed, gait.KICKING),
        optimizer=gait.steady_descent(RATE, UPDATES, FELL),
        updates=updates,
        robots=ROBOTS,
        key=jax.random.key(seed),
        **how,
    )


class Measured(NamedTuple):
    """A controller from 32 disturbed starts, a minute each."""

    speeds: list[float]
    """[m/s] of each, mean over the minute"""
    falls: int
    cost_of_transport: float
    """median"""
    straight: float
    """[m/s] median of the distance from start to end per time: the gait does not steer"""
    audit: Audit
    """the worst of the first four"""


def measure(setup: gait.Problem, policy, fine: bool = False) -> Measured:
    """Walk for a minute from starts that no training saw."""
    import equinox as eqx
    import jax

    def summary(key):
        start, path = walk(setup, policy, key, LONG, fine=fine)
        motion: Walk = walk_of(setup.model, start, path)
        far = ((motion.place[-1] - start.p_WB[0, :2]) ** 2).sum() ** 0.5
        return motion.speed, motion.fell, motion.cost_of_transport, far / LONG

    keys = jax.random.split(jax.random.key(SEED_UNSEEN), STARTS)
    speed, fell, transport, straight = (np.asarray(x) for x in jax.jit(jax.vmap(summary))(keys))
    roll = eqx.filter_jit(lambda key: walk(setup, policy, key, SHORT))
    audits = [audit(setup.model, *roll(key)) for key in keys[:4]]
    return Measured(
        [float(x) for x in speed],
        int(fell.sum()),
        float(np.median(transport)),
        float(np.median(straight)),
        Audit(*np.max(audits, axis=0)),
    )


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Five seeds, each then walks a minute from 32 starts, with both time steps."""
    import backflip as bf

    setup = gait.problem(dt=gait.OWN_DT)
    trained = train_seeds(out, seed, progress, resume, lambda s, **how: learn(setup, s, **how))
    logs = [log for _, log in trained]
    # not the last ones: after some tens of updates the steps lead uphill, short ones too, and a return to
    # the best comes only when much is lost
    policies = [log.best for log in logs]
    measured = [measure(setup, policy) for policy in policies]
    fine = [measure(setup, policy, fine=True) for policy in policies]
    for s, policy in enumerate(policies, seed):
        bf.save_weights(out / f"weights-{s}.npz", policy)
    shown = middle([min(m.speeds) for m in measured])
    _draw(out, setup, logs[shown], [log.column("speed") for log in logs])
    return {
        "evaluations": simulations(logs[0], UPDATES),
        "error": -float(np.median([np.median(m.speeds) for m in measured])),
        "speeds": [float(np.median(m.speeds)) for m in measured],
        "slowest": [min(m.speeds) for m in measured],
        "falls": [m.falls for m in measured],
        "speeds_at_quarter_step": [float(np.median(m.speeds)) for m in fine],
        "falls_at_quarter_step": [m.falls for m in fine],
        "costs_of_transport": [m.cost_of_transport for m in measured],
        "straight": [m.straight for m in measured],
        "audits": [m.audit._asdict() for m in measured],
        "seconds_per_update": seconds_per_update(logs),
        "files": ["convergence.png", "replay.html", "motion.png"],
    }


def _draw(out: Path, setup: gait.Problem, log, speeds) -> None:
    import equinox as eqx
    import jax

    import backflip as bf
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    title, x = "A quadruped learns to run level and sparing", f"updates of {ROBOTS} robots"
    with figure(out / "convergence.png", title=title, x=x, y="mean speed over 5 s [m/s]") as axes:
        for k, curve in enumerate(speeds):
            axes.plot(curve, color=PALETTE[k], label=f"seed {k}")
        axes.axhline(FAST, color=INK, linestyle="--", linewidth=1, label="asked")
    key = jax.random.key(SEED_UNSEEN)
    _, path = eqx.filter_jit(lambda p: walk(setup, p, key, SHORT))(log.best)
    curve, label = {"mean over 5 s": log.column("speed").tolist()}, ("update", "speed [m/s]")
    bf.save_replay(
        out / "replay.html", setup.model, path, title="A level gait", curve=curve, curve_label=label
    )
    bf.save_frames(out / "motion.png", setup.model, path, times=(5.0, 5.1, 5.2, 5.3, 5.4, 5.5))


def verify(out: Path) -> list[Claim]:
    """Walk again with the stored controllers."""
    import backflip as bf

    record = read_result(out.parent / f"{NAME}.json")
    setup, seeds = gait.problem(dt=gait.OWN_DT), range(record["seed"], record["seed"] + SEEDS)
    policies = [bf.load_weights(out / f"weights-{s}.npz", trot.network(s)) for s in seeds]
    stored, fine = ([measure(setup, p, fine=f) for p in policies] for f in (False, True))
    walked = [float(np.median([min(m.speeds) for m in some])) for some in (stored, fine)]
    falls = [sum(m.falls for m in some) for some in (stored, fine)]
    transport = float(np.median([m.cost_of_transport for m in stored]))
    physical = sum(m.audit.ok for m in stored)
    worst = Audit(*np.max([m.audit for m in stored], axis=0))
    bar = f">= {FAST} m/s, no falls"
    claim = partial(Claim, NAME)

    def outcome(k: int) -> tuple[str, bool]:
        return f"{walked[k]:.3f} m/s, {falls[k]} falls", walked[k] >= FAST and not falls[k]

    return [
        claim(f"slowest of {STARTS} disturbed starts, 60 s each, median seed; falls of all", bar,
              *outcome(0)),
        claim("the same with steps a quarter as long", bar, *outcome(1)),
        claim("cost of transport, median", "reported", f"{transport:.2f}", True),
        claim("four motions of each seed, 10 s, are physics", f"all: {BARS}",
              f"{physical} of {SEEDS}; worst {worst.text()}", physical == SEEDS),
    ]  # fmt: skip
