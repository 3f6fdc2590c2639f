"""A Scene is all that a picture needs: rigid parts, where their bodies were, and what pushed them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backflip.geometry import Form, Shape
from backflip.view.colour import GROUND, PALETTE

WORLD = -1
"""Body index of parts that never move."""


@dataclass(frozen=True)
class Part:
    """A solid on a body, with frame S fixed in the body, whose centre of mass is C and whose axes are B's."""

    kind: type[Shape]
    form: Form
    """what its kind makes of it: its size (3,) [m], or a Polytope"""
    body: int = WORLD
    p_CS: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """[m] from the centre of mass, in B (in W for the world)"""
    R_BS: tuple[tuple[float, float, float], ...] | np.ndarray = (
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.0, 0.0, 1.0),
    )
    colour: str | None = None
    """CSS hex colour; by body in turn where not given"""

    @cached_property
    def block(self) -> tuple[np.ndarray, np.ndarray]:
        """Low and high corners (3,) [m] of a box around it, in S; of a plane its origin."""
        return self.kind.block(self.form)

    @cached_property
    def reach(self) -> float:
        """[m] distance from the origin of S to the farthest point; 0 for a plane, which has none."""
        return self.kind.reach(self.form)


@dataclass(frozen=True)
class Forces:
    """k forces over T times, in W."""

    f: np.ndarray
    """(T, k, 3) [N]; 0 where nothing touches"""
    p: np.ndarray
    """(T, k, 3) [m] where they act"""


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
    forces: Forces | None = None

    def __post_init__(self) -> None:
        """Refuse by name what does not fit."""
        T, n = self.p_WB.shape[:2]
        arrays = {
            "p_WB": (self.p_WB, (T, n, 3)),
            "R_WB": (self.R_WB, (T, n, 3, 3)),
            "times": (self.times, (T,)),
        }
        if self.forces is not None:
            shape = (T, self.forces.f.shape[1], 3)
            arrays |= {"forces.f": (self.forces.f, shape), "forces.p": (self.forces.p, shape)}
        for name, (array, shape) in arrays.items():
            if array.shape != shape:
                raise ValueError(f"scene: {name} has shape {array.shape}; {shape} fits p_WB")
            if not np.isfinite(array).all():
                raise ValueError(f"scene: {name} has numbers that are not finite")
        if T == 0 or (np.diff(self.times) <= 0).any():
            raise ValueError("scene: times must rise and hold at least one moment")
        for i, part in enumerate(self.parts):
            if not (isinstance(part.kind, type) and issubclass(part.kind, Shape)):
                raise ValueError(f"scene: part {i} is a {part.kind!r}; give a class of shapes such as Sphere")
            if not WORLD <= part.body < n:
                raise ValueError(f"scene: part {i} sits on body {part.body}; there are {n} bodies")


def colour_of(part: Part) -> str:
    """CSS hex colour: the part's own, else its body's."""
    return part.colour or (GROUND if part.body == WORLD else PALETTE[part.body % len(PALETTE)])


def thin(scene: Scene, fps: float) -> Scene:
    """The same motion at no more than `fps` pictures a second; first and last moments are among them."""
    t = scene.times
    wanted = np.arange(t[0], t[-1], 1 / fps)
    # the first moment at or after each picture; the nudge forgives rounding in the times
    shown = np.unique(np.append(np.searchsorted(t, wanted - 1e-9 / fps), len(t) - 1))
    forces = None if scene.forces is None else _gathered(scene.forces, shown)
    return Scene(scene.parts, scene.p_WB[shown], scene.R_WB[shown], t[shown], forces)


def _gathered(forces: Forces, shown: np.ndarray) -> Forces:
    """Mean forces since the picture before, so that no blow is lost between two; points weigh by force."""
    starts = np.append(0, shown[:-1] + 1)
    counts = np.diff(np.append(starts, shown[-1] + 1))[:, None, None]
    weight = np.linalg.norm(forces.f, axis=-1, keepdims=True)
    whole = np.add.reduceat(weight, starts)
    p = np.add.reduceat(weight * forces.p, starts) / np.where(whole > 0, whole, 1)
    return Forces(np.add.reduceat(forces.f, starts) / counts, p)


def frame(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Centre (3,) and half edges (3,) [m] of a box around everything that is ever seen, planes left out."""
    solid = [part for part in scene.parts if not part.kind.endless]
    if not solid:
        return np.zeros(3), np.ones(3)
    low, high = (np.concatenate(side) for side in zip(*(bounds(scene, part) for part in solid), strict=True))
    return (low.min(axis=0) + high.max(axis=0)) / 2, (high.max(axis=0) - low.min(axis=0)) / 2


def bounds(scene: Scene, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Low and high corners (T, 3) [m] of a box around a part; (1, 3) for a part of the world."""
    low, high, rounding = part.kind.core(part.form)
    half = (high - low) / 2
    p, R = np.asarray(part.p_CS)[None], np.asarray(part.R_BS)[None]
    if part.body != WORLD:
        # p_WS = p_WB + R_WB p_CS
        p = scene.p_WB[:, part.body] + scene.R_WB[:, part.body] @ p[0]
        R = scene.R_WB[:, part.body] @ R
    out = np.abs(R) @ half + rounding
    middle = p + R @ ((low + high) / 2)
    return middle - out, middle + out
