"""Problems for solvers: random ones, and some in which one thing happens."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.solve import Delassus, Layout, Rows, Solver


class Floats(NamedTuple):
    """Everything of a problem that has derivatives."""

    factor: Array
    velocity: Array
    softness: Array
    lower: Array
    upper: Array
    friction: Array


def rows_of(x: Floats) -> Rows:
    zero = jnp.zeros_like(x.velocity)
    return Rows(
        target=zero,
        lower=x.lower,
        upper=x.upper,
        softness=x.softness,
        friction=x.friction.reshape(-1),
        min_diagonal=zero + 1e-9,
        initial_impulse=zero,
        layout=Layout((("scalar", len(x.lower)),), (x.friction.shape,)),
    )


def solve(solver: Solver, x: Floats) -> Array:
    return solver.solve(rows_of(x), Delassus(x.factor), x.velocity)


def residual(solver: Solver, x: Floats, impulse: Array) -> Array:
    return solver.residual(rows_of(x), Delassus(x.factor), x.velocity, impulse)


def stack(problems: list[Floats]) -> Floats:
    return Floats(*map(jnp.stack, zip(*problems, strict=True)))


INF = np.inf
BOUNDS = np.array([(-INF, INF), (0, INF), (-0.3, 0.3)]).T
"""Scalar rows of every problem here: a loop joint, a limit, a servo."""


def random_problem(seed: int, contacts: int = 2, freedoms: int = 18) -> Floats:
    """A loop row, a limit, a servo and contacts; rows move each other, and their sizes differ by 100."""
    random = np.random.default_rng(seed)
    r = 3 + 3 * contacts
    size = 10 ** random.uniform(-1, 1, (r, 1))
    size[3:] = np.repeat(size[3::3], 3, 0)
    factor = size * random.normal(size=(r, freedoms)) / np.sqrt(freedoms)
    velocity = size[:, 0] * random.normal(size=r)
    return Floats(
        *map(jnp.asarray, (factor, velocity, random.uniform(0, 0.1, r) * size[:, 0] ** 2, *BOUNDS)),
        jnp.asarray(random.uniform(0, 0.5, (contacts, 1))),
    )


HAPPENS = {
    "sliding": (-0.2, -0.1, -0.05, -1, 4, -3),
    "sticking": (0.2, -0.1, 0.05, -1, 0.1, 0.2),
    "separating": (0.3, 0.4, 0.05, 2, 3, -1),
    "loop": (2.0, 0.7, 0.05, 2, 3, -1),
    "servo saturated": (0.1, 0.7, 3.0, -1, 0.1, -0.1),
    "at the limit": (0.1, -0.9, 0.05, 2, 1, -1),
    "without friction": (0.1, 0.5, 0.05, -1, 2, -1),
}
"""Velocities before: the loop row, the limit, the servo, then normal and tangents of the contact."""


def named_problem(name: str) -> Floats:
    """One in which that happens."""
    random = np.random.default_rng(7)
    factor = np.eye(6, 9) + 0.15 * random.normal(size=(6, 9))
    mu = 0.0 if name == "without friction" else 0.4
    fields = factor, HAPPENS[name], 0.02 + 0 * factor[:, 0], *BOUNDS, [[mu]]
    return Floats(*(jnp.asarray(np.array(x, float)) for x in fields))
