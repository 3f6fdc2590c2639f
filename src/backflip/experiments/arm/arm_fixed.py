"""An arm learns to reach a point (Degrave et al., section 3.2.1), by gradient and by CMA-ES.

The controller, a network of 17,284 weights, sees only its distance to the target; it is trained by gradient
descent through 8 s of physics. The paper: within 4 cm after 100 simulations, within 1 cm after 150, 5 s each;
CMA-ES nowhere after 60,000.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.audit import BARS, Audit, audit, finer
from backflip.experiments.base import Claim, Progress, read_result
from backflip.experiments.training import (
    SEEDS,
    first_below,
    median,
    middle,
    seconds_per_update,
    simulations,
    train_seeds,
)

NAME = "arm-fixed"
SUMMARY = "an arm learns to reach a point, by gradient and by CMA-ES"

TARGET = (0.5, 0.5, 0.5)
STEPS, DT, SWEEPS = 800, 0.01, 10
SETTLED = 400
"""steps after which the error counts: it is the mean over the last 4 s"""
UPDATES = 120
NEAR, CLOSE = 0.04, 0.01
"""[m]"""
PRINTED = 30.0
"""[N m] the torque that the paper prints"""


class Problem(NamedTuple):
    """The task, with the torque of one kind of servo."""

    model: Any
    scheme: Any
    start: Any

    def rollout(self, policy, scheme=None, steps=STEPS):
        import backflip as bf

        return bf.rollout(scheme or self.scheme, self.model, self.start, policy, steps=steps)

    def distances(self, trajectory):
        """(steps,) [m] from the tip to the target."""
        import jax.numpy as jnp

        from backflip.robots.arm import tip

        return jnp.linalg.norm(tip(self.model, trajectory.state) - jnp.asarray(TARGET), axis=-1)

    def cost(self, policy, key):
        """Mean distance over all 8 s; the error is that of the last 4."""
        d = self.distances(self.rollout(policy))
        return d.mean(), {"error": d[SETTLED:].mean()}


def problem(max_torque: float | None = None) -> Problem:
    """The arm of the paper, with the torque it needs or with the one that is printed."""
    import backflip as bf
    from backflip.robots import arm

    model = arm(target=TARGET) if max_torque is None else arm(target=TARGET, max_torque=max_torque)
    return Problem(model, bf.Scheme(dt=DT, solver=bf.PGS(sweeps=SWEEPS)), bf.rest(model))


def network(seed: int):
    """1-128-128-4, 17,284 weights, silent at first."""
    import jax

    import backflip as bf
    from backflip.robots import arm

    model = arm()
    return bf.MLP(model.observation_size, model.controls, (128, 128), key=jax.random.key(seed))


def learn(setup: Problem, seed: int, **how: Any):
    """Adam, rate 0.001, gradient norm at most 1, one robot; nothing is drawn, so one validates as well."""
    import jax
    import optax

    import backflip as bf

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    return bf.train(
        setup.cost,
        network(seed),
        optimizer=optimizer,
        updates=UPDATES,
        key=jax.random.key(seed),
        validation_robots=1,
        **how,
    )


def evolve(setup: Problem, seed: int, seconds: float, progress: Progress) -> list[float]:
    """[m] the best error so far after each simulation of CMA-ES, given as long as the gradient took.

    All 17,284 weights with a diagonal covariance: a full one would not fit into memory.
    """
    import cma
    import jax
    from jax.flatten_util import ravel_pytree

    flat, unravel = ravel_pytree(network(seed))
    both = jax.jit(jax.vmap(lambda x: setup.cost(unravel(x), None)))
    options = {"CMA_diagonal": True, "verbose": -9, "seed": seed + 1}
    search = cma.CMAEvolutionStrategy(np.asarray(flat), 0.05, options)
    best: list[float] = []
    width = search.popsize
    jax.block_until_ready(both(np.zeros((width, flat.size), np.float32)))
    began = time.perf_counter()
    with progress.task("CMA-ES", total=None) as task:
        while time.perf_counter() - began < seconds:
            drawn = search.ask()
            costs, figures = both(np.asarray(drawn, np.float32))
            search.tell(drawn, np.asarray(costs, float).tolist())
            for error in np.asarray(figures["error"], float):
                best.append(min([*best[-1:], float(error)]))
            task.advance(width, error=best[-1])
    return best


class Measured(NamedTuple):
    """A controller measured."""

    error: float
    """[m] mean over the last 4 s"""
    fine_error: float
    """[m] the same with steps a quarter as long"""
    audit: Audit


def measure(setup: Problem, policy) -> Measured:
    """Run a controller as it was trained, and with a finer step."""
    import equinox as eqx

    coarse = eqx.filter_jit(setup.rollout)(policy)
    fine = eqx.filter_jit(lambda p: setup.rollout(p, finer(setup.scheme), 4 * STEPS))(policy)
    return Measured(
        float(setup.distances(coarse)[SETTLED:].mean()),
        float(setup.distances(fine)[4 * SETTLED :].mean()),
        audit(setup.model, setup.start, coarse),
    )


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Five seeds by gradient, one by CMA-ES in the same time, one with the printed torque."""
    import backflip as bf

    setup, weak = problem(), problem(PRINTED)
    trained = train_seeds(out, seed, progress, resume, lambda s, **how: learn(setup, s, **how))
    _, printed = train_seeds(
        out, seed, progress, resume, lambda s, **how: learn(weak, s, **how), count=1, name="printed torque"
    )[0]
    logs = [log for _, log in trained]
    errors = [log.column("error") for log in logs]
    seconds = [float(log.column("seconds")[1:].sum()) for log in logs]
    evolved = evolve(setup, seed, float(np.median(seconds)), progress)
    shown = middle([e.min() for e in errors])
    measured = [measure(setup, log.best) for log in logs]
    for s, log in enumerate(logs, seed):
        bf.save_weights(out / f"weights-{s}.npz", log.best)
    _draw(out, setup, logs[shown], errors, evolved, printed.column("error"))
    near, close = (
        [simulations(log, first_below(e, bar)) for log, e in zip(logs, errors, strict=True)]
        for bar in (NEAR, CLOSE)
    )
    return {
        "evaluations": median(close),
        "error": float(np.median([m.error for m in measured])),
        "evaluations_to_4_cm": near,
        "evaluations_to_1_cm": close,
        "errors": [m.error for m in measured],
        "errors_at_quarter_step": [m.fine_error for m in measured],
        "audits": [m.audit._asdict() for m in measured],
        "seconds_per_update": seconds_per_update(logs),
        "cma_error": evolved[-1],
        "cma_evaluations": len(evolved),
        "printed_torque_error": float(printed.column("error").min()),
        "files": [
            "convergence.png",
            "replay.html",
            "motion.png",
            *(f"weights-{s}.npz" for s in range(seed, seed + SEEDS)),
        ],
    }


def _draw(out: Path, setup: Problem, log, errors, evolved, printed) -> None:
    import equinox as eqx

    import backflip as bf
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    title = "An arm learns to reach a point"
    with figure(out / "convergence.png", title=title, x="simulations", y="mean error, last 4 s [m]") as axes:
        for k, curve in enumerate(errors):
            label = "gradient through physics" if k == 0 else None
            axes.plot(range(1, len(curve) + 1), curve, color=PALETTE[0], alpha=0.8, label=label)
        axes.plot(range(1, len(evolved) + 1), evolved, color=PALETTE[1], label="CMA-ES, as long")
        axes.plot(
            range(1, len(printed) + 1), printed, color=PALETTE[2], label="gradient, printed torque of 30 N m"
        )
        for bar in (NEAR, CLOSE):
            axes.axhline(bar, color=INK, linestyle="--", linewidth=1)
        axes.set(xscale="log", yscale="log")
    path = eqx.filter_jit(setup.rollout)(log.best)
    curve = {"mean distance [m]": log.cost.tolist(), "error [m]": log.column("error").tolist()}
    bf.save_replay(out / "replay.html", setup.model, path, title="An arm that learned to reach", curve=curve)
    bf.save_frames(out / "motion.png", setup.model, path, times=(0.0, 0.5, 1.0, 2.0, 8.0))


def verify(out: Path) -> list[Claim]:
    """Run the stored controllers again, and train one seed again."""
    import backflip as bf

    record = read_result(out.parent / f"{NAME}.json")
    setup, seed = problem(), record["seed"]
    seeds = range(seed, seed + SEEDS)
    stored = [measure(setup, bf.load_weights(out / f"weights-{s}.npz", network(s))) for s in seeds]
    _, again = learn(setup, seed, progress=Progress(quiet=True))
    errors = again.column("error")
    near, close = first_below(errors, NEAR), first_below(errors, CLOSE)
    seconds = seconds_per_update([again])
    error = float(np.median([m.error for m in stored]))
    fine = float(np.median([m.fine_error for m in stored]))
    worst = Audit(*np.max([m.audit for m in stored], axis=0))
    claim = partial(Claim, NAME)

    return [
        claim("error of the stored controllers, median", "<= 0.01 m", f"{error:.4f} m", error <= CLOSE),
        claim("the same with steps a quarter as long", "<= 0.01 m", f"{fine:.4f} m", fine <= CLOSE),
        claim("simulations to 4 cm, trained again", "<= 60", f"{near}", near is not None and near <= 60),
        claim("simulations to 1 cm, trained again", "<= 100", f"{close}", close is not None and close <= 100),
        claim("simulations to 4 cm, median of the run", "<= 60", f"{median(record['evaluations_to_4_cm']):g}",
              median(record["evaluations_to_4_cm"]) <= 60),
        claim("simulations to 1 cm, median of the run", "<= 100", f"{record['evaluations']:g}",
              record["evaluations"] <= 100),
        claim("time of an update", "<= 0.1 s", f"{seconds:.3f} s", seconds <= 0.1),
        claim("the motion is physics", BARS, worst.text(), all(m.audit.ok for m in stored)),
        claim("CMA-ES in the same time does not get within 1 cm", "> 0.01 m", f"{record['cma_error']:.3f} m",
              record["cma_error"] > CLOSE),
    ]  # fmt: skip
