"""An arm learns to reach any point (Degrave et al., section 3.2.2), 128 arms at a time.

The target is the controller's only input, so it answers with one posture for the whole motion: the network,
of 2,107,396 weights, is asked once per target and its answer held for 8 s. The paper: 10 cm after 576
updates, 5 cm after 2,563, 58 s each.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.audit import BARS, FINER, Audit, audit, finer
from backflip.experiments.base import Claim, Progress, read_result
from backflip.experiments.training import median, middle, seconds_per_update, train_seeds

NAME = "arm-random"
SUMMARY = "an arm learns to reach any point, 128 arms and two million weights at once"

STEPS, DT, SWEEPS = 800, 0.01, 4
SETTLED = 400
"""steps after which the cost counts: the mean over the last 4 s, as in the paper"""
ROBOTS, UPDATES = 128, 2000
SLOW, FAST = 5e-3, 2e-2
"""rates per metre of error, at first and once the error is small"""
WARM, RISE, FALL = 100, 250, 550
"""updates: the rate rises from nothing to SLOW until WARM, from RISE to FALL it rises to FAST, then it falls
to nothing along half a cosine"""
SHELL, RAISED = (0.707, 1.0), 0.1
"""[m²] of the squared distance to the base, which is [m] up"""
FAR, NEAR, CLOSE = 0.1, 0.05, 0.02
"""[m]"""
UNSEEN, SEED_UNSEEN = 1024, 1_000_003
WINDOW = 8
"""updates whose mean error, over as many fresh batches, says how far training is"""


class Problem(NamedTuple):
    """The task."""

    model: Any
    scheme: Any
    start: Any

    def rollout(self, policy, target, scheme=None, steps=STEPS):
        import jax.numpy as jnp

        import backflip as bf

        posture, _ = policy(target, None)
        controls = jnp.broadcast_to(posture, (steps, len(posture)))
        return bf.rollout(scheme or self.scheme, self.model, self.start, controls)

    def error(self, policy, target, fine=False):
        """[m] mean distance from the tip to the target over the last 4 s."""
        import jax.numpy as jnp

        from backflip.robots.arm import tip

        times, scheme = (FINER, finer(self.scheme)) if fine else (1, self.scheme)
        path = self.rollout(policy, target, scheme, times * STEPS)
        return jnp.linalg.norm(tip(self.model, path.state) - target, axis=-1)[times * SETTLED :].mean()

    def cost(self, policy, key):
        """The error for a target drawn from the key."""
        return self.error(policy, draw(key))


def draw(key):
    """A point in reach (3,) [m]: on a half shell about the base."""
    import jax
    import jax.numpy as jnp

    way, far = jax.random.split(key)
    direction = jax.random.normal(way, (3,))
    direction = direction.at[2].set(jnp.abs(direction[2])) / jnp.linalg.norm(direction)
    return jnp.sqrt(jax.random.uniform(far, minval=SHELL[0], maxval=SHELL[1])) * direction + jnp.array(
        [0.0, 0.0, RAISED]
    )


def problem() -> Problem:
    """The arm of the paper."""
    import backflip as bf
    from backflip.robots import arm

    model = arm()
    return Problem(model, bf.Scheme(dt=DT, solver=bf.PGS(sweeps=SWEEPS)), bf.rest(model))


def network(seed: int):
    """3-1024-1024-1024-4, 2,107,396 weights, silent at first."""
    import jax

    import backflip as bf

    return bf.MLP(3, 4, (1024, 1024, 1024), key=jax.random.key(seed))


def schedule():
    """The rate per metre of error, over the updates."""
    import optax

    return optax.join_schedules(
        [
            optax.linear_schedule(0.0, SLOW, WARM),
            optax.constant_schedule(SLOW),
            optax.linear_schedule(SLOW, FAST, FALL - RISE),
            optax.cosine_decay_schedule(FAST, UPDATES - FALL),
        ],
        [WARM, RISE, FALL],
    )


def learn(setup: Problem, seed: int, updates: int = UPDATES, **how: Any):
    """Adam, gradient norm at most 1, a rate in proportion to the last error."""
    import jax
    import optax

    import backflip as bf

    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0), optax.adam(schedule()), bf.scale_by_error(every=10)
    )
    return bf.train(
        setup.cost,
        network(seed),
        optimizer=optimizer,
        updates=updates,
        robots=ROBOTS,
        key=jax.random.key(seed),
        **how,
    )


def unseen_errors(setup: Problem, policy, fine: bool = False) -> np.ndarray:
    """[m] for targets that no training saw: their keys are from another root."""
    import equinox as eqx
    import jax

    targets = jax.vmap(draw)(jax.random.split(jax.random.key(SEED_UNSEEN), UNSEEN))
    errors = eqx.filter_jit(lambda p, t: jax.vmap(lambda x: setup.error(p, x, fine))(t))
    return np.asarray(errors(policy, targets), float)


def progress_of(log) -> np.ndarray:
    """[m] mean error over the last WINDOW updates; every batch is of targets not seen before."""
    return np.convolve(log.cost, np.ones(WINDOW) / WINDOW, "valid")


def reached(log, bar: float) -> int | None:
    """Updates until the mean over WINDOW updates is below the bar."""
    under = np.flatnonzero(progress_of(log) < bar)
    return int(under[0]) + WINDOW if under.size else None


def one_audit(setup: Problem, policy) -> Audit:
    """The worst of eight motions to unseen targets."""
    import equinox as eqx
    import jax

    roll = eqx.filter_jit(setup.rollout)
    targets = jax.vmap(draw)(jax.random.split(jax.random.key(SEED_UNSEEN), 8))
    return Audit(*np.max([audit(setup.model, setup.start, roll(policy, t)) for t in targets], axis=0))


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Five seeds; errors on unseen targets, as trained and with a finer step."""
    import backflip as bf

    setup = problem()
    trained = train_seeds(out, seed, progress, resume, lambda s, **how: learn(setup, s, **how))
    errors = [unseen_errors(setup, policy) for policy, _ in trained]
    fine = [unseen_errors(setup, policy, fine=True).mean() for policy, _ in trained]
    logs = [log for _, log in trained]
    shown = middle([e.mean() for e in errors])
    policy = trained[shown][0]
    bf.save_weights(out / "weights.npz", policy)
    _draw(out, setup, policy, logs, shown, errors[shown])
    return {
        "evaluations": median([reached(log, NEAR) for log in logs]),
        "error": float(np.median([e.mean() for e in errors])),
        "updates_to_10_cm": [reached(log, FAR) for log in logs],
        "updates_to_5_cm": [reached(log, NEAR) for log in logs],
        "updates_to_2_cm": [reached(log, CLOSE) for log in logs],
        "unseen_errors": [float(e.mean()) for e in errors],
        "unseen_errors_at_quarter_step": [float(e) for e in fine],
        "stored_seed": seed + shown,
        "audit": one_audit(setup, policy)._asdict(),
        "seconds_per_update": seconds_per_update(logs),
        "files": ["convergence.png", "errors.png", "replay.html", "weights.npz"],
    }


def _draw(out: Path, setup: Problem, policy, logs, middling: int, errors: np.ndarray) -> None:
    import equinox as eqx
    import jax

    import backflip as bf
    from backflip.robots import arm
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    title = "An arm learns to reach any point"
    with figure(out / "convergence.png", title=title, x="updates of 128 arms", y="mean error [m]") as axes:
        for k, log in enumerate(logs):
            means = progress_of(log)
            axes.plot(np.arange(len(means)) + WINDOW, means, color=PALETTE[k], label=f"seed {k}")
        for bar in (FAR, NEAR, CLOSE):
            axes.axhline(bar, color=INK, linestyle="--", linewidth=1)
        axes.set(yscale="log")
    title = f"Errors for {len(errors)} unseen targets"
    with figure(out / "errors.png", title=title, x="mean error over the last 4 s [m]", y="targets") as axes:
        axes.hist(errors, bins=np.geomspace(max(errors.min(), 1e-4), errors.max(), 40).tolist())
        axes.axvline(errors.mean(), color=PALETTE[1], label="mean")
        axes.set(xscale="log")
    target = draw(jax.random.key(SEED_UNSEEN))
    path = eqx.filter_jit(setup.rollout)(policy, target)
    curve = {"mean error [m]": logs[middling].cost.tolist()}
    shown = arm(target=tuple(np.asarray(target, float)))
    bf.save_replay(out / "replay.html", shown, path, title="An arm that learned to reach", curve=curve)


def verify(out: Path) -> list[Claim]:
    """Run the stored controller on unseen targets again, and time some updates."""
    import backflip as bf

    record = read_result(out.parent / f"{NAME}.json")
    setup = problem()
    policy = bf.load_weights(out / "weights.npz", network(record["stored_seed"]))
    error, fine = (float(unseen_errors(setup, policy, fine=f).mean()) for f in (False, True))
    motion = one_audit(setup, policy)
    _, again = learn(setup, record["seed"], updates=6, progress=Progress(quiet=True))
    seconds = seconds_per_update([again])
    far, near = (median(record[f"updates_to_{cm}_cm"]) for cm in (10, 5))
    claim = partial(Claim, NAME)

    return [
        claim("updates to 10 cm, median of the run", "<= 200", f"{far:g}", far <= 200),
        claim("updates to 5 cm, median of the run", "<= 800", f"{near:g}", near <= 800),
        claim(f"error of the stored controller, {UNSEEN} unseen targets", "<= 0.02 m", f"{error:.4f} m",
              error <= CLOSE),
        claim("the same with steps a quarter as long", "<= 0.02 m", f"{fine:.4f} m", fine <= CLOSE),
        claim("time of an update", "<= 2 s", f"{seconds:.2f} s", seconds <= 2),
        claim("the motion is physics", BARS, motion.text(), motion.ok),
    ]  # fmt: skip
