"""Every gradient against differences: ten situations, 1, 10 and 100 steps, every float leaf, both modes.

The loss is a fixed random linear functional of the last p, R, v and w. Gradients are multiplied by the scale
of their leaf (its largest entry, or 1 where all are 0), so that they share the loss's unit and compare.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from backflip import (
    PGS,
    Box,
    Builder,
    InteriorPoint,
    Model,
    Newton,
    Scheme,
    Sphere,
    State,
    Trajectory,
    rest,
    rollout,
    step,
)
from backflip.experiments.certificates import differences, horizons
from backflip.robots import quadruped

DT = 0.01
"""[s]"""
SCHEMES = {
    "Newton": Scheme(DT, Newton()),
    "PGS": Scheme(DT, PGS()),
    "interior point": Scheme(DT, InteriorPoint()),
}
"""By solver, the default first."""
DEFAULT = next(iter(SCHEMES))
STEPS = (1, 10, 100)
TOLERANCE = 1e-5
"""Largest relative error of a gradient that passes."""
FLOOR = 1e-4
"""Entries smaller than this part of the largest are measured against it: differences cannot resolve them."""
ELEMENTS = 12
"""Most elements of one leaf that are tried, picked at random."""
BATCH = 256
"""Rollouts at a time: enough to fill the processor, few enough to stay in its cache."""
SHOWN = ("p_WB", "R_WB", "v_WB", "w_WB")
"""Fields of the last State that the loss reads."""


@dataclass(frozen=True)
class Case:
    """A small scene in which one thing happens."""

    name: str
    begin: Callable[[int], tuple[Model, State, Array]]
    """model, start and controls (100, controls) such that it happens within so many steps"""
    happens: Callable[[Trajectory], Any]
    """whether it did"""


@dataclass(frozen=True)
class Cell:
    """What was found for one case and number of steps."""

    case: str
    steps: int
    happens: bool
    error: float
    """worst relative error of either mode"""
    leaf: str
    """where it is"""
    reverse: float
    forward: float
    """worst relative error of each mode"""
    elements: int
    leaves: int
    failure: str = ""
    """why there is no gradient, if there is none"""
    solver: str = DEFAULT

    @property
    def ok(self) -> bool:
        """Whether it happened and every gradient passed."""
        return self.happens and not self.failure and self.error <= TOLERANCE


def _controls(values: Any) -> Array:
    return jnp.broadcast_to(jnp.asarray(values, float), (STEPS[-1], np.shape(values)[-1]))


def _free_flight(steps: int) -> tuple[Model, State, Array]:
    builder = Builder()
    builder.add_body("body", Box((0.3, 0.2, 0.1)), mass=1.2, velocity=(1, 0.3, 2), spin=(1, -2, 3))
    builder.add_body("tail", mass=0.4, inertia=(2e-3, 3e-3, 4e-3), position=(0.3, 0, 0))
    builder.add_ball_joint("hip", "body", "tail", position=(0.15, 0.02, 0), damping=0.01)
    builder.add_force("body", direction=(0, 1, 0.5), position=(0.1, 0, 0.05))
    builder.add_torque("tail", direction=(0.1, 0.2, -0.1))
    model = builder.build()
    return model, rest(model), _controls([0.7, 0.3])


def _box_on_ground(height: float, **options: Any) -> Builder:
    builder = Builder()
    builder.add_ground(friction=0.5, restitution=0.2)
    builder.add_body("box", Box((0.4, 0.3, 0.2)), position=(0, 0, 0.1 + height), friction=0.7, **options)
    builder.add_force("box", direction=(1, 0.4, 0.3), position=(0.05, 0.02, 0.03))
    return builder


def _resting(steps: int) -> tuple[Model, State, Array]:
    model = _box_on_ground(1e-4, mass=1.3).build()
    return model, rest(model), _controls([0.5])


def _sliding(steps: int) -> tuple[Model, State, Array]:
    model = _box_on_ground(1e-4, density=60, velocity=(7, 1, 0), spin=(0, 0, 0.5)).build()
    return model, rest(model), _controls([0.5])


def _rolling(steps: int) -> tuple[Model, State, Array]:
    builder = Builder()
    builder.add_ground(friction=0.8, rotation=(0.05, 0.1, 0))
    v, w = (1.0, 0.2, -0.1), (-0.9, 5.0, 0.5)
    builder.add_body("ball", Sphere(0.2), mass=0.9, position=(0, 0, 0.2012), velocity=v, spin=w)
    model = builder.build()
    return model, rest(model), _controls(np.zeros(0))


def _impact(steps: int) -> tuple[Model, State, Array]:
    builder = Builder()
    builder.add_body("left", Sphere(0.1), density=300, friction=0.3, restitution=0.7, spin=(1, 5, -3))
    builder.add_body("right", Sphere(0.15), mass=2, position=(1, 0, 0), restitution=0.4, spin=(2, 0, 1))
    model = builder.build()
    velocity = jnp.array([[3.0, 0.5, 1.0], [-2.0, 0.0, 0.2]])
    # the radii add up to 0.25 m and these centres are 0.245 m apart: they touch a little earlier
    meet = jnp.array([[0, 0, 0], [0.2, 0.1, 0.1]])
    p_WB = meet - DT * (0.6 * steps + 0.03) * velocity
    return model, replace(rest(model), p_WB=p_WB, v_WB=velocity), _controls(np.zeros(0))


def _separation(steps: int) -> tuple[Model, State, Array]:
    builder = _box_on_ground(1e-4, mass=1.3)
    builder.add_force("box", direction=(0.1, 0, 1), position=(1e-3, -1e-3, 0), name="lift")
    model = builder.build()
    start, weight = rest(model), 1.3 * 9.81
    force = start.force.reshape(-1, 3).at[:, 0].set(weight / 4).reshape(-1)
    late = np.arange(STEPS[-1]) >= steps // 2
    return model, replace(start, force=force), _controls(np.stack([0.5 + 0 * late, 1.6 * weight * late], -1))


def _arm(**options: Any) -> Builder:
    builder = Builder()
    builder.add_body("upper", Box((0.3, 0.05, 0.06)), mass=0.8, position=(0.15, 0, 0))
    builder.add_body("lower", Sphere(0.06), density=500, position=(0.35, 0, 0.02))
    builder.add_hinge("shoulder", "world", "upper", position=(0, 0, 0), axis=(0, 1, 0.1), **options)
    return builder


def _servo(steps: int) -> tuple[Model, State, Array]:
    builder = _arm(stiffness=0.4, damping=0.03, neutral=0.2)
    builder.add_slider("wrist", "upper", "lower", axis=(0, 0.2, 1), stiffness=60, damping=0.5)
    builder.add_servo("shoulder", gain=12, max_velocity=5, max_torque=1.5)
    model = builder.build()
    return model, rest(model, jnp.array([0.2, 0.01])), _controls([-1.5])


def _limit(steps: int) -> tuple[Model, State, Array]:
    builder = _arm(limits=(-0.4, 0.3), damping=0.02)
    builder.add_universal(
        "wrist", "upper", "lower", position=(0.3, 0, 0), axes=((0, 1, 0), (0, 0, 1)), stiffness=(3, 2)
    )
    builder.add_motor("shoulder")
    model = builder.build()
    return model, rest(model, jnp.array([0.2999, 0.1, 0.05])), _controls([0.6])


def _soft_joint(steps: int) -> tuple[Model, State, Array]:
    builder = _arm()
    builder.add_fixed("wrist", "upper", "lower", position=(0.3, 0, 0), frequency=4, damping_ratio=0.7)
    model = builder.build()
    return model, rest(model, jnp.array([0.2])), _controls(np.zeros(0))


@cache
def _trot(steps: int) -> tuple[Model, State, Array]:
    model, x = quadruped(), jnp.array(horizons.START["trotting"])
    u = horizons.targets("trotting", x, horizons.WARM_UP + np.arange(STEPS[-1]))
    return model, horizons.warmed_up(model, "trotting"), u


def _pressed(trajectory: Trajectory) -> Array:
    """Whether some contact presses, step by step."""
    force = trajectory.state.force
    return jnp.any(force.reshape(*force.shape[:-1], -1, 3)[..., 0] > 1e-6, -1)


CASES = (
    Case("free flight", _free_flight, lambda t: True),
    Case("resting contact", _resting, lambda t: jnp.all(_pressed(t)) & (jnp.abs(t.last.v_WB).max() < 1e-2)),
    Case("sliding", _sliding, lambda t: jnp.all(_pressed(t)) & (t.last.v_WB[0, 0] > 1)),
    Case("rolling", _rolling, lambda t: jnp.all(_pressed(t)) & (jnp.abs(t.last.w_WB).max() > 1)),
    Case("impact", _impact, lambda t: jnp.sum(_pressed(t)) == 1),
    Case("separation", _separation, lambda t: ~_pressed(t)[-1] & (t.last.v_WB[0, 2] > 0)),
    Case("servo saturated", _servo, lambda t: jnp.abs(jnp.abs(t.state.force[0, 0]) - 1.5) < 1e-9),
    Case("joint at its limit", _limit, lambda t: jnp.all(t.state.force[:, 1] > 1e-6)),
    Case("soft joint", _soft_joint, lambda t: jnp.any(t.state.force != 0)),
    Case("trotting robot", _trot, lambda t: jnp.all(jnp.any(t.state.force[:, 8::3] > 1e-6, -1))),
)
NAMES = tuple(case.name for case in CASES)
TOO_ROUGH = (("trotting robot", 100, "PGS"),)
"""Case, steps and solver that are shown and need not pass: sweeps leave steps of this robot unsolved, later
ones amplify what is left, and differences agree with each other no more than with the gradient"""


class Programs:
    """The compiled programs of one case: of flat parameters x and how many steps, which is not static."""

    def __init__(self, case: Case, scheme: Scheme):
        self.scheme = scheme
        self.x, self.parts = ravel_pytree(case.begin(STEPS[-1]))
        _, start, _ = self.parts(self.x)
        weights = np.random.default_rng(0)
        self.weights = {name: weights.normal(size=getattr(start, name).shape) for name in SHOWN}
        self.reverse = jax.jit(jax.grad(self._loss_of_rollout))
        self.value = jax.jit(jax.vmap(self._loss, (0, None)))
        self.forward = jax.jit(jax.vmap(self._slope, (None, 0, None)))

    def _measure(self, last: State) -> Array:
        return sum((jnp.sum(w * getattr(last, name)) for name, w in self.weights.items()), jnp.zeros(()))

    def _loss_of_rollout(self, x: Array, steps: int) -> Array:
        """Reverse mode as a user has it, through rollout() and its checkpoints."""
        model, start, u = self.parts(x)
        states = rollout(self.scheme, model, start, u).state
        return self._measure(jax.tree.map(lambda leaf: leaf[steps - 1], states))

    def _loss(self, x: Array, steps: int) -> Array:
        model, start, u = self.parts(x)
        last = jax.lax.fori_loop(0, steps, lambda i, s: step(self.scheme, model, s, u[i]), start)
        return self._measure(last)

    def _slope(self, x: Array, direction: Array, steps: int) -> Array:
        return jax.jvp(lambda x: self._loss(x, steps), (x,), (direction,))[1]


@cache
def programs(case: Case, solver: str) -> Programs:
    """Programs are built once per case."""
    return Programs(case, SCHEMES[solver])


def compare_or_fail(case: Case, steps: int, solver: str) -> Cell:
    """A gradient that cannot be computed is a finding too."""
    try:
        return compare(case, steps, solver=solver)
    except NotImplementedError as failure:  # what JAX says where an operation has no derivative
        nothing = float("inf")
        return Cell(case.name, steps, True, nothing, "", nothing, nothing, 0, 0, str(failure), solver)


def compare(case: Case, steps: int, elements: int = ELEMENTS, solver: str = DEFAULT) -> Cell:
    """Both modes against central differences, for up to `elements` elements of every float leaf."""
    run = programs(case, solver)
    model, start, u = case.begin(steps)
    x = np.asarray(ravel_pytree((model, start, u))[0])
    place, names, scale = _elements((model, start, u), steps, elements)
    away = np.zeros((len(place), x.size))
    away[np.arange(len(place)), place] = scale

    reverse = np.asarray(run.reverse(x, steps))[place] * scale
    forward = _in_batches(lambda d: run.forward(x, d, steps), away)

    def loss(x: np.ndarray) -> np.ndarray:
        return _in_batches(lambda x: run.value(x, steps), x)

    slopes = [(loss(x + h * away) - loss(x - h * away)) / (2 * h) for h in differences.STEPS]
    wanted = differences.plateau(np.stack(slopes))

    size = np.maximum(np.abs(wanted), FLOOR * np.abs(wanted).max())
    errors = np.stack([np.abs(g - wanted) / size for g in (reverse, forward)])
    errors = np.where(np.isfinite(errors), errors, np.inf)
    worst = errors.max(0)
    return Cell(
        case=case.name,
        steps=steps,
        happens=bool(case.happens(rollout(run.scheme, model, start, u[:steps]))),
        error=float(worst.max()),
        leaf=names[int(worst.argmax())],
        reverse=float(errors[0].max()),
        forward=float(errors[1].max()),
        elements=len(place),
        leaves=len(set(names)),
        solver=solver,
    )


def _elements(tree: Any, steps: int, most: int) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Places in the flat parameters, leaf names and scales of the elements to try."""
    random = np.random.default_rng(1)
    places, names, scales, first = [], [], [], 0
    for (owner, *path), leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = ("model", "state", "u")[owner.idx] + jax.tree_util.keystr(tuple(path))
        count = leaf.size if path else steps * leaf.shape[-1]  # controls after the last step do nothing
        chosen = np.sort(random.permutation(count)[:most])
        places.append(first + chosen)
        names += [name] * len(chosen)
        scales.append(np.full(len(chosen), float(np.abs(leaf).max(initial=0)) or 1.0))
        first += leaf.size
    return np.concatenate(places), names, np.concatenate(scales)


def _in_batches(f: Callable[[np.ndarray], Array], rows: np.ndarray) -> np.ndarray:
    """f of all rows, in batches of one size so that it compiles once."""
    rows = np.asarray(rows)
    count = -(-len(rows) // BATCH)
    padded = np.resize(rows, (count * BATCH, *rows.shape[1:]))
    return np.concatenate([f(part) for part in np.split(padded, count)])[: len(rows)]
