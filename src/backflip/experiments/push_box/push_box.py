"""A box that friction holds is pushed to a target: what a gradient sees before the box moves.

A box of 1 kg rests on the ground, friction 0.5. A force pushes it for the first half of a second; where it
lies after one second should be 0.5 m away. Below μ m g = 4.9 N it does not move at all, and neither does the
loss: its gradient is 0, and descent stays where it is. On the central path of the interior-point solver
friction slips a little, and a gradient that is taken there sees the other side.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from backflip.experiments.base import Claim, Progress, read_result, write_text

NAME = "push-box"
SUMMARY = "a box held by friction is pushed to a target; sharp and smooth gradients"

DT, STEPS, PUSHED = 0.02, 50, 25
TARGET = 0.5
"""[m]"""
FORCES = np.linspace(0.5, 12, 47)
"""[N] where the landscape is drawn"""
STUCK = 2.0
"""[N] where descent begins; the box moves from 4.9 N on"""
UPDATES, LONGEST = 60, 0.25
"""of the descent, and its longest step [N], which halves where the slope changes its sign"""
TIMES = 20
"""that a landscape is timed"""
FLAT = 1e-6
"""[m²/N] slopes below this are rounding"""
KAPPAS = (1e-4, 1e-3)
"""[J]"""


def solvers() -> dict[str, Any]:
    """What is compared, by name."""
    import backflip as bf

    named = {"PGS": bf.PGS(20), "interior point, sharp": bf.InteriorPoint()}
    for kappa in KAPPAS:
        backward = bf.Implicit(smoothness=kappa)
        named[f"sharp, gradient at {kappa:g} J"] = bf.InteriorPoint(gradient=backward)
    for kappa in KAPPAS:
        named[f"smooth, {kappa:g} J"] = bf.InteriorPoint(smoothness=kappa)
    return named


def box():
    """The model; u (1,) is the force [N] along x."""
    import backflip as bf

    b = bf.Builder(planar=True)
    b.add_ground(friction=0.5)
    b.add_body("box", bf.Box((0.2, 0.2, 0.1)), mass=1.0, position=(0, 0, 0.05))
    b.add_force("box", direction=(1, 0, 0))
    return b.build()


def way(model: Any, solver: Any, force: Any) -> Any:
    """Where the box lies after a second [m], pushed by a force [N]."""
    import jax.numpy as jnp

    import backflip as bf

    pushes = force * jnp.where(jnp.arange(STEPS) < PUSHED, 1.0, 0.0)[:, None]
    return bf.rollout(bf.Scheme(DT, solver), model, bf.rest(model), pushes).last.p_WB[0, 0]


def landscape(solver: Any) -> Any:
    """Losses [m²] and their slopes [m²/N] at many forces (n,), a function."""
    import jax

    model = box()
    return jax.jit(jax.vmap(jax.value_and_grad(lambda force: (way(model, solver, force) - TARGET) ** 2)))


def descend(slopes: Any) -> list[float]:
    """Forces [N] of a descent from where the box sticks; slopes as `landscape` gives them."""
    force, length, last, path = STUCK, LONGEST, 0.0, [STUCK]
    for _ in range(UPDATES):
        slope = float(slopes(np.resize(np.float32(force), FORCES.shape))[1][0])
        length, last = length / 2 if slope * last < 0 else length, slope
        force -= length * slope / (abs(slope) + FLAT)
        path.append(force)
    return path


def seconds(slopes: Any) -> float:
    """[s] that the landscape takes, forward and backward: the best of many times."""
    force, times = FORCES.astype(np.float32), []
    for _ in range(TIMES):
        began = time.perf_counter()
        slopes(force)[1].block_until_ready()
        times.append(time.perf_counter() - began)
    return min(times)


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Landscapes and descents by all solvers; files in `out`."""
    named = solvers()
    curves: dict[str, dict[str, Any]] = {}
    took = {}
    with progress.task("push-box", len(named)) as task:
        for name, solver in named.items():
            slopes = landscape(solver)
            loss, slope = slopes(FORCES.astype(np.float32))
            curves[name] = {"loss": np.asarray(loss), "slope": np.asarray(slope), "descent": descend(slopes)}
            took[name] = seconds(slopes)
            task.advance(solver=name, force=curves[name]["descent"][-1])
    write_text(out / "curves.json", json.dumps(curves, default=lambda x: np.asarray(x).tolist()) + "\n")
    _draw(out / "landscape.png", curves)
    ends = {name: curve["descent"][-1] for name, curve in curves.items()}
    best = ends[f"sharp, gradient at {KAPPAS[-1]:g} J"]
    return {
        "evaluations": UPDATES,
        "error": abs(_distance(best) - TARGET),
        "forces": ends,
        "times_as_long_as_PGS": {name: x / took["PGS"] for name, x in took.items()},
        "files": ["curves.json", "landscape.png"],
    }


def _distance(force: float) -> float:
    """[m] by sweeps, many of them."""
    import jax

    import backflip as bf

    model = box()
    return float(jax.jit(lambda force: way(model, bf.PGS(200), force))(np.float32(force)))


def verify(out: Path) -> list[Claim]:
    """From the forces that the descents ended with; where they did not move, the slope is taken again."""
    curves = read_result(out / "curves.json")
    claims = []
    for kappa in KAPPAS:
        name = f"sharp, gradient at {kappa:g} J"
        error = abs(_distance(curves[name]["descent"][-1]) - TARGET)
        text = f"from {STUCK:g} N, where the box sticks, the gradient at {kappa:g} J leads to the target"
        claims.append(Claim(NAME, text, "1 cm", f"{100 * error:.2g} cm", error <= 0.01))
    for name in ("PGS", "interior point, sharp"):
        slope = abs(float(landscape(solvers()[name])(np.full(FORCES.shape, STUCK, np.float32))[1][0]))
        text = f"{name}: the gradient there shows no way"
        claims.append(Claim(NAME, text, f"below {FLAT:g} m²/N", f"{slope:.2g} m²/N", slope < FLAT))
    return claims


def _draw(path: Path, curves: dict[str, Any]) -> None:
    """Losses on the left, slopes on the right."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from backflip.view.plots import STYLE

    with mpl.rc_context(STYLE):
        sheet = Figure(figsize=(11, 4.2), layout="constrained")
        FigureCanvasAgg(sheet)
        for axes, what, title in zip(
            sheet.subplots(1, 2), ("loss", "slope"), ("Loss [m²]", "Its gradient [m²/N]"), strict=True
        ):
            for name, curve in curves.items():
                dashes = "--" if name.startswith("smooth") else ":" if name == "PGS" else "-"
                axes.plot(FORCES, curve[what], dashes, label=name, linewidth=3 if name == "PGS" else 1.6)
            axes.axvline(0.5 * 9.81, color="#999999", linewidth=0.8)
            axes.set(title=title, xlabel="force [N]; the line is μ m g")
        axes.set_yscale("symlog", linthresh=1e-4)
        axes.legend(fontsize=9)
        sheet.savefig(path)
