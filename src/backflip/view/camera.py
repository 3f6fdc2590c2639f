"""The eye and the sun of painted pictures: where rays start, and where a point is seen."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

FIELD = math.radians(40)
"""[rad] height of the picture as an angle at the eye, as in replay.js."""

MARGIN = 1.15
"""How much farther away the camera stands than it would need to."""


def unit(*v: float) -> np.ndarray:
    """(3,) along v."""
    return np.array(v) / np.linalg.norm(v)


EYE, SUN = unit(0.5, -1.0, 0.42), unit(1.4, -1.0, 2.4)
"""Directions they are seen in, as in replay.js."""


def axes_of(z: np.ndarray) -> np.ndarray:
    """Rows right, up and z of a view along −z, in which the world's z points up."""
    x = unit(*np.cross([0.0, 0.0, 1.0], z))
    return np.stack([x, np.cross(z, x), z])


def corner_signs() -> np.ndarray:
    """(8, 3) of −1 and 1: where the corners of a box are."""
    return np.stack(np.meshgrid(*[(-1, 1)] * 3), axis=-1).reshape(8, 3)


def rectangle(x: np.ndarray, y: np.ndarray, width: int, height: int) -> tuple[slice, slice]:
    """Rows and columns that hold all points, as far as they are in the picture."""

    def span(at: np.ndarray, end: int) -> slice:
        return slice(int(np.clip(at.min(), 0, end)), int(np.clip(at.max() + 1, 0, end)))

    return span(y, height), span(x, width)


@dataclass(frozen=True)
class Camera:
    """A camera that never turns; it stands `distance` from its target in the direction EYE."""

    width: int
    height: int
    """[pixels]"""
    half: np.ndarray
    """(3,) [m] half edges of a box about the target that is to be seen"""

    @cached_property
    def axes(self) -> np.ndarray:
        """(3, 3) rows: right, up, towards the eye."""
        return axes_of(EYE)

    @cached_property
    def distance(self) -> float:
        """[m] from which all corners of the box are in the picture."""
        x, y, z = self.axes @ (corner_signs() * self.half).T
        high = math.tan(FIELD / 2)
        wide = high * self.width / self.height
        return MARGIN * float((z + np.maximum(np.abs(x) / wide, np.abs(y) / high)).max())

    @cached_property
    def rays(self) -> np.ndarray:
        """(3, height, width) unit vectors from the eye through every pixel, in W."""
        step = 2 * math.tan(FIELD / 2) / self.height
        x = (np.arange(self.width) + 0.5 - self.width / 2) * step
        y = (self.height / 2 - np.arange(self.height) - 0.5) * step
        d = np.stack([*np.meshgrid(x, y), np.full((self.height, self.width), -1.0)])
        d = np.einsum("ij,j...->i...", self.axes.T, d / np.linalg.norm(d, axis=0))
        return d.astype(np.float32)

    def seen_at(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Column and row of points p (m, 3) [m], from the target, in W."""
        x, y, z = (p @ self.axes.T).T
        # what is behind the eye is far out of the picture
        scale = self.height / (2 * math.tan(FIELD / 2)) / np.maximum(self.distance - z, 1e-3 * self.distance)
        return self.width / 2 + scale * x, self.height / 2 - scale * y
