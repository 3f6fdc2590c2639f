"""Shadows: a map, as the sun sees it, of how far up solids reach."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from backflip.view.camera import SUN, axes_of, rectangle
from backflip.view.rays import Solid, turned


@dataclass(frozen=True)
class SunMap:
    """A square about the origin, seen along the sun's rays."""

    reach: float
    """[m] half the square's edge"""
    texels: int
    """points along an edge of the map"""
    axes: np.ndarray = field(default_factory=lambda: axes_of(SUN))
    """rows: the map's columns, its rows, and towards the sun"""

    @cached_property
    def height(self) -> np.ndarray:
        """(texels, texels) [m] towards the sun from the origin; it rises as solids are cast."""
        return np.full((self.texels, self.texels), -np.inf, np.float32)

    @property
    def texel(self) -> float:
        """[m] edge of one point of the map."""
        return 2 * self.reach / self.texels

    def cast(self, solid: Solid) -> None:
        """Let a solid stand in the light."""
        x, y, _ = self.axes @ solid.corners.T / self.texel + self.texels / 2
        box = rectangle(x, y, self.texels, self.texels)
        y, x = ((np.arange(side.start, side.stop) + 0.5 - self.texels / 2) * self.texel for side in box)
        if not x.size or not y.size:
            return
        above = 4 * self.reach
        start = np.stack([*np.meshgrid(x, y), np.full((len(y), len(x)), above)])
        R = self.axes @ solid.R  # from S to the sun's axes
        o = turned(R.T, start.astype(np.float32)) - (solid.R.T @ solid.p).astype(np.float32)[:, None, None]
        t, _ = solid.hit(o, -R[2].astype(np.float32)[:, None, None])
        self.height[box] = np.maximum(self.height[box], above - t)

    def lit(self, p: np.ndarray, slack: float = 0.0) -> np.ndarray:
        """Whether points p (3, ...) [m] see the sun past all that is more than `slack` [m] above them."""
        x, y, z = turned(self.axes, p)
        column, row = ((v / self.texel + self.texels / 2).astype(np.int32) for v in (x, y))
        inside = (column >= 0) & (column < self.texels) & (row >= 0) & (row < self.texels)
        return ~inside | (self.height[row * inside, column * inside] <= z + slack)
