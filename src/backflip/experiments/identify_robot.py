"""What is this quadruped made of? Its constants from 5 s of noisy encoder and IMU readings.

Four times it is tossed up and kicks for a second in the air; once it slides on its belly. Steps with feet on
the ground are left out: there the slope of an error grows too fast. The readings come from a simulation with
shorter steps, so no set of constants fits exactly, and the search starts from a data
sheet that is up to a third off. Nothing the robot senses is a force, so masses, inertias and torques show
only in proportion: its whole weight is taken from scales, and a second search without them says so.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.base import Claim, Progress

NAME = "identify-robot"
SUMMARY = "masses, inertias, lengths, friction and servo constants of a quadruped from its own sensors"

SAMPLE, EVERY, FINE, SWEEPS = 0.01, 2, 5, 20
"""[s] between samples; the search takes EVERY steps in that time, the robot itself FINE"""
FLIGHTS, SAMPLES = 4, 100
"""runs in the air, and samples of every run; the last run is the slide"""
HOLD, SWING = 20, 0.8
"""in the air a target lasts so many samples, and lies within ± so much [rad]"""
TOSS, SLIDE = 4.9, 2.5
"""[m/s] upwards, so that it is still in the air after a second; and forwards"""
RAISED = 1.7
"""[rad] the shoulders of a robot that slides, its feet clear of the ground"""
HEIGHT = 1.0
"""[m] of the torso when it is tossed"""
SERVO = {"gain": 20.0, "max_velocity": 6.0, "max_torque": 4.0, "damping": 0.1}
FRICTION = 0.7
NOISE = {"angle": 2e-3, "rate": 5e-2, "gyro": 2e-2, "accelerometer": 0.3}
"""[rad], [rad/s], [rad/s], [m/s²] standard deviations"""
OFF = 0.3
"""the data sheet is wrong by a factor of up to e^OFF, either way"""
UPDATES = 25
TORSO, UPPER, LOWER = 0, slice(1, None, 2), slice(2, None, 2)
"""bodies"""
SHOULDERS, ELBOWS = slice(0, None, 2), slice(1, None, 2)
"""joints"""


class Task(NamedTuple):
    """The robot as described, how the search advances time, and how the robot itself does."""

    model: Any
    scheme: Any
    fine: Any
    noise: np.ndarray


@cache
def task() -> Task:
    """The lean quadruped."""
    import backflip as bf
    from backflip.robots import quadruped

    solver = bf.PGS(sweeps=SWEEPS)
    noise = [NOISE["angle"]] * 8 + [NOISE["rate"]] * 8 + [NOISE["gyro"]] * 3 + [NOISE["accelerometer"]] * 3
    model = quadruped(height=HEIGHT, friction=FRICTION, **SERVO)
    coarse, fine = (bf.Scheme(dt=SAMPLE / steps, solver=solver) for steps in (EVERY, FINE))
    return Task(model, coarse, fine, np.array(noise))


def truth() -> dict[str, Any]:
    """The constants as they are."""
    from backflip.robots.quadruped import LINK, LINK_INERTIA, LINK_MASS, TORSO_INERTIA, TORSO_MASS

    return {
        "torso mass": TORSO_MASS,
        "upper mass": LINK_MASS,
        "lower mass": LINK_MASS,
        "torso inertia": np.array(TORSO_INERTIA),
        "upper inertia": LINK_INERTIA[1],
        "lower inertia": LINK_INERTIA[1],
        "upper length": LINK,
        "lower length": LINK,
        "friction": FRICTION,
        **{name.replace("_", " "): value for name, value in SERVO.items()},
    }


def model_of(theta):
    """The quadruped with these constants; inertias of links are about x and y."""
    import equinox as eqx
    import jax.numpy as jnp

    model = task().model
    mass = model.mass.at[TORSO].set(theta["torso mass"])
    mass = mass.at[UPPER].set(theta["upper mass"]).at[LOWER].set(theta["lower mass"])
    inertia = model.inertia.at[TORSO].set(jnp.diag(theta["torso inertia"]))
    for which, name in ((UPPER, "upper inertia"), (LOWER, "lower inertia")):
        inertia = inertia.at[which, 0, 0].set(theta[name]).at[which, 1, 1].set(theta[name])
    upper, lower = theta["upper length"] / 2, theta["lower length"] / 2
    p_AJ = model.p_AJ.at[ELBOWS, 2].set(-upper)
    p_BJ = model.p_BJ.at[SHOULDERS, 2].set(upper).at[ELBOWS, 2].set(lower)
    feet = np.array([s.name.endswith("foot") for s in model.topology.shapes])
    p_BS = model.p_BS.at[feet, 2].set(-lower)
    constants = {
        "mass": mass,
        "inertia": inertia,
        "p_AJ": p_AJ,
        "p_BJ": p_BJ,
        "p_BS": p_BS,
        "friction": jnp.ones_like(model.friction) * theta["friction"],
        "gain": jnp.ones_like(model.gain) * theta["gain"],
        "max_velocity": jnp.ones_like(model.gain) * theta["max velocity"],
        "max_torque": jnp.ones_like(model.gain) * theta["max torque"],
        "damping": jnp.ones_like(model.damping) * theta["damping"],
    }
    return eqx.tree_at(lambda m: [getattr(m, name) for name in constants], model, list(constants.values()))


def starts(model):
    """The five states in which the runs begin, with a leading axis."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import backflip as bf
    from backflip.robots.quadruped import BUMPER

    def moving(state, *velocity):
        return eqx.tree_at(lambda s: s.v_WB, state, state.v_WB + jnp.asarray(velocity, state.v_WB.dtype))

    raised = jnp.zeros(8, model.gravity.dtype).at[SHOULDERS].set(RAISED)
    lying = bf.rest(model, raised)
    down = jnp.asarray([0.0, 0.0, HEIGHT - BUMPER], model.gravity.dtype)
    lying = eqx.tree_at(lambda s: s.p_WB, moving(lying, SLIDE, 0.0, 0.0), lying.p_WB - down)
    flying = moving(bf.rest(model), 0.0, 0.0, TOSS)
    return jax.tree.map(lambda f, l: jnp.stack([*[f] * FLIGHTS, l]), flying, lying)


def build(theta):
    """The model with these constants, and where it starts."""
    model = model_of(theta)
    return model, starts(model)


def build_weighed(theta):
    """The same where the whole weight is known: the torso is what the legs are not."""
    known = truth()
    whole = known["torso mass"] + 4 * (known["upper mass"] + known["lower mass"])
    torso = whole - 4 * (theta["upper mass"] + theta["lower mass"])
    return build({**theta, "torso mass": torso})


def targets(seed: int) -> np.ndarray:
    """(runs, samples, 8) [rad] what the servos are asked for: a new pose every fifth of a second, or none."""
    rng = np.random.default_rng(seed)
    poses = rng.uniform(-SWING, SWING, (FLIGHTS, SAMPLES // HOLD, 8))
    still = np.zeros((1, SAMPLES, 8))
    still[..., SHOULDERS] = RAISED
    return np.concatenate([np.repeat(poses, HOLD, 1), still])


def recording(seed: int):
    """What the robot senses: encoders at every sample, the IMU averaged since the last one, with noise."""
    import jax
    import jax.numpy as jnp

    import backflip as bf

    setup, u = task(), targets(seed)

    @jax.jit
    @jax.vmap
    def sensed(start, u):
        states = bf.rollout(setup.fine, setup.model, start, jnp.repeat(u, FINE, 0)).state
        read = jax.vmap(bf.observe, (None, 0))(setup.model, states).reshape(SAMPLES, FINE, -1)
        return jnp.concatenate([read[:, -1, :16], read[..., 16:].mean(1)], -1)

    exact = np.asarray(sensed(starts(setup.model), jnp.asarray(u, jnp.result_type(float))), float)
    noisy = exact + np.random.default_rng([seed, 1]).normal(0, setup.noise, exact.shape)
    dtype = jnp.result_type(float)
    return bf.Recording(jnp.asarray(noisy, dtype), jnp.asarray(np.repeat(u, EVERY, 1), dtype), every=EVERY)


def data_sheet(seed: int) -> dict[str, Any]:
    """First guesses, each off by a factor of its own."""
    rng = np.random.default_rng([seed, 2])
    return {name: value * np.exp(rng.uniform(-OFF, OFF, np.shape(value))) for name, value in truth().items()}


def find(seed: int, progress: Progress, builder=build_weighed):
    """All constants, from the data sheet."""
    import backflip as bf

    setup = task()
    guess = {name: bf.positive(value) for name, value in data_sheet(seed).items()}
    if builder is build_weighed:
        del guess["torso mass"]
    return bf.identify(
        setup.scheme, builder, guess, recording(seed),
        noise=setup.noise, loss=bf.Cauchy(), updates=UPDATES, progress=progress, label=builder.__name__,
    )  # fmt: skip


def table(seed: int, log) -> list[dict[str, Any]]:
    """True, first and found values of every constant, by name."""
    rows = []
    true, guess = (_flat(x) for x in (truth(), data_sheet(seed)))
    sure = log.certainty
    for name, value, error in zip(sure.names, sure.value, sure.error, strict=True):
        rows.append({
            "name": name,
            "true": true[name],
            "guess": guess[name],
            "found": float(value),
            "error": abs(float(value) / true[name] - 1),
            "guess_error": abs(guess[name] / true[name] - 1),
            "standard_error": float(error / true[name]) if np.isfinite(error) else None,
        })  # fmt: skip
    return rows


def _flat(values: dict[str, Any]) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name, value in values.items():
        if np.ndim(value):
            flat |= {f"{name}[{i}]": float(x) for i, x in enumerate(value)}
        else:
            flat[name] = float(value)
    return flat


def measure(seed: int, progress: Progress) -> dict[str, Any]:
    """Both searches: with the weight known, and without."""
    _, log = find(seed, progress)
    _, bare = find(seed, progress, build)
    rows = table(seed, log)
    return {
        "table": rows,
        "cost": log.cost.tolist(),
        "updates": len(log.rows),
        "condition": log.certainty.condition,
        "findings": log.certainty.findings,
        "findings_without_scales": bare.certainty.findings,
        "condition_without_scales": bare.certainty.condition,
        "report": log.report(),
    }


def worst(rows: list[dict[str, Any]], *words: str) -> float:
    """The largest error among constants whose name has one of these words."""
    return max(row["error"] for row in rows if any(word in row["name"] for word in words))


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """Search with the weight known and without, and show what was recorded."""
    found = measure(seed, progress)
    (out / "report.txt").write_text(found["report"] + "\n", encoding="utf-8")
    _draw(out, found["table"], seed)
    return {
        "evaluations": found["updates"],
        "error": float(np.median([row["error"] for row in found["table"]])),
        **{k: v for k, v in found.items() if k not in ("updates", "report")},
        "files": ["errors.png", "report.txt", "replay.html"],
    }


def _draw(out: Path, rows: list[dict[str, Any]], seed: int) -> None:
    import jax
    import jax.numpy as jnp

    import backflip as bf
    from backflip.view.plots import figure

    places = np.arange(len(rows))
    with figure(
        out / "errors.png", title="Constants of a quadruped", x="error [%]", y="", size=(6.4, 4.8)
    ) as axes:
        for key, shift, label in (("guess_error", 0.2, "data sheet"), ("error", -0.2, "found")):
            axes.barh(places + shift, [100 * row[key] for row in rows], 0.4, label=label)
        axes.set_yticks(places, [row["name"] for row in rows])
        axes.set_xscale("log")
    setup = task()
    begin = jax.tree.map(lambda x: x[0], starts(setup.model))
    u = jnp.asarray(np.repeat(targets(seed)[0], EVERY, 0), jnp.result_type(float))
    path = jax.jit(lambda m: bf.rollout(setup.scheme, m, begin, u))(setup.model)
    bf.save_replay(out / "replay.html", setup.model, path, title="A quadruped tossed up, kicking")


def verify(out: Path) -> list[Claim]:
    """Record and search again."""
    record = json.loads((out.parent / f"{NAME}.json").read_text(encoding="utf-8"))
    found = measure(record["seed"], Progress(quiet=True))
    rows = found["table"]

    names = [name for told in found["findings"] for name in told.split('"')[1::2]]

    def claim(text: str, bar: float, *words: str) -> Claim:
        error = worst(rows, *words)
        return Claim(NAME, text, f"<= {100 * bar:g} %", f"{100 * error:.2g} %", bool(error <= bar))

    middle, sheet = (float(np.median([row[key] for row in rows])) for key in ("error", "guess_error"))
    together = any(len(told.split('", "')) > 1 for told in found["findings_without_scales"])
    return [
        claim("friction", 0.05, "friction"),
        claim("servo constants", 0.05, "gain", "max velocity", "max torque"),
        Claim(NAME, "median error of all constants", "half of the data sheet's",
              f"{100 * middle:.2g} %, data sheet {100 * sheet:.2g} %", middle <= sheet / 2),
        Claim(NAME, "constants that these data cannot tell", "named", ", ".join(names) or "none", True),
        Claim(NAME, "without scales, masses and torques are said to show only in proportion", "said",
              "; ".join(found["findings_without_scales"]) or "not said", together),
    ]  # fmt: skip
