"""What does a chain weigh? (Belbute-Peres et al., section 4.1 and Figure 1)

A ball of known mass rolls into a hanging chain, and the positions of all bodies are recorded for 10 s. The
mass of the links is found by unrolling the simulation and following its derivative. The paper walks from 1
to 7 with clipped gradients; here one mass, or one for every link with friction and restitution, is found
by Levenberg-Marquardt.
"""

import json
import time
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backflip.experiments.base import Claim, Progress, read_result, write_text
from backflip.experiments.chain.figures import THEIRS, draw
from backflip.experiments.chain.speed import ALL_LINKS, run_times

NAME = "chain-mass"
SUMMARY = "the mass of a chain is found from how a ball that hits it moves"

LINKS = (2, 5, 10, 20)
TRUE, FIRST = 7.0, 1.0
"""[kg] of every link"""
OTHERS = np.geomspace(0.2, 30, 10)
"""[kg] other first guesses"""
DT, STEPS, SWEEPS = 1 / 30, 300, 10
UPDATES, NEAR = 15, 0.01
MANY_UPDATES, WINDOW, SHOWN = 40, 30, 75
"""the second and third in steps: windows, and what the film shows"""
FRICTION, RESTITUTION = 0.2, 0.5
HORIZONS = (30, 60, 150, 300)
"""steps"""
LIGHT = 3.0
"""[kg] a ball that bounces back and is struck again"""


class Scene(NamedTuple):
    """The chain as it is built, and how time advances."""

    model: Any
    scheme: Any


@cache
def scene(links: int, ball_mass: float | None = None) -> Scene:
    """The struck chain; its masses are put in later."""
    import backflip as bf
    from backflip.robots import struck_chain

    given = {} if ball_mass is None else {"ball_mass": ball_mass}
    model = struck_chain(links, mass=TRUE, friction=FRICTION, restitution=RESTITUTION, **given)
    return Scene(model, bf.Scheme(dt=DT, solver=bf.PGS(sweeps=SWEEPS)))


def positions(model, state):
    """x and z of every body [m]."""
    return state.p_WB[:, ::2].reshape(-1)


@cache
def with_mass(links: int, ball_mass: float | None = None):
    """theta -> Model, of one mass for all links or one for each."""
    import jax.numpy as jnp

    import backflip as bf

    model = scene(links, ball_mass).model

    def build(theta):
        masses = jnp.broadcast_to(theta["mass"], (links,))
        return bf.replace(model, mass={f"link {i}": masses[i] for i in range(links)})

    return build


@cache
def with_all(links: int):
    """theta -> Model, of masses, friction and restitution."""
    import jax.numpy as jnp

    import backflip as bf

    def build(theta):
        model = with_mass(links)(theta)
        friction = jnp.full_like(model.friction, 1.0) * theta["friction"]
        restitution = jnp.full_like(model.restitution, 1.0) * theta["restitution"]
        return bf.replace(model, friction=friction, restitution=restitution)

    return build


@cache
def unrolled(links: int, ball_mass: float | None = None):
    """theta -> the states of 10 s, compiled."""
    import jax

    import backflip as bf

    setup = scene(links, ball_mass)

    def unroll(theta):
        model = with_mass(links, ball_mass)(theta)
        return bf.rollout(setup.scheme, model, bf.rest(model), steps=STEPS).state

    return jax.jit(unroll)


def watched(links: int, ball_mass: float | None = None):
    """theta -> (steps, channels) positions."""
    import jax

    return lambda theta: jax.vmap(positions, (None, 0))(None, unrolled(links, ball_mass)(theta))


def find(links: int, first: float, progress: Progress):
    """One mass for all links, from a first guess."""
    import jax.numpy as jnp

    import backflip as bf

    recorded = watched(links)({"mass": jnp.asarray(TRUE)})
    return bf.identify(
        scene(links).scheme, with_mass(links), {"mass": bf.bounds.positive(first)}, recorded,
        sense=positions, noise=1.0, updates=UPDATES, progress=progress, label=f"{links} from {first:.2g}",
    )  # fmt: skip


def drawn_masses(links: int, seed: int) -> np.ndarray:
    """(links,) [kg] from 4 to 10."""
    return np.random.default_rng(seed).uniform(4, 10, links)


def find_all(links: int, seed: int, progress: Progress):
    """One mass for every link, friction and restitution at once, from 1 kg, 0.1 and 0.3.

    Long runs with as many unknowns have valleys that lead nowhere; so the 10 s are cut into windows of a
    second, each from the state that was recorded there.
    """
    import jax
    import jax.numpy as jnp

    import backflip as bf

    setup = scene(links)
    masses = jnp.asarray(drawn_masses(links, seed), jnp.result_type(float))
    states = unrolled(links)({"mass": masses})
    seen = jax.vmap(positions, (None, 0))(None, states)
    recorded = bf.Recording(seen, None, bf.rest(setup.model)).windows(states, WINDOW)
    first = {
        "mass": bf.bounds.positive(np.full(links, FIRST)),
        "friction": bf.bounds.positive(0.1),
        "restitution": bf.bounds.interval(0.3, 0, 1),
    }
    return bf.identify(
        setup.scheme, with_all(links), first, recorded,
        sense=positions, noise=1.0, updates=MANY_UPDATES, progress=progress, label=f"{links}, all at once",
    )  # fmt: skip


def updates_to(values: np.ndarray, true: float, near: float = NEAR) -> int | None:
    """Simulations with their derivative until the value stays within a part of the true one."""
    close = np.abs(values / true - 1) <= near
    if not close[-1]:
        return None
    far = np.flatnonzero(~close)
    return int(far[-1]) + 2 if far.size else 1


def measure_single(links: int, progress: Progress) -> dict[str, Any]:
    """From 1 kg and from ten other guesses."""
    _, log = find(links, FIRST, progress)
    counts, ends = [], []
    for first in OTHERS:
        theta, other = find(links, float(first), progress)
        counts.append(updates_to(other.column("mass"), TRUE))
        ends.append(float(theta["mass"]))
    return {
        "mass": log.column("mass").tolist(),
        "mse": log.cost.tolist(),
        "updates": updates_to(log.column("mass"), TRUE),
        "updates_from_others": counts,
        "found_from_others": ends,
    }


def measure_all(links: int, seed: int, progress: Progress) -> dict[str, Any]:
    """Errors of all parameters found at once."""
    theta, log = find_all(links, seed, progress)
    masses = np.asarray(theta["mass"], float)
    return {
        "worst_mass_error": float(np.abs(masses / drawn_masses(links, seed) - 1).max()),
        "friction_error": abs(float(theta["friction"]) / FRICTION - 1),
        "restitution_error": abs(float(theta["restitution"]) / RESTITUTION - 1),
        "mse": log.cost.tolist(),
        "condition": log.certainty.condition,
        "findings": log.certainty.findings,
    }


def measure_times(links: int, progress: Progress) -> dict[str, float]:
    """[s] for 30 updates, by the way in which the gradient is taken."""
    return run_times(watched(links), TRUE, FIRST, links, progress)


def landscape(links: int = 10, count: int = 96) -> dict[str, Any]:
    """MSE over mass by horizon, and the share of masses from which its slope leads towards the true one."""
    import jax
    import jax.numpy as jnp

    masses = jnp.asarray(np.geomspace(OTHERS[0], OTHERS[-1], count), jnp.result_type(float))
    curves: dict[str, Any] = {"mass": np.asarray(masses, float).tolist()}
    for name, ball_mass in (("heavy", None), ("light", LIGHT)):
        watch = watched(links, ball_mass)
        true = watch({"mass": jnp.asarray(TRUE)})

        def errors(mass, watch=watch, true=true):
            off = jnp.square(watch({"mass": mass}) - true).mean(-1)
            return jnp.stack([off[:steps].mean() for steps in HORIZONS])

        both = jax.jit(jax.vmap(lambda m, e=errors: jax.jvp(e, (m,), (jnp.ones_like(m),))))
        mse, slope = (np.asarray(x, float) for x in both(masses))
        right = np.sign(slope) == np.sign(np.asarray(masses, float) - TRUE)[:, None]
        curves[name] = {
            "mse": {f"{steps * DT:g} s": mse[:, k].tolist() for k, steps in enumerate(HORIZONS)},
            "useful": {f"{steps * DT:g} s": float(right[:, k].mean()) for k, steps in enumerate(HORIZONS)},
        }
    return curves


def run(out: Path, seed: int, progress: Progress, resume: Path | None) -> dict[str, Any]:
    """All chains from all guesses, all parameters at once, the landscape, and run times."""
    parts = Parts((resume or out) / "runs", resume is not None)
    single = {n: parts.measured(f"shared-{n}", lambda n=n: measure_single(n, progress)) for n in LINKS}
    every = {n: parts.measured(f"all-{n}", lambda n=n: measure_all(n, seed, progress)) for n in LINKS}
    hills = parts.measured("landscape", landscape)
    times = {n: parts.measured(f"times-{n}", lambda n=n: measure_times(n, progress)) for n in ALL_LINKS}
    files = draw(out, single, every, hills, times)
    _film(out)
    ten = times[10]
    return {
        "evaluations": max(s["updates"] or np.inf for s in single.values()),
        "error": max(abs(s["mass"][-1] / TRUE - 1) for s in single.values()),
        "updates_from_1_kg": {n: s["updates"] for n, s in single.items()},
        "updates_from_other_guesses": {n: s["updates_from_others"] for n, s in single.items()},
        "all_at_once": {n: {k: v for k, v in e.items() if k != "mse"} for n, e in every.items()},
        "share_of_useful_slopes": {ball: hills[ball]["useful"] for ball in ("heavy", "light")},
        "seconds_for_30_updates": times,
        "times_faster_at_10_links": {how: THEIRS[how][10] / ten[how] for how in THEIRS},
        "files": [*files, "replay.html", "motion.png"],
    }


class Parts(NamedTuple):
    """What a run has measured so far, a file each; a resumed run measures only what is missing."""

    folder: Path
    resume: bool

    def measured(self, name: str, measure) -> dict[str, Any]:
        """Measured now, or read from the run that was stopped."""
        file = self.folder / f"{name}.json"
        if not (self.resume and file.is_file()):
            write_text(file, json.dumps(measure()))
        return read_result(file)


def _film(out: Path) -> None:
    import jax

    import backflip as bf

    setup = scene(10)
    path = jax.jit(lambda m: bf.rollout(setup.scheme, m, bf.rest(m), steps=SHOWN))(setup.model)
    bf.save_replay(out / "replay.html", setup.model, path, title="A ball rolls into a chain")
    bf.save_frames(out / "motion.png", setup.model, path, times=(0.0, 0.5, 0.8, 1.2, 2.0))


def verify(out: Path) -> list[Claim]:
    """Find the masses again, and take the time at 10 links again."""
    record = read_result(out.parent / f"{NAME}.json")
    quiet = Progress(quiet=True)
    began = time.perf_counter()
    single = {n: measure_single(n, quiet) for n in LINKS}
    seconds = time.perf_counter() - began
    every = {n: measure_all(n, record["seed"], quiet) for n in LINKS}
    times = measure_times(10, quiet)
    own = [s["updates"] for s in single.values()]
    others = [u for s in single.values() for u in s["updates_from_others"]]
    kinds = ("worst_mass_error", "friction_error", "restitution_error")
    worst = {k: max(e[k] for e in every.values()) for k in kinds}
    arrived = [u for u in others if u is not None and u <= UPDATES]
    claim = partial(Claim, NAME)

    def faster(how: str) -> float:
        return THEIRS[how][10] / times[how]

    return [
        claim(f"updates from 1 kg to within 1 % of 7 kg, {LINKS} links", "<= 15 each", f"{own}",
              all(u is not None and u <= UPDATES for u in own)),
        claim("updates from ten guesses between 0.2 and 30 kg, the same chains", "<= 15 each",
              f"{len(arrived)} of {len(others)} arrive, after at most {max(arrived, default=None)}",
              len(arrived) == len(others)),
        claim("one mass per link, friction and restitution at once: worst errors", "<= 1 %",
              ", ".join(f"{100 * v:.2g} %" for v in worst.values()), all(v <= NEAR for v in worst.values())),
        claim("30 updates at 10 links, analytic gradient, against the authors' engine (183 s)", ">= 100x",
              f"{faster('analytic'):.0f}x ({times['analytic']:.2f} s)", faster("analytic") >= 100),
        claim("the same with numeric gradients (836 s)", ">= 100x",
              f"{faster('numeric'):.0f}x ({times['numeric']:.2f} s)", faster("numeric") >= 100),
        claim("44 identifications, compiled once per chain", "told", f"{seconds:.0f} s", True),
    ]  # fmt: skip
