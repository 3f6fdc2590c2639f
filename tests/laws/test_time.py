"""Time: a step is symmetric in it, second order, and a flipping racket flips when it should."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws.scenes import last, run, run_all, slow_but_by_default

import backflip as bf
from backflip.robots import four_bar

BACK = "there and back in time, 1 s at 10 ms: {}"
X, Y, Z = np.eye(3)


def free_body() -> bf.Builder:
    b = bf.Builder()
    b.add_body("book", bf.Box((0.1, 0.2, 0.4)), velocity=(1, 2, 3), spin=(0.3, 10, -2))
    return b


def hinges() -> bf.Builder:
    """A double pendulum whose hinges are askew."""
    b = bf.Builder()
    b.add_body("upper", bf.Box((0.05, 0.1, 0.3)), position=(0, 0, -0.15), group="arm")
    b.add_body("lower", bf.Box((0.1, 0.05, 0.3)), position=(0.05, 0, -0.45), group="arm")
    b.add_hinge("shoulder", "world", "upper", position=(0, 0, 0), axis=(0.2, 1, 0))
    b.add_hinge("elbow", "upper", "lower", position=(0, 0, -0.3), axis=(1, 0.3, 0.2))
    return b


def balls() -> bf.Builder:
    """Three links let go aslant, which all turn about their pivot in the world at first."""
    b = bf.Builder()
    spin = np.array([1.0, -2.0, 0.5])
    for i in range(3):
        place = np.array([0.15 + 0.3 * i, 0, 0.05])
        body = {"position": place, "velocity": np.cross(spin, place), "spin": spin, "group": "chain"}
        b.add_body(f"link{i}", bf.Box((0.3, 0.06, 0.1)), **body)
        above = f"link{i - 1}" if i else "world"
        b.add_ball_joint(f"ball{i}", above, f"link{i}", position=(0.3 * i, 0, 0))
    return b


def slider() -> bf.Builder:
    """A sledge on a swinging rail."""
    b = bf.Builder()
    b.add_body("rail", bf.Box((0.6, 0.05, 0.05)), position=(0.1, 0, 0), group="rail")
    b.add_body("sledge", bf.Box((0.1, 0.2, 0.15)), position=(0.2, 0.1, 0.1), group="rail")
    b.add_hinge("hinge", "world", "rail", position=(0, 0, 0), axis=(0, 1, 0.3))
    b.add_slider("slider", "rail", "sledge", axis=(1, 0, 0))
    return b


def universal() -> bf.Builder:
    b = bf.Builder()
    b.add_body("rod", bf.Box((0.1, 0.05, 0.4)), position=(0.05, 0, -0.2), group="rod")
    b.add_body("bob", bf.Box((0.1, 0.2, 0.1)), position=(0.05, 0.1, -0.45), group="rod")
    b.add_universal("shoulder", "world", "rod", position=(0, 0, 0), axes=(X, Y))
    b.add_universal("wrist", "rod", "bob", position=(0.05, 0, -0.4), axes=(Y, Z))
    return b


def springs() -> bf.Builder:
    """Every joint with a spring, none of them at rest, in the air."""
    b = bf.Builder()
    sizes = [(0.5, 0.3, 0.2), (0.3, 0.1, 0.2), (0.2, 0.2, 0.4), (0.2, 0.1, 0.1)]
    places = [(0, 0, 0), (0.5, 0.1, 0), (0, 0, 0.4), (0.8, 0.1, 0.1)]
    for i, (size, place) in enumerate(zip(sizes, places, strict=True)):
        b.add_body(f"b{i}", bf.Box(size), density=300.0, position=place, group="robot")
    b.add_hinge("hinge", "b0", "b1", position=(0.3, 0, 0), axis=(1, 1, 0.5), stiffness=30.0, neutral=0.3)
    b.add_universal("universal", "b0", "b2", position=(0, 0, 0.2), axes=(X, Y), stiffness=(40.0, 20.0))
    b.add_slider("slider", "b1", "b3", axis=(1, 0, 0), stiffness=200.0, neutral=0.02)
    return b


def thrown(build: Callable[[], bf.Builder], seed: int) -> tuple[bf.Model, bf.State]:
    """Joints at random places and rates; ball joints and bodies without joints as described."""
    model = build().build()
    count = model.stiffness.shape[-1]
    if not count:
        return model, bf.rest(model)
    q, rate = np.random.default_rng(seed).normal(size=(2, count)) * [[0.5], [1.0]]
    slides = np.array([unit == "m" for joint in model.topology.joints for unit in joint.kind.units])
    return model, bf.rest(model, np.where(slides, 0.1, 1) * q, np.where(slides, 0.3, 2) * rate)


def backwards(state: bf.State) -> bf.State:
    return eqx.tree_at(lambda s: (s.v_WB, s.w_WB), state, (-state.v_WB, -state.w_WB))


def miss(states: bf.State, start: bf.State) -> float:
    return max(float(jnp.abs(getattr(states, x) - getattr(start, x)).max()) for x in ("p_WB", "R_WB"))


ROBOTS = {
    "a free body": free_body,
    "hinges": hinges,
    "ball joints": balls,
    "a slider": slider,
    "universal joints": universal,
    "springs": springs,
}


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_step_is_symmetric_in_time(law, robot):
    models, starts = zip(*(thrown(ROBOTS[robot], seed) for seed in range(8)), strict=True)
    there = run_all(models, list(starts), dt=0.01, seconds=1)
    ends = jax.tree.map(lambda x: x[:, -1], there)
    flipped = [jax.tree.map(lambda x, i=i: x[i], backwards(ends)) for i in range(len(models))]
    back = run_all(models, flipped, dt=0.01, seconds=1)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *starts)
    law(BACK.format(robot), 1e-9, miss(jax.tree.map(lambda x: x[:, -1], back), stacked))


@slow_but_by_default
def test_a_loop_is_symmetric_in_time(law, solver):
    model, push = four_bar(), jnp.full((100, 1), 0.3)
    start = bf.rest(model)
    options = {"dt": 0.01, "seconds": 1, "controls": push, "solver": solver}
    back = run(model, backwards(last(run(model, start, **options))), **options)
    law(BACK.format("a four-bar loop"), 1e-9, miss(last(back), start), "", solver)


def test_a_flipping_racket_flips_when_it_should(law):
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("racket", mass=1.0, inertia=(1e-3, 3e-3, 4e-3), spin=(0.1, 10.0, 0.1))
    model = b.build()
    states = run(model, bf.rest(model), dt=1e-3, seconds=10)
    w = np.einsum("tij,ti->tj", states.R_WB[:, 0], states.w_WB[:, 0])
    wanted = euler(np.array([1e-3, 3e-3, 4e-3]), np.array([0.1, 10, 0.1]), 1e-3, 10_000)
    assert wanted[:, 1].min() < -9.9
    law("spin of a flipping racket, 10 s at 1 ms", 0.1, 100 * np.abs(w - wanted).max() / 10, "%")


def euler(inertia: np.ndarray, w: np.ndarray, dt: float, steps: int) -> np.ndarray:
    """Spins (steps, 3) in B by Euler's equations, I ẇ = I w × w, Runge-Kutta of fourth order."""

    def rate(w: np.ndarray) -> np.ndarray:
        (a, b, c), (x, y, z) = inertia, w
        return np.array([(b - c) * y * z / a, (c - a) * z * x / b, (a - b) * x * y / c])

    spins = []
    for _ in range(steps):
        k1 = rate(w)
        k2 = rate(w + dt / 2 * k1)
        k3 = rate(w + dt / 2 * k2)
        w = w + dt / 6 * (k1 + 2 * k2 + 2 * k3 + rate(w + dt * k3))
        spins.append(w)
    return np.array(spins)


# --- dampers ------------------------------------------------------------------------------------------------

TIME = 0.64
"""[s] after which damped joints are compared"""


def damped(kind: str, stiffness: float, damping: float) -> tuple[bf.Model, bf.State]:
    """One body of inertia or mass 0.1 on one joint, at 0.2 [rad or m] and 1.5 [1/s]."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("body", mass=0.1, inertia=(0.05, 0.05, 0.05), position=(0, 0, -np.sqrt(0.5)))
    options = {"position": (0, 0, 0), "stiffness": stiffness, "damping": damping}
    if kind == "slider":
        b.add_slider("joint", "world", "body", axis=(1, 0, 0), **options)
    else:
        b.add_hinge("joint", "world", "body", axis=(0, 1, 0), **options)
    model = b.build()
    return model, bf.rest(model, {"joint": 0.2}, {"joint": 1.5})


def decay(t: float, stiffness: float, damping: float) -> float:
    """The joint's coordinate after t [s], by m q̈ = −k q − d q̇."""
    roots = np.roots([0.1, damping, stiffness]).astype(complex)
    if stiffness == 0:
        return 0.2 + 1.5 * 0.1 / damping * (1 - np.exp(-damping / 0.1 * t))
    a, b = np.linalg.solve(np.stack([np.ones(2), roots]), np.array([0.2, 1.5]))
    return float((a * np.exp(roots[0] * t) + b * np.exp(roots[1] * t)).real)


@pytest.mark.parametrize("kind", ["hinge", "slider"])
@pytest.mark.parametrize("stiffness", [0.0, 5.0])
def test_dampers_are_second_order(law, kind, stiffness):
    errors = []
    for dt in (0.01, 0.005):
        model, start = damped(kind, stiffness, 0.4)
        end = last(run(model, start, dt=dt, seconds=TIME))
        errors.append(abs(float(bf.joint_positions(model, end)["joint"]) - decay(TIME, stiffness, 0.4)))
    exact = max(errors) < 1e-10
    law("order of dampers, short of 2", 0.1, 0 if exact else 2 - np.log2(errors[0] / errors[1]))
    law("error of a damped joint at 10 ms, against the exact decay", 1, 1e3 * errors[0], "mm")


def test_a_stiff_damper_does_not_rock():
    """Its rate is damped a hundredfold within a step, and never grows."""
    model, start = damped("hinge", 0.0, 1000.0)
    spins = np.abs(run(model, start, dt=0.01, seconds=1).w_WB[:, 0, 1])
    assert spins.max() <= 1.5 and spins[-1] < 1e-2
