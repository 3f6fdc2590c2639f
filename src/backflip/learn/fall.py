"""Whether a robot ends on the floor."""

from typing import NamedTuple

import numpy as np

from backflip.model import Model, State, bodies_of

LOW = 0.6
"""of its first height: a trunk below it has sunk"""
TILTED = 0.5
"""cosine of the angle between a trunk and how it stood: below it has toppled"""


class Fall(NamedTuple):
    """A robot's heaviest body, which sinks or topples and stays so to the end."""

    body: str
    step: int
    """from this one on"""
    before: float
    after: float
    """[m] height at first and at last, above the origin"""


def find_fall(model: Model, states: list[State]) -> Fall | None:
    """The fall of a robot that stands freely in gravity; None: it does not fall, or is no such robot."""
    facts, gravity = model.topology, np.asarray(model.gravity, float)
    trunk = int(np.argmax(np.asarray(bodies_of(model).mass)))
    if not facts.joints or not np.linalg.norm(gravity) or _hangs_from_world(model, trunk):
        return None
    up = -gravity / np.linalg.norm(gravity)
    height = np.array([np.asarray(s.p_WB[trunk], float) @ up for s in states])
    first = np.asarray(states[0].R_WB[trunk], float).T @ up
    upright = np.array([np.asarray(s.R_WB[trunk], float) @ first @ up for s in states])
    standing = (height >= LOW * height[0]) & (upright >= TILTED)
    if height[0] <= 0 or not standing[0] or standing[-1]:
        return None
    step = int(np.flatnonzero(standing)[-1]) + 1
    return Fall(facts.bodies[trunk], step, float(height[0]), float(height[-1]))


def _hangs_from_world(model: Model, body: int) -> bool:
    """Whether joints lead from a body to the world."""
    reached, new = {body}, {body}
    while new:
        ends = [(j.a, j.b) for j in model.topology.joints]
        new = {b for a, b in ends if a in reached} | {a for a, b in ends if b in reached}
        new -= reached
        reached |= new
    return any(b < 0 for b in reached)
