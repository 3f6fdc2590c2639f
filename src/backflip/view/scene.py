"""A Scene is all that a picture needs: rigid parts, and where their bodies were at every time."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Kind = Literal["sphere", "box", "capsule", "plane"]

WORLD = -1
"""Body index of parts that never move."""


@dataclass(frozen=True)
class Part:
    """A solid on a body, with frame S fixed in the body's frame B."""

    kind: Kind
    size: tuple[float, float, float]
    """[m] sphere (radius, 0, 0); box: edge lengths; capsule (radius, length of its cylinder along
    local z, 0); plane (0, 0, 0): endless, with local z as its normal"""
    body: int = WORLD
    p_BS: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """[m]"""
    R_BS: tuple[tuple[float, float, float], ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    colour: str | None = None
    """CSS hex colour; by body in turn where not given"""

    @property
    def reach(self) -> float:
        """[m] distance from the origin of S to the farthest point; 0 for a plane, which has none."""
        a, b, c = self.size
        far = {"sphere": a, "box": float(np.hypot(np.hypot(a, b), c)) / 2, "capsule": a + b / 2, "plane": 0.0}
        return far[self.kind]


@dataclass(frozen=True)
class Scene:
    """Parts and the motion of n bodies over T times."""

    parts: tuple[Part, ...]
    p_WB: np.ndarray
    """(T, n, 3) [m], in W, z up"""
    R_WB: np.ndarray
    """(T, n, 3, 3)"""
    times: np.ndarray
    """(T,) [s], rising"""

    def __post_init__(self) -> None:
        """Say early and by name what does not fit."""
        T, n = self.p_WB.shape[:2]
        shapes = {"p_WB": (T, n, 3), "R_WB": (T, n, 3, 3), "times": (T,)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape:
                raise ValueError(f"scene: {name} has shape {array.shape}; {shape} fits p_WB")
            if not np.isfinite(array).all():
                raise ValueError(f"scene: {name} has numbers that are not finite")
        if T == 0 or (np.diff(self.times) <= 0).any():
            raise ValueError("scene: times must rise and hold at least one moment")
        for i, part in enumerate(self.parts):
            if part.kind not in get_args(Kind):
                raise ValueError(
                    f"scene: part {i} is a {part.kind!r}; known kinds: {', '.join(get_args(Kind))}"
                )
            if not WORLD <= part.body < n:
                raise ValueError(f"scene: part {i} sits on body {part.body}; there are {n} bodies")


def thin(scene: Scene, fps: float) -> Scene:
    """The same motion at no more than `fps` pictures a second; first and last moments are kept."""
    t = scene.times
    wanted = np.arange(t[0], t[-1], 1 / fps)
    # the first moment at or after each picture; the nudge forgives rounding in the times
    keep = np.unique(np.append(np.searchsorted(t, wanted - 1e-9 / fps), len(t) - 1))
    return Scene(scene.parts, scene.p_WB[keep], scene.R_WB[keep], t[keep])


def frame(scene: Scene) -> tuple[np.ndarray, float]:
    """Centre (3,) [m] and radius [m] of a ball around everything that is ever seen, planes left out."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for part in scene.parts:
        if part.kind == "plane":
            continue
        p_WS = _path_of(scene, part)
        low = np.minimum(low, p_WS.min(axis=0) - part.reach)
        high = np.maximum(high, p_WS.max(axis=0) + part.reach)
    if not np.isfinite(low).all():
        return np.zeros(3), 1.0
    return (low + high) / 2, max(float(np.linalg.norm(high - low)) / 2, 1e-3)


def _path_of(scene: Scene, part: Part) -> np.ndarray:
    """p_WS (T, 3), or (1, 3) for a part of the world."""
    p_BS = np.asarray(part.p_BS)
    if part.body == WORLD:
        return p_BS[None]
    # p_WS = p_WB + R_WB p_BS
    return scene.p_WB[:, part.body] + scene.R_WB[:, part.body] @ p_BS
