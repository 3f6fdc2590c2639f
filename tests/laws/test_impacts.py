"""Impacts within a step: billiards against an exact simulation, balls in line, and nothing goes through."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import DEFAULT, SOLVERS, slow_but_by_default

import backflip as bf

DT = 0.01
SCHEME = bf.Scheme(DT, SOLVERS[DEFAULT])


def with_motion(state, p, v):
    return eqx.tree_at(lambda s: (s.p_WB, s.v_WB), state, (p, v))


# --- billiards ----------------------------------------------------------------------------------------------

RADIUS, DISCS, SECONDS = 0.1, 6, 1.0


def play(x: np.ndarray, seconds: float = SECONDS) -> tuple[np.ndarray, list[float]]:
    """Exact: from impact to impact of smooth elastic discs of equal mass. Last places, and times of impact.

    x (4, discs): places and velocities along two axes.
    """
    p, v, t, times = x[:2].T.copy(), x[2:].T.copy(), 0.0, []
    a, b = np.triu_indices(DISCS, 1)
    while True:
        d, u = p[b] - p[a], v[b] - v[a]
        du, uu, dd = (d * u).sum(1), (u * u).sum(1), (d * d).sum(1) - (2 * RADIUS) ** 2
        root = du**2 - uu * dd
        hits = (du < 0) & (root > 0)
        when = np.where(hits, (-du - np.sqrt(np.where(hits, root, 0))) / np.where(hits, uu, 1), np.inf)
        first = int(when.argmin())
        if t + when[first] >= seconds:
            return p + (seconds - t) * v, times
        p, t = p + when[first] * v, t + when[first]
        times.append(t)
        i, j = a[first], b[first]
        n = (p[j] - p[i]) / np.linalg.norm(p[j] - p[i])
        swap = (v[j] - v[i]) @ n * n
        v[i], v[j] = v[i] + swap, v[j] - swap


def break_off(seed: int) -> np.ndarray:
    """Discs on a ring, all on their way to somewhere near its middle."""
    random = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(DISCS) / DISCS + 0.3 * random.normal(size=DISCS)
    p = random.uniform(0.5, 0.9, DISCS) * np.stack([np.cos(angle), np.sin(angle)])
    return np.concatenate([p, -2.5 * p + 0.4 * random.normal(size=(2, DISCS))])


def jacobian(x: np.ndarray, h: float = 1e-7) -> np.ndarray:
    """(discs, 2, 4, discs) of the last places; smooth as long as no impact comes or goes."""
    ways = np.eye(x.size).reshape(-1, *x.shape)
    slopes = [(play(x + h * way)[0] - play(x - h * way)[0]) / (2 * h) for way in ways]
    return np.moveaxis(np.array(slopes), 0, -1).reshape(DISCS, 2, *x.shape)


def games(count: int) -> list[np.ndarray]:
    """With five impacts or more, no two of them within a step, that make an error at most 30 times larger."""
    found: list[np.ndarray] = []
    for seed in range(10_000):
        x = break_off(seed)
        times = np.array([0, *play(x)[1], SECONDS])
        gaps = np.linalg.norm(x[:2, :, None] - x[:2, None], axis=0) + np.eye(DISCS)
        plain = gaps.min() > 2.2 * RADIUS and len(times) >= 7 and np.diff(times).min() > DT
        if plain and np.abs(jacobian(x)).max() < 30:
            found.append(x)
        if len(found) == count:
            break
    return found


@pytest.mark.slow
def test_billiards_of_six_smooth_discs_are_those_of_an_exact_simulation(law):
    starts = np.array(games(20))
    b = bf.Builder(gravity=(0, 0, 0), planar=True)
    for i in range(DISCS):
        place = (starts[0, 0, i], 0, starts[0, 1, i])
        b.add_body(f"disc{i}", bf.Sphere(RADIUS), mass=1.0, friction=0, restitution=1, position=place)
    model = b.build()

    def end(x):
        p, v = (jnp.stack([y[0], jnp.zeros(DISCS), y[1]], -1) for y in (x[:2], x[2:]))
        last = bf.rollout(SCHEME, model, with_motion(bf.rest(model), p, v), steps=round(SECONDS / DT)).last
        return last.p_WB[:, ::2]

    ends, slopes = jax.jit(jax.vmap(lambda x: (end(x), jax.jacfwd(end)(x))))(jnp.asarray(starts))
    wanted = np.array([play(x)[0] for x in starts])
    law("billiards of six smooth discs, 1 s at 10 ms", 1, 1e3 * np.abs(ends - wanted).max(), "mm")
    for x, slope in zip(starts, np.asarray(slopes), strict=True):
        exact = jacobian(x)
        error = np.abs(slope - exact).max() / np.abs(exact).max()
        law("billiards of six smooth discs: all of the Jacobian", 1, 100 * error, "%")


# --- several impacts within a step --------------------------------------------------------------------------

GAPS = 0.05, 0.25, 0.5, 0.9


@cache
def pass_on(gap: float) -> dict[str, float]:
    """Errors of what happens when the first of five equal elastic balls hits the second, at all phases.

    They swap: the last one is in the end where the first would be, four diameters further on.
    """
    speed, seconds, phases = 2.0, 0.3, np.arange(16) / 16
    b = bf.Builder(gravity=(0, 0, 0))
    places = (2 * RADIUS + gap * speed * DT) * np.arange(5)
    for i, x in enumerate(places):
        b.add_body(f"ball{i}", bf.Sphere(RADIUS), mass=1.0, friction=0, restitution=1, position=(x, 0, 0))
    model = b.build()

    def last(x):
        p = jnp.zeros((5, 3)).at[:, 0].set(jnp.asarray(places).at[0].set(x[0]))
        v = jnp.zeros((5, 3)).at[0, 0].set(x[1])
        end = bf.rollout(SCHEME, model, with_motion(bf.rest(model), p, v), steps=round(seconds / DT)).last
        return end.p_WB[4, 0], end.v_WB[:, 0]

    starts = np.stack([-speed * DT * (8 + phases), np.full(len(phases), speed)], -1)
    both = jax.jit(jax.vmap(lambda x: (last(x), jax.jacfwd(last)(x))))(starts)
    (place, speeds), (slopes, _) = jax.tree.map(np.asarray, both)
    return {
        "speeds, %": 100 * np.abs(speeds / speed - np.eye(5)[4]).max(),
        "place of the last, mm": 1e3 * np.abs(place - starts[:, 0] - speed * seconds - 8 * RADIUS).max(),
        "its gradient, (1, T), %": 100 * np.abs(slopes / [1, seconds] - 1).max(),
    }


@pytest.mark.parametrize("what", ["speeds, %", "place of the last, mm", "its gradient, (1, T), %"])
@pytest.mark.parametrize("gap", GAPS)
def test_five_balls_in_line_pass_on_what_the_first_one_brings(law, gap, what):
    name, unit = what.rsplit(", ", 1)
    law(f"five balls in line, gaps of {gap:g} v dt: {name}", 1, pass_on(gap)[what], unit)


# --- tunnelling ---------------------------------------------------------------------------------------------

SIZE, PHASES = 0.01, 64
"""[m] of everything that flies and of the plate, and where in a step it meets that"""
FLYERS = {
    "ball": bf.Sphere(SIZE / 2),
    "box": bf.Box((4 * SIZE, 3 * SIZE, SIZE)),
    "capsule": bf.Capsule(SIZE / 2, 3 * SIZE),
    "cylinder": bf.Cylinder(2 * SIZE, SIZE),
    "hull": bf.Hull(SIZE / 2 * np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1), (2, 2, 0)])),
}
SPEEDS = 1.9, 5.0, 50.0
"""[m/s] a step's way of less than both sizes, and of several"""


def through(shape, speeds, solver, *, loose=False, tilt=0.0) -> np.ndarray:
    """The part of all phases, in %, in which a body thrown at a plate ends behind it; by speed."""
    b = bf.Builder(gravity=(0, 0, 0))
    if loose:
        b.add_body("plate", bf.Box((1, 1, SIZE)), mass=10.0, restitution=0.3)
    else:
        b.add_shape("world", bf.Box((1, 1, SIZE)), restitution=0.3)
    b.add_body("flyer", shape, mass=0.01, position=(0.03, 0.02, 1), rotation=(tilt, tilt / 2, 0))
    model = b.build()
    own = model.topology.bodies.index("flyer")

    def passes(speed, phase):
        start = bf.rest(model)
        height = 0.05 + speed * DT * (3 + phase)
        p, v = start.p_WB.at[own, 2].set(height), start.v_WB.at[own, 2].set(-speed)
        states = bf.rollout(bf.Scheme(DT, SOLVERS[solver]), model, with_motion(start, p, v), steps=12).state
        behind = states.p_WB[-1, own, 2] - (states.p_WB[-1, 0, 2] if loose else 0)
        return ~(behind > 0)

    phases = jnp.arange(PHASES) / PHASES
    behind = jax.jit(jax.vmap(jax.vmap(passes, (None, 0)), (0, None)))(jnp.array(speeds), phases)
    return 100 * np.asarray(behind).mean(1)


def check_through(law, what, shape, speed, solver, **options):
    part = through(shape, (speed,), solver, **options)[0]
    name = f"{what} of 1 cm at {speed:g} m/s goes through a plate of 1 cm at 10 ms"
    law(name, 0, part, "% of phases", solver)


@slow_but_by_default
@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("loose", [False, True], ids=["fixed plate", "loose plate"])
def test_a_fast_ball_does_not_go_through_a_plate(law, loose, speed, solver):
    check_through(law, "a ball", FLYERS["ball"], speed, solver, loose=loose)


@pytest.mark.slow
@pytest.mark.parametrize("speed", SPEEDS[:-1])
@pytest.mark.parametrize("tilt", [0.0, 0.4], ids=["flat", "askew"])
@pytest.mark.parametrize("kind", list(FLYERS)[1:])
def test_solids_do_not_go_through_a_plate(law, kind, tilt, speed):
    check_through(law, "a box, capsule, cylinder or hull", FLYERS[kind], speed, DEFAULT, tilt=tilt)
