"""Whether a robot ends on the floor."""

from typing import NamedTuple

import numpy as np

from backflip.model import Model, State, bodies_of

SUNK = 0.6
"""of its first height: a trunk below it has sunk"""
TILTED, LOWERED = 0.5, 0.9
"""cosine of the angle between a trunk and how it stood, and part of its first height: below both it has
toppled"""


class Fall(NamedTuple):
    """A robot's heaviest body, which sinks or topples and stays so to the end."""

    body: str
    step: int
    """from this one on"""
    before: float
    after: float
    """[m] height at first and at last, above the origin"""


def find_fall(model: Model, states: list[State]) -> Fall | None:
    """The first fall of a robot that stands freely in gravity; None: there is no such robot, or it stands.

    A robot is several bodies joined to each other, and not to the world; a single body is a thing.
    """
    gravity = np.asarray(model.gravity, float)
    if not np.linalg.norm(gravity):
        return None
    up = -gravity / np.linalg.norm(gravity)
    mass = np.asarray(bodies_of(model).mass)
    trunks = [max(robot, key=lambda body: mass[body]) for robot in _free_robots(model)]
    falls = [fall for trunk in trunks if (fall := _fall_of(model, states, trunk, up)) is not None]
    return min(falls, key=lambda fall: fall.step, default=None)


def _fall_of(model: Model, states: list[State], trunk: int, up: np.ndarray) -> Fall | None:
    height = np.array([np.asarray(s.p_WB[trunk], float) @ up for s in states])
    first = np.asarray(states[0].R_WB[trunk], float).T @ up
    upright = np.array([np.asarray(s.R_WB[trunk], float) @ first @ up for s in states])
    sunk = height < SUNK * height[0]
    standing = ~(sunk | ((upright < TILTED) & (height < LOWERED * height[0])))
    if height[0] <= 0 or standing[-1]:
        return None
    step = int(np.flatnonzero(standing)[-1]) + 1
    return Fall(model.topology.bodies[trunk], step, float(height[0]), float(height[-1]))


def _free_robots(model: Model) -> list[set[int]]:
    """Bodies that joints connect, two or more, none of them to the world."""
    ends = [(j.a, j.b) for j in model.topology.joints]
    groups: list[set[int]] = []
    for a, b in ends:
        touched = [group for group in groups if a in group or b in group]
        # the world, below 0, connects nothing
        groups = [group for group in groups if group not in touched] + [set().union({a, b}, *touched)]
    return [group for group in groups if min(group) >= 0]
