"""What is this quadruped made of? Its constants from 5 s of noisy encoder and IMU readings.

The readings come from a simulation with shorter steps, so no set of constants fits exactly, and the search
starts from a data sheet on which everything is 15 to 30 % off. Nothing the robot senses is a force, so
masses, inertias and torques show only in proportion: its whole weight is taken from scales. The inertia of a
thin link along its length hardly shows at all and stays what the data sheet says. A last look with both left
free says so.
"""

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from backflip.experiments.base import Claim, Progress, read_result
from backflip.experiments.quadruped import robot_runs as runs
from backflip.storage.files import clear_folder

NAME = "identify-robot"
SUMMARY = "masses, inertias, lengths, friction and servo constants of a quadruped from its own sensors"

ROUGH, CLOSE = 2, 4
"""steps between samples: of a first search, and of a second one that begins where the first ends"""
MIN_OFF, MAX_OFF = 0.15, 0.3
"""how far the data sheet is off, either way"""
UPDATES = {ROUGH: 12, CLOSE: 25}
EASE = 100.0
"""how fast damping falls: upper inertias show 1000 times less than gains"""
AGAIN = 2
"""updates that verify takes from the stored constants"""
BAR, MIDDLE = 0.05, 0.02
"""a constant is recovered when its error is no larger; and what half of them stay below"""
UNSEEN = ("torso mass", "upper long inertia", "lower long inertia")
"""constants that are not searched for"""
LATE = ("upper inertia", "lower inertia")
"""constants that show least: they stay as they are in the first search, which would drive them to nothing"""
GROUPS = {
    "masses": ("mass",),
    "inertias": ("inertia",),
    "lengths": ("length",),
    "friction": ("friction",),
    "servo constants": ("gain", "max velocity", "max torque", "damping"),
}


def data_sheet(seed: int) -> dict[str, Any]:
    """First guesses, each off by a part of its own."""
    rng = np.random.default_rng([seed, 2])
    sheet = {}
    for name, value in runs.truth().items():
        off = rng.uniform(MIN_OFF, MAX_OFF, np.shape(value)) * rng.choice([-1, 1], np.shape(value))
        sheet[name] = value * (1 + off)
    return sheet


@cache
def build_weighed(seed: int):
    """From theta to the model and where it starts; what theta lacks is as the data sheet says.

    The torso weighs what scales say and the legs do not.
    """
    sheet, known = data_sheet(seed), runs.truth()
    whole = known["torso mass"] + 4 * (known["upper mass"] + known["lower mass"])

    def build(theta):
        torso = whole - 4 * (theta["upper mass"] + theta["lower mass"])
        return build_free({**sheet, **theta, "torso mass": torso})

    return build


def build_free(theta):
    """The model with all these constants, and where it starts."""
    model = runs.model_of(theta)
    return model, runs.starts(model)


def search(seed: int, theta: dict[str, Any], steps: int, builder, **how):
    """Search from theta, with so many steps between samples."""
    import backflip as bf

    guess = {name: bf.bounds.positive(value) for name, value in theta.items()}
    # far off, squares lead straight; close by, a foot that chatters must not count for much
    cost = bf.Square() if steps == ROUGH else bf.Huber()
    return bf.identify(
        runs.scheme(steps), builder, guess, runs.recording(seed, steps),
        sense=runs.sense, noise=runs.noise(), cost=cost, optimizer=bf.levenberg_marquardt(ease=EASE), **how,
    )  # fmt: skip


def find(seed: int, progress: Progress, folder: Path | None = None):
    """The constants, from the data sheet: roughly, then closely. Returns them and both logs."""
    sheet = {name: value for name, value in data_sheet(seed).items() if name not in UNSEEN}
    theta: dict[str, Any] = {name: value for name, value in sheet.items() if name not in LATE}
    logs = []
    for steps, label in ((ROUGH, "roughly"), (CLOSE, "closely")):
        place = None if folder is None else folder / label
        if steps == CLOSE:
            theta = {**sheet, **theta}
        theta, log = search(
            seed, theta, steps, build_weighed(seed),
            updates=UPDATES[steps], folder=place, resume=place is not None, progress=progress, label=label,
        )  # fmt: skip
        logs.append(log)
    return theta, logs


def unseen(seed: int, theta: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """What the report says where the weight and the inertias along links are left free too."""
    free = {**theta, **{name: data_sheet(seed)[name] for name in UNSEEN}, "torso mass": weighed(theta)}
    _, log = search(seed, free, CLOSE, build_free, updates=1, progress=progress, label="all free")
    sure = log.certainty
    parts = dict(zip(sure.names, sure.error / sure.value, strict=True))
    return {"findings": sure.findings, "standard_errors": {name: float(parts[name]) for name in UNSEEN}}


def weighed(theta: dict[str, Any]) -> float:
    """[kg] the torso, where the whole robot was weighed."""
    known = runs.truth()
    legs = sum(known[name] - float(theta[name]) for name in ("upper mass", "lower mass"))
    return known["torso mass"] + 4 * legs


def table(seed: int, theta: dict[str, Any], sure) -> list[dict[str, Any]]:
    """True, first and found values of every constant that was searched for, and of the torso's mass."""
    true, guess = (_flat(x) for x in (runs.truth(), data_sheet(seed)))
    estimates = {**_flat(theta), "torso mass": weighed(theta)}
    errors = dict(zip(sure.names, sure.error, strict=True))
    return [
        {
            "name": name,
            "true": true[name],
            "guess": guess[name],
            "found": estimates[name],
            "error": abs(estimates[name] / true[name] - 1),
            "guess_error": abs(guess[name] / true[name] - 1),
            "standard_error": _part(errors.get(name), true[name]),
        }
        for name in sorted(estimates)
    ]


def _part(error: float | None, of: float) -> float | None:
    return None if error is None or not np.isfinite(error) else float(error / of)


def _flat(values: dict[str, Any]) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, value in values.items():
        if np.ndim(value):
            flat |= {f"{name}[{i}]": float(x) for i, x in enumerate(value)}
        else:
            flat[name] = float(value)
    return flat


def worst(rows: list[dict[str, Any]], *words: str) -> float:
    """The largest error among constants whose name has one of these words."""
    return max(row["error"] for row in rows if any(word in row["name"] for word in words))


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Search, look at what cannot be seen, and show what was recorded."""
    theta, logs = find(seed, progress, _folder(out, seed, resume))
    sure = logs[-1].certainty
    rows = table(seed, theta, sure)
    (out / "report.txt").write_text(logs[-1].report() + "\n", encoding="utf-8")
    _draw(out, rows)
    _film(out, seed)
    return {
        "evaluations": sum(len(log.rows) for log in logs),
        "error": float(np.median([row["error"] for row in rows])),
        "worst_error": worst(rows, ""),
        "table": rows,
        "cost": [log.cost.tolist() for log in logs],
        "seconds_per_update": [float(np.median(log.column("seconds"))) for log in logs],
        "condition": sure.condition,
        "findings": sure.findings,
        "all_free": unseen(seed, theta, progress),
        "files": ["errors.png", "report.txt", "replay.html"],
    }


def _folder(out: Path, seed: int, resume: Path | None) -> Path:
    """Where searches leave their checkpoints: empty at first, or that of the run to go on with."""
    folder = (resume or out) / "runs" / f"seed-{seed}"
    if resume and not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is nothing to resume here; is it the same seed?")
    if resume is None:
        clear_folder(folder)
    return folder


def _draw(out: Path, rows: list[dict[str, Any]]) -> None:
    from backflip.view.plots import figure

    places = np.arange(len(rows))
    with figure(
        out / "errors.png", title="Constants of a quadruped", x="error [%]", y="", size=(6.4, 4.8)
    ) as axes:
        for key, shift, label in (("guess_error", 0.2, "data sheet"), ("error", -0.2, "found")):
            axes.barh(places + shift, [100 * row[key] for row in rows], 0.4, label=label)
        axes.set_yticks(places, [row["name"] for row in rows])
        axes.set(xscale="log", xlim=(0.01, 1000))


def _film(out: Path, seed: int) -> None:
    import jax
    import jax.numpy as jnp

    import backflip as bf

    model = runs.robot()
    begin = jax.tree.map(lambda x: x[0], runs.starts(model))
    u = jnp.repeat(jnp.asarray(runs.targets(seed)[0], jnp.result_type(float)), ROUGH, 0)
    path = jax.jit(lambda m: bf.rollout(runs.scheme(ROUGH), m, begin, u))(model)
    bf.save_replay(out / "replay.html", model, path, title="A quadruped falls, kicking")


def verify(out: Path) -> list[Claim]:
    """Record again, and let the search go on from the stored constants: what it comes to is measured."""
    record = read_result(out.parent / f"{NAME}.json")
    seed, quiet = record["seed"], Progress(quiet=True)
    stored = stored_theta(record["table"])
    theta, log = search(seed, stored, CLOSE, build_weighed(seed), updates=AGAIN, progress=quiet)
    rows = table(seed, theta, log.certainty)
    all_free = unseen(seed, theta, quiet)
    middle = float(np.median([row["error"] for row in rows]))
    sheet = min(row["guess_error"] for row in rows)
    claim = partial(Claim, NAME)
    together = [t for t in all_free["findings"] if '"torso mass"' in t]
    along = min(all_free["standard_errors"][name] for name in UNSEEN[1:])
    return [
        *(
            claim(f"{group} recovered", f"<= {100 * BAR:g} %", f"{100 * worst(rows, *words):.2g} %",
                  worst(rows, *words) <= BAR)
            for group, words in GROUPS.items()
        ),
        claim("median error of all constants", f"<= {100 * MIDDLE:g} %", f"{100 * middle:.2g} %",
              middle <= MIDDLE),
        claim("every guess is off by more than that", f">= {100 * MIN_OFF:g} %", f"{100 * sheet:.3g} %",
              sheet >= MIN_OFF - 1e-9),
        claim("constants searched for that these data cannot tell", "none",
              "; ".join(log.certainty.findings) or "none", not log.certainty.findings),
        claim("without scales, that the torso's mass does not show alone", "said",
              "; ".join(together) or "not said", bool(together)),
        claim("standard error of inertias along links, which are not searched for", f"> {100 * BAR:g} %",
              f"{100 * along:.2g} % at least", along > BAR),
    ]  # fmt: skip


def stored_theta(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What was searched for, as it was found."""
    values = {row["name"]: row["found"] for row in rows if row["name"] not in UNSEEN}
    torso = np.array([values.pop(f"torso inertia[{i}]") for i in range(3)])
    return {**values, "torso inertia": torso}
