"""How well every solver solves the recorded problems: measured, written down, shown."""

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip.experiments.base import Progress, save_result
from backflip.experiments.certificates.problems import SCENES, STEPS, TIMES, Problem, Scene, record
from backflip.experiments.tables import markdown, put_table

MARK = "problems"
"""What marks the table's place on its page."""
SOLVED = 1e-4
"""[m/s] residual up to which a problem counts as solved"""
BATCH = 16
"""problems that are tried again at a time"""
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
DEFAULT = bf.Scheme(TIMES[0]).solver
PATIENT = (bf.InteriorPoint(iterations=80), bf.PGS(sweeps=500))
"""Beside the default, those that try again in float64 what nobody solved."""


def solvers() -> dict[str, bf.Solver]:
    """By name; the default first."""
    all_named = {
        **{f"{n} sweeps": bf.PGS(sweeps=n) for n in (10, 20, 60)},
        "interior point": bf.InteriorPoint(),
    }
    own = [name for name, solver in all_named.items() if solver == DEFAULT]
    return {own[0] if own else type(DEFAULT).__name__: DEFAULT, **all_named}


def write_table(
    out: Path, scenes: Sequence[Scene] = SCENES, *, steps: int = STEPS, page: Path | None = None
) -> str:
    """Record and solve everything, write out/solvers.json, and return the table; it goes into `page` too."""
    # most programs here run for less time than they build; XLA reads this when JAX first computes
    quick = " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + quick
    jax.config.update("jax_enable_x64", True)
    began = time.perf_counter()
    found: dict[str, list[dict[str, np.ndarray]]] = {scene.name: [] for scene in scenes}
    with Progress().task("problems", len(TIMES) * len(scenes)) as task:
        for dt in TIMES:
            for scene, problems in zip(scenes, record(tuple(scenes), dt, DEFAULT, steps), strict=True):
                found[scene.name].append(residuals(problems))
                task.advance(scene=scene.name, dt=dt)
    rows = [summary(name, parts) for name, parts in found.items()]
    rows.append(summary("all", [part for parts in found.values() for part in parts]))
    result = {"solved": SOLVED, "times": TIMES, "default": next(iter(solvers())), "scenes": rows}
    save_result(out / "solvers.json", "solvers", result, seed=0, seconds=time.perf_counter() - began)
    text = table(rows)
    if page:
        put_table(page, MARK, text)
    return text


def residuals(problems: Problem) -> dict[str, np.ndarray]:
    """[m/s] of every problem (n,) by solver in float32; "anybody": the least, patient ones included."""
    found = {name: residuals_of(solver, problems) for name, solver in solvers().items()}
    least = np.min(list(found.values()), axis=0)
    hard = np.flatnonzero(~(least < SOLVED))
    if hard.size:
        # padded, so that there is one program for them all
        for some in np.split(np.resize(hard, -(-hard.size // BATCH) * BATCH), -(-hard.size // BATCH)):
            again = jax.tree.map(lambda x, some=some: _double(x)[some], problems)
            found_again = [residuals_of(solver, again) for solver in (DEFAULT, *PATIENT)]
            least[some] = np.min([least[some], *found_again], axis=0)
    return {**found, "anybody": least}


def residuals_of(solver: bf.Solver, problems: Problem) -> np.ndarray:
    """[m/s] (n,) by one solver; infinite where it fails."""
    found = np.asarray(_program(solver)(problems))
    return np.where(np.isfinite(found), found, np.inf)


@cache
def _program(solver: bf.Solver) -> Any:
    """Residuals of many problems: solved in the precision that they have, measured in float64."""

    def one(rows: Any, delassus: Any, velocity: jax.Array) -> jax.Array:
        impulse = solver.solve(rows, delassus, velocity)
        exact = jax.tree.map(_double, (rows, delassus, velocity, impulse))
        return solver.residual(*exact)

    return jax.jit(lambda problems: jax.vmap(one)(*problems))


def _double(x: Any) -> Any:
    return x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x


def summary(name: str, parts: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Quantiles of the residual [m/s] by solver, and how many problems nobody solves."""
    whole = {solver: np.concatenate([part[solver] for part in parts]) for solver in parts[0]}
    least = whole.pop("anybody")
    figures = {
        solver: {q: float(np.quantile(x, at, method="higher")) for q, at in QUANTILES.items()}
        | {"solved": float(np.mean(x < SOLVED))}
        for solver, x in whole.items()
    }
    return {"scene": name, "problems": least.size, "unsolved": int(np.sum(~(least < SOLVED)))} | {
        "solvers": figures
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a row per scene; median and 99 % of the residual [m/s] by solver."""
    names = list(rows[0]["solvers"])
    lines = []
    for row in rows:
        figures = [row["solvers"][name] for name in names]
        cells = [f"{f['median']:.0e}, {f['p99']:.0e}" for f in figures]
        lines.append([row["scene"], str(row["problems"]), str(row["unsolved"]), *cells])
    return markdown(["scene", "problems", "nobody solves", *names], lines)
