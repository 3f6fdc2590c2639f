"""How to look at a Scene: what to frame, whether to go along, how long an arrow is."""

import math
from dataclasses import dataclass

import numpy as np

from backflip.view.scene import WORLD, Scene, bounds, frame

FAR = 4.0
"""A motion that reaches this many times farther than the robot itself is looked at from alongside."""
CALM = 0.5
"""[s] over which the point that is followed is averaged: steps and hops must not shake the camera."""
STRONG = 0.7
"""Length of a strong force's arrow, in radii of the robot."""


@dataclass(frozen=True)
class Look:
    """What a camera needs to know of a Scene."""

    centre: np.ndarray
    half: np.ndarray
    """(3,) and (3,) [m] middle and half edges of a box around the whole motion, in W"""
    path: np.ndarray
    """(T, 3) [m] calm path of the middle of what moves, in W"""
    robot: np.ndarray
    """(3,) [m] half edges of a box around what moves, at any one time"""
    follow: bool
    """whether to go along the path"""
    per_newton: float
    """[m/N] length of force arrows; 0 where there are no forces"""

    @property
    def view(self) -> np.ndarray:
        """(3,) [m] half edges of what is in the picture."""
        return self.robot if self.follow else self.half

    @property
    def tile(self) -> float:
        """[m] edge of the ground's tiles, near half the radius of what is in the picture."""
        return round_below(radius(self.view) / 2)


def look_at(scene: Scene) -> Look:
    """Frame the whole motion, or the robot where the motion is much larger than that."""
    centre, half = frame(scene)
    path, robot = _moving(scene)
    # the story of a lone body is its path
    follow = scene.p_WB.shape[1] > 1 and radius(half) > FAR * radius(robot)
    return Look(centre, half, path, robot, follow, _per_newton(scene, radius(robot)))


def radius(half: np.ndarray) -> float:
    """[m] of a ball around a box; never 0."""
    return max(float(np.linalg.norm(half)), 1e-3)


def _moving(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Calm path (T, 3) of the middle of all moving parts, and half edges (3,) of a box that holds them."""
    solid = [part for part in scene.parts if not part.kind.endless and part.body != WORLD]
    if not solid:
        centre, half = frame(scene)
        return np.tile(centre, (len(scene.times), 1)), half
    lows, highs = zip(*(bounds(scene, part) for part in solid), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    return _calmed((low + high) / 2, scene.times), ((high - low) / 2).max(axis=0)


def _calmed(path: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Running mean of a path (T, 3) over CALM."""
    T = len(times)
    half = 0 if T == 1 else round(CALM / 2 * (T - 1) / (times[-1] - times[0]))
    # beyond its ends the path goes on as it began: the camera does not lag there
    padded = np.pad(path, ((half, half), (0, 0)), "reflect", reflect_type="odd")
    window = np.full(2 * half + 1, 1 / (2 * half + 1))
    return np.stack([np.convolve(column, window, "valid") for column in padded.T], axis=-1)


def _per_newton(scene: Scene, size: float) -> float:
    """[m/N] round, so that a strong force is drawn about as long as the robot is large."""
    if scene.forces is None:
        return 0.0
    strength = np.linalg.norm(scene.forces.f, axis=-1)
    felt = strength[strength > 0]
    # one hard landing must not shrink all others: strong is what 1 in 20 forces exceed
    exact = STRONG * size / float(np.percentile(felt, 95)) if len(felt) else 0.0
    return round_below(exact, digits=tuple(range(1, 10))) if exact else 0.0


def round_below(x: float, digits: tuple[int, ...] = (1, 2, 5)) -> float:
    """The largest of `digits` times a power of ten that is not above x > 0."""
    power = 10.0 ** math.floor(math.log10(x))
    return power * max(k for k in digits if k * power <= x * (1 + 1e-9))


def arrow_scale(per_newton: float) -> str:
    """The scale of arrows in words: a power of ten that is drawn between 0.1 and 1 m long."""
    force = 10.0 ** math.ceil(math.log10(0.1 / per_newton) - 1e-9)
    amount = f"{force / 1000:g} kN" if force >= 1000 else f"{force:g} N"
    return f"{amount} = {force * per_newton:g} m"
