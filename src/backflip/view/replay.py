"""Replays: a motion as one HTML page, to be turned around and played in any browser, offline."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from backflip.storage import write_atomically
from backflip.view.bones import bones_of
from backflip.view.page import Curve, page
from backflip.view.scene import Part, Scene

if TYPE_CHECKING:
    from backflip.model import Model


def save_replay(
    path: str | Path,
    model: "Model",
    trajectory: Any,
    *,
    dt: float | None = None,
    title: str | None = None,
    fps: float = 50,
    curve: Mapping[str, Sequence[float]] | None = None,
    curve_label: tuple[str, str] = ("update", "cost"),
) -> Path:
    """Write a trajectory as one HTML page, with its contact forces and, beside it, a learning curve.

    trajectory: p_WB (T, n, 3) and R_WB (T, n, 3, 3), its own or those of its `state`
    dt: [s] between states; `trajectory.dt` where not given
    fps: [1/s] how many states are shown
    curve: values by name, one line each; NaN leaves a gap
    curve_label: what the curve's axes say
    """
    scene = scene_of(model, trajectory, step_of(trajectory, dt))
    beside = Curve(curve, *curve_label) if curve else None
    return save_scene(path, scene, title=title, fps=fps, curve=beside)


def save_scene(
    path: str | Path, scene: Scene, *, title: str | None = None, fps: float = 50, curve: Curve | None = None
) -> Path:
    """Write a Scene as one HTML page; the file's name is its title where none is given."""
    path = Path(path)
    with write_atomically(path) as draft:
        draft.write_text(page(scene, title or path.stem, fps, curve), encoding="utf-8")
    return path


def step_of(trajectory: Any, dt: float | None) -> float:
    """[s] between states."""
    step = getattr(trajectory, "dt", None) if dt is None else dt
    if step is None:
        raise ValueError("the trajectory does not say its dt; give dt=... in seconds")
    if np.ndim(step):
        raise ValueError(
            f"dt has shape {np.shape(step)}: this is a batch; choose one, such as "
            "jax.tree.map(lambda x: x[0], trajectory)"
        )
    return float(step)


def scene_of(model: "Model", trajectory: Any, dt: float) -> Scene:
    """What a trajectory of a Model looks like: its shapes and bones, riding on the centres of mass."""
    from backflip.model import bodies_of, expect_model
    from backflip.view.forces import forces_of

    expect_model("replay", model)
    states = getattr(trajectory, "state", trajectory)
    if getattr(trajectory, "start", None) is not None:
        states = trajectory.from_start
    p_WB, R_WB = np.asarray(states.p_WB, float), np.asarray(states.R_WB, float)
    wanted = (len(p_WB) if p_WB.ndim else 0, len(model.topology.bodies), 3)
    if p_WB.shape != wanted:
        raise ValueError(
            f"replay: p_WB has shape {p_WB.shape} but one run of this model has (T, {wanted[1]}, 3); "
            "of a batch choose one, such as jax.tree.map(lambda x: x[0], trajectory)"
        )
    p_CS = np.asarray(bodies_of(model).p_CS, float)
    parts = tuple(_part_of(model, i, p_CS[i]) for i in range(len(model.topology.shapes)))
    times = dt * np.arange(len(p_WB))
    return Scene((*parts, *bones_of(model, parts)), p_WB, R_WB, times, forces_of(model, states))


def _part_of(model: "Model", i: int, p_CS: np.ndarray) -> Part:
    """Shape i of a Model, riding on the centre of mass of its body."""
    fact = model.topology.shapes[i]
    form = jax.tree.map(lambda x: np.asarray(x, float), model.form(i))
    return Part(fact.kind, form, fact.body, tuple(p_CS), np.asarray(model.R_BS[i], float))
