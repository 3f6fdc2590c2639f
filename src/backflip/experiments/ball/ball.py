"""Throwing a ball by gradient (Degrave et al., section 2.1.1), against CMA-ES on the same objective.

A ball of 1 m, μ = 1, e = 0.5 starts at (0, 0), 1.5 m up. Find the velocity and spin (six numbers) with which
it lies still at (10, 0) after 5 s. Friction must eat speed and backspin at the same moment, through
a flight and some bounces whose number changes along the way. The paper: 88 iterations by gradient, 2,422 by
CMA-ES.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.base import Claim, Progress, read_result, write_text

NAME = "ball"
SUMMARY = "throw a ball so that it lies still 10 m away, by gradient and by CMA-ES"

SEEDS = 10
SECONDS, DT = 5.0, 0.01
TARGET = (10.0, 0.0, 0.5)
RADIUS, HEIGHT = 0.5, 1.5
CLOSE = 0.01
"""[m], [m/s] and [rad/s]: how exactly the throw has to end"""
SCALE = np.array([1.0, 1.0, 1.0, 10.0, 10.0, 10.0])
"""[m/s], [rad/s] a natural unit of each number, for both methods: 1 m/s is stopped by 5 rad/s of backspin"""
MIN_DAMPING = 1e-5
"""of damping: with less, directions that float32 hardly sees would rule a step"""
ITERATIONS, EVALUATIONS = 100, 20_000
"""when to give up: gradient, CMA-ES"""


class Search(NamedTuple):
    """How one search went."""

    throw: np.ndarray
    """(6,) v [m/s] and w [rad/s]"""
    evaluations: int
    """rollouts for CMA-ES, rollouts with their Jacobian for the gradient"""
    seconds: float
    converged: bool
    errors: list[float]
    """[m, m/s] √cost so far after each evaluation"""


class Problem(NamedTuple):
    """The throw as functions of numbers, compiled."""

    model: Any
    scheme: Any
    misses: Callable
    """(k, 6) throws -> (k, 9) misses"""
    slopes: Callable
    """(6,) throw -> (9,) misses and their Jacobian (9, 6)"""
    replay: Callable
    """(6,) throw -> Trajectory"""


def problem(width: int) -> Problem:
    """The simulation, for `width` throws at once, and its Jacobian in forward mode: six columns, one pass."""
    import jax
    import jax.numpy as jnp

    import backflip as bf
    from backflip.robots import ball

    model = ball(height=HEIGHT)
    scheme = bf.Scheme(dt=DT, solver=bf.PGS(sweeps=1))  # one contact: a single sweep is exact
    start = bf.rest(model)
    target = jnp.array(TARGET)

    def replay(throw):
        state = bf.replace(model, start, v_WB={"ball": throw[:3]}, w_WB={"ball": throw[3:]})
        return bf.rollout(scheme, model, state, steps=round(SECONDS / DT))

    def misses(throw):
        end = replay(throw).last
        return jnp.concatenate([end.p_WB[0] - target, end.v_WB[0], end.w_WB[0]])

    def twice(throw):
        miss = misses(throw)
        return miss, miss

    slopes = jax.jit(lambda x: jax.jacfwd(twice, has_aux=True)(x)[::-1])
    many, one = jnp.zeros((width, 6)), jnp.zeros(6)
    return Problem(
        model,
        scheme,
        jax.jit(jax.vmap(misses)).lower(many).compile(),
        slopes.lower(one).compile(),
        jax.jit(replay),
    )


WEIGHT = np.array([1.0] * 6 + [RADIUS] * 3)
"""spin counts as the speed of the surface, so all misses are in m or m/s"""


def cost(miss: np.ndarray) -> float:
    """What both methods bring down: Σ squared misses."""
    return float(np.sum((WEIGHT * miss) ** 2))


def landed(miss: np.ndarray) -> bool:
    """Whether position, velocity and spin are all close enough."""
    return all(np.linalg.norm(miss[k : k + 3]) < CLOSE for k in (0, 3, 6))


def first_guess(seed: int) -> np.ndarray:
    """Six random numbers, the same for both methods."""
    return np.random.default_rng(seed).normal(size=6)


def by_gradient(setup: Problem, seed: int) -> Search:
    """Damped Gauss-Newton descent, one Jacobian per iteration.

    The number of bounces changes on the way, so cost falls in jumps: a step is kept if it beats the worst of
    the last `patience` costs, not only the last (Grippo et al. 1986). Else damping grows and it tries again.
    """
    patience, damping = 8, 0.1
    began = time.perf_counter()
    throw = first_guess(seed)
    miss, slope = _numbers(setup.slopes(_single(throw)))
    accepted, errors = [cost(miss)], [cost(miss) ** 0.5]
    while not landed(miss) and len(errors) < ITERATIONS:
        J, r = slope * WEIGHT[:, None] * SCALE, miss * WEIGHT
        step = SCALE * np.linalg.solve(J.T @ J + damping * np.eye(6), -J.T @ r)
        tried_miss, tried_slope = _numbers(setup.slopes(_single(throw + step)))
        if cost(tried_miss) < max(accepted[-patience:]):
            throw, miss, slope = throw + step, tried_miss, tried_slope
            damping = max(damping * 0.3, MIN_DAMPING)
            accepted.append(cost(miss))
        else:
            damping *= 3
        errors.append(min(errors[-1], cost(tried_miss) ** 0.5))
    return Search(throw, len(errors), time.perf_counter() - began, landed(miss), errors)


def by_cma(setup: Problem, seed: int, width: int) -> Search:
    """CMA-ES as its package has it, a generation of `width` throws simulated at once."""
    import cma

    began = time.perf_counter()
    options = {"popsize": width, "seed": seed + 1, "verbose": -9, "CMA_stds": SCALE}
    search = cma.CMAEvolutionStrategy(first_guess(seed), 1.0, options)
    errors: list[float] = []
    while len(errors) < EVALUATIONS:
        throws = search.ask()
        misses = np.asarray(setup.misses(np.asarray(throws, np.float32)))
        costs = [cost(m) for m in misses]
        for c in costs:
            errors.append(min([*errors[-1:], c**0.5]))
        best = int(np.argmin(costs))
        if landed(misses[best]):
            return Search(throws[best], len(errors), time.perf_counter() - began, True, errors)
        search.tell(throws, costs)
    return Search(throws[best], len(errors), time.perf_counter() - began, False, errors)


def _single(throw: np.ndarray) -> np.ndarray:
    return np.asarray(throw, np.float32)


def _numbers(arrays) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(a, float) for a in arrays)


CMA_WIDTH = 9
"""throws per generation: the package's own choice for six numbers"""


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Both methods from ten starts; curves, the path, a replay and the throws found."""
    out.mkdir(parents=True, exist_ok=True)
    searches = _load_partial(resume) if resume else {}
    _save_partial(out, searches)  # from now on there is something to resume
    began = time.perf_counter()
    with progress.task("compiling", total=1) as task:
        setup = problem(CMA_WIDTH)
        task.advance()
    compiling = time.perf_counter() - began
    with progress.task("throwing", total=2 * SEEDS) as task:
        for s in range(seed, seed + SEEDS):
            for method, search in (("gradient", by_gradient), ("cma", lambda p, s: by_cma(p, s, CMA_WIDTH))):
                key = f"{method} {s}"
                if key not in searches:
                    searches[key] = search(setup, s)
                    _save_partial(out, searches)
                task.advance(seed=s, method=method, evaluations=searches[key].evaluations)
    gradient, evolution = (
        [searches[f"{m} {s}"] for s in range(seed, seed + SEEDS)] for m in ("gradient", "cma")
    )
    files = _draw(out, setup, gradient, evolution)
    return _summary(gradient, evolution, compiling) | {"files": files}


def _summary(gradient: list[Search], evolution: list[Search], compiling: float) -> dict[str, Any]:
    def column(searches: list[Search], name: str) -> list:
        return [getattr(s, name) for s in searches]

    seconds = {
        "gradient": np.median(column(gradient, "seconds")),
        "cma": np.median(column(evolution, "seconds")),
    }
    return {
        "evaluations": float(np.median(column(gradient, "evaluations"))),
        "error": max(s.errors[-1] for s in gradient),
        "converged": sum(column(gradient, "converged")),
        "iterations": column(gradient, "evaluations"),
        "cma_converged": sum(column(evolution, "converged")),
        "cma_evaluations": column(evolution, "evaluations"),
        "gradient_seconds": round(float(seconds["gradient"]), 3),
        "cma_seconds": round(float(seconds["cma"]), 3),
        "times_faster": round(float(seconds["cma"] / seconds["gradient"]), 1),
        "compile_seconds": round(compiling, 1),
        "throws": [s.throw.round(6).tolist() for s in gradient],
        "paper": {"iterations": 88, "seconds": 16.3, "cma_evaluations": 2422, "cma_seconds": 59.9},
    }


def _draw(out: Path, setup: Problem, gradient: list[Search], evolution: list[Search]) -> list[str]:
    """The pictures: convergence of all seeds, the path of the first throw, its replay."""
    import backflip as bf
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    title = f"Throwing a ball, {len(gradient)} starts"
    with figure(out / "convergence.png", title=title, x="simulations", y="miss [m, m/s]") as axes:
        for searches, colour, name in (
            (evolution, PALETTE[1], "CMA-ES"),
            (gradient, PALETTE[0], "gradient through physics"),
        ):
            for k, s in enumerate(searches):
                axes.plot(
                    range(1, len(s.errors) + 1),
                    s.errors,
                    color=colour,
                    alpha=0.7,
                    label=name if k == 0 else None,
                )
        axes.axhline(CLOSE, color=INK, linestyle="--", linewidth=1, label="goal")
        axes.set(xscale="log", yscale="log")
    path = setup.replay(_single(gradient[0].throw))
    x, z = np.asarray(path.state.p_WB[:, 0, 0]), np.asarray(path.state.p_WB[:, 0, 2])
    with figure(
        out / "path.png", title="The throw that was found", x="x [m]", y="z [m]", size=(7.2, 3.0)
    ) as axes:
        axes.plot([0, *x], [HEIGHT, *z], label="centre of the ball")
        axes.plot(*np.array(TARGET)[[0, 2]], "x", color=PALETTE[1], markersize=10, label="target")
        axes.axhline(0, color=INK, linewidth=1)
        axes.set_aspect("equal")
    bf.save_replay(out / "replay.html", setup.model, path, title="A ball thrown by gradient")
    return ["convergence.png", "path.png", "replay.html"]


def _save_partial(out: Path, searches: dict[str, Search]) -> None:
    def plain(search: Search) -> dict[str, Any]:
        errors = [float(f"{e:.4g}") for e in search.errors]
        return search._asdict() | {"throw": search.throw.tolist(), "errors": errors}

    record = {key: plain(search) for key, search in searches.items()}
    write_text(out / "searches.json", json.dumps(record))


def _load_partial(folder: Path) -> dict[str, Search]:
    file = folder / "searches.json"
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is nothing to resume here")
    record = read_result(file)
    return {key: Search(**{**s, "throw": np.array(s["throw"])}) for key, s in record.items()}


def verify(out: Path) -> list[Claim]:
    """Throw the stored throws again, search again by gradient, and race CMA-ES from three starts."""
    record = read_result(out.parent / f"{NAME}.json")
    setup, one = problem(CMA_WIDTH), record["seed"]
    throws = np.array(record["throws"])
    misses = np.array([_numbers(setup.slopes(_single(t)))[0] for t in throws])
    hits = sum(landed(m) for m in misses)
    again = [by_gradient(setup, s) for s in range(one, one + SEEDS)]
    median = float(np.median([s.evaluations for s in again]))
    race = [by_cma(setup, s, CMA_WIDTH) for s in range(one, one + 3)]
    faster = np.median([c.seconds for c in race]) / np.median([g.seconds for g in again[:3]])
    worst = max(np.linalg.norm(m[k : k + 3]) for m in misses for k in (0, 3, 6))
    claim = partial(Claim, NAME)

    return [
        claim("the stored throws end at rest on the target", f"{SEEDS} of {SEEDS} within {CLOSE}",
              f"{hits} of {len(throws)}, worst {worst:.2g}", hits == SEEDS),
        claim("every search by gradient converges", f"{SEEDS} of {SEEDS}",
              f"{sum(s.converged for s in again)}", all(s.converged for s in again)),
        claim("iterations by gradient, median", "<= 40", f"{median:g}", median <= 40),
        claim("wall-clock against CMA-ES, median of 3", ">= 5 times faster", f"{faster:.1f}", faster >= 5),
    ]  # fmt: skip
