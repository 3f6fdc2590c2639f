"""Scenes of cylinders and hulls, and the one program that all tests of a pair share."""

from functools import cache

import jax
import numpy as np
from scenes import Scene, compile_fast, degenerate_scene
from scipy.spatial.transform import Rotation

from backflip.experiments.certificates.shapes import collider, stone
from backflip.geometry import Touch

N = 240
"""random pairs of a kind"""
STEP = 1e-6
"""of central differences"""
TURN, SHIFT = Rotation.from_rotvec([0.3, -1.1, 0.7]).as_matrix(), np.array([0.4, -0.2, 0.9])


def still_scenes(kinds: tuple[str, str], n: int) -> list[Scene]:
    """Poses where things coincide, touch or run parallel, n at a time."""
    scene = degenerate_scene(kinds)
    for k, kind in enumerate(kinds):
        if kind == "hull":
            scene[3 * k] = stone(k).vertices * scene[3 * k][:, None]
    starts = range(0, len(scene[0]), n)
    return [[x[np.arange(i, i + n) % len(x)] for x in scene] for i in starts]


def moved(scene: Scene) -> Scene:
    """The whole scene turned and shifted."""
    poses = [scene[1] @ TURN.T + SHIFT, TURN @ scene[2], scene[4] @ TURN.T + SHIFT, TURN @ scene[5]]
    return [scene[0], *poses[:2], scene[3], *poses[2:]]


def rates_of(scene: Scene) -> Scene:
    """Random rates of change: of sizes and corners, centres, and turning rates of the rotations."""
    rng = np.random.default_rng(6)
    return [rng.normal(size=np.shape(x) if k in (0, 3) else (len(x), 3)) for k, x in enumerate(scene)]


def shifted(scene: Scene, rates: Scene, h: float) -> Scene:
    """The scene after a time h; sizes grow by parts of themselves, corners move."""
    after = [x + h * r for x, r in zip(scene, tangent(scene, rates), strict=True)]
    for k in (2, 5):
        after[k] = Rotation.from_rotvec(h * rates[k]).as_matrix() @ scene[k]
    return after


def tangent(scene: Scene, rates: Scene) -> Scene:
    """The same as a tangent of the six arrays."""
    found = list(rates)
    for k in (0, 3):
        found[k] = rates[k] * (scene[k] if scene[k].ndim == 2 else 0.3)
    for k in (2, 5):
        found[k] = np.cross(rates[k][:, None], scene[k].swapaxes(1, 2)).swapaxes(1, 2)
    return found


@cache
def slope_program(kinds: tuple[str, str]):
    """Touch and its slope over a batch: the one program that all tests of a pair share."""
    one = collider(kinds)
    return compile_fast(lambda x, dx: jax.jvp(jax.vmap(one), x, dx))


def collide_all(kinds: tuple[str, str], scene: Scene, rates: Scene | None = None) -> tuple[Touch, Touch]:
    """Touch and slope as numpy."""
    rates = rates_of(scene) if rates is None else rates
    both = slope_program(kinds)(tuple(scene), tuple(tangent(scene, rates)))
    return tuple(Touch(*(np.asarray(x) for x in part)) for part in both)  # type: ignore
