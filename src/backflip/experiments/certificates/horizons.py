"""What to believe of gradients through many contacts: 0.1, 0.3 and 1 s of trotting and of stumbling.

The cost is how far the torso comes, the parameters are the middles of all eight servo targets and the swings
of shoulders and elbows. Every solver's gradient is compared with central differences of its own cost, in
float64.
"""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import backflip as bf
from backflip.experiments.base import Progress, save_result
from backflip.experiments.certificates.problems import LEG_PHASES
from backflip.experiments.certificates.solver_table import solvers
from backflip.experiments.tables import markdown, put_table
from backflip.robots import quadruped

DT, WARM_UP = 0.01, 100
"""[s] and steps before the first that counts"""
HORIZONS = (10, 30, 100)
"""steps"""
DIFFERENCES = tuple(10.0**-k for k in range(2, 9))
"""[rad] steps of the central differences"""
AGREES = 0.1
"""relative error up to which a gradient, or differences of neighbouring steps, are believed"""
MARK = "horizons"
"""What marks the table's place on its page."""
PHASES = {
    "trotting": np.stack([LEG_PHASES["trot"], np.add(LEG_PHASES["trot"], np.pi / 2)], -1).reshape(8),
    "stumbling": np.random.default_rng(0).uniform(0, 2 * np.pi, 8),
}
"""[rad] of the servos' sines"""
START = {"trotting": (*(0.1, -0.2) * 4, 0.08, 0.16), "stumbling": (*(0.0,) * 8, 0.4, 0.4)}
"""[rad] middles of the eight targets, swings of shoulders and elbows"""


@dataclass(frozen=True)
class Horizon:
    """One motion, horizon and solver."""

    motion: str
    seconds: float
    solver: str
    norm: float
    """of the gradient [m/rad]"""
    differences: float
    """norm of the central differences at the best step"""
    step: float
    """that step [rad]"""
    agreement: float
    """relative difference of the differences of two neighbouring steps there"""
    error: float
    """of the gradient, relative to the differences"""
    cosine: float
    """between both"""
    reach: float
    """the largest step [rad] whose differences are still the gradient, within AGREES; 0: none"""

    @property
    def believed(self) -> bool:
        """Whether differences agree with each other and the gradient with them."""
        return max(self.agreement, self.error) <= AGREES


def targets(motion: str, x: Array, steps: np.ndarray) -> Array:
    """Servo targets (n, 8) [rad] at some steps; they grow during the first second."""
    t = DT * steps[:, None]
    return jnp.minimum(1, t) * (x[:8] + jnp.tile(x[8:], 4) * jnp.sin(5 * np.pi * t + PHASES[motion]))


def warmed_up(model: bf.Model, motion: str) -> bf.State:
    """Where all gradients start: in full motion."""
    scheme, u = (
        bf.Scheme(DT, bf.PGS(sweeps=60)),
        targets(motion, jnp.array(START[motion]), np.arange(WARM_UP)),
    )
    return bf.rollout(scheme, model, bf.rest(model), u).last


def compare(motion: str, name: str, solver: bf.Solver, horizons: tuple[int, ...] = HORIZONS) -> list[Horizon]:
    """Gradients of one motion by one solver."""
    model = quadruped()
    start, scheme = warmed_up(model, motion), bf.Scheme(DT, solver)

    def ways(x: Array) -> Array:
        u = targets(motion, x, WARM_UP + np.arange(horizons[-1]))
        return bf.rollout(scheme, model, start, u).state.p_WB[np.array(horizons) - 1, 0, 0]

    x = jnp.array(START[motion])
    gradient = jax.jit(jax.grad(lambda x, k: ways(x)[k]))
    h = np.repeat(DIFFERENCES, x.size)
    away = h[:, None] * np.tile(np.eye(x.size), (len(DIFFERENCES), 1))
    values = np.asarray(jax.jit(jax.vmap(ways))(jnp.concatenate([x + away, x - away])))
    slopes = (values[: len(h)] - values[len(h) :]) / (2 * h[:, None])
    by_step = slopes.reshape(len(DIFFERENCES), x.size, len(horizons))
    found = [np.asarray(gradient(x, k)) for k in range(len(horizons))]
    make = partial(_beside, motion, name)
    return [make(DT * n, g, by_step[..., k]) for k, (n, g) in enumerate(zip(horizons, found, strict=True))]


def _beside(motion: str, solver: str, seconds: float, gradient: np.ndarray, slopes: np.ndarray) -> Horizon:
    """Beside differences (steps, parameters), of which two neighbours agree best somewhere."""
    length = np.linalg.norm(slopes, axis=1)
    apart = np.linalg.norm(np.diff(slopes, axis=0), axis=1) / np.maximum(length[1:], 1e-300)
    best = int(np.argmin(np.where(np.isfinite(apart), apart, np.inf)))
    wanted, norm = slopes[best + 1], float(np.linalg.norm(gradient))
    size = float(length[best + 1])
    near = np.linalg.norm(slopes - gradient, axis=1) <= AGREES * norm
    return Horizon(
        motion=motion,
        seconds=seconds,
        solver=solver,
        norm=norm,
        differences=size,
        step=DIFFERENCES[best + 1],
        agreement=float(apart[best]),
        error=float(np.linalg.norm(gradient - wanted)) / size,
        cosine=float(gradient @ wanted) / (norm * size),
        reach=float(max(np.where(near, DIFFERENCES, 0))),
    )


def write_table(out: Path, *, page: Path | None = None) -> str:
    """Compare everything, write out/horizons.json, and return the table; it goes into `page` too."""
    jax.config.update("jax_enable_x64", True)
    began, found = time.perf_counter(), []
    with Progress().task("horizons", len(START) * len(solvers())) as task:
        for motion in START:
            for name, solver in solvers().items():
                found += compare(motion, name, solver)
                task.advance(motion=motion, solver=name)
    result = {"agrees": AGREES, "rows": [{**vars(one), "believed": one.believed} for one in found]}
    save_result(out / "horizons.json", "horizons", result, seed=0, seconds=time.perf_counter() - began)
    text = table([vars(one) for one in found])
    if page:
        put_table(page, MARK, text)
    return text


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a row per motion and horizon; by solver norm, error and reach of the gradient.

    An error in brackets: the differences themselves agree at no step. ✗: no guide.
    """
    names = list(dict.fromkeys(row["solver"] for row in rows))
    places = list(dict.fromkeys((row["motion"], row["seconds"]) for row in rows))
    at = {(row["motion"], row["seconds"], row["solver"]): Horizon(**_fields(row)) for row in rows}
    lines = [
        [f"{motion}, {seconds:g} s", *(_cell(at[motion, seconds, name]) for name in names)]
        for motion, seconds in places
    ]
    return markdown(["norm, error, reach", *names], lines)


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "believed"}


def _cell(one: Horizon) -> str:
    error = f"{one.error:.0e}" if one.agreement <= AGREES else f"({one.error:.0e})"
    return f"{one.norm:.2g}, {error}, {one.reach:.0e}" + ("" if one.believed else " ✗")
