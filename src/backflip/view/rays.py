"""A part of a scene in its place, and rays that meet it; vectors have their components first, (3, ...)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from backflip.view.camera import corner_signs
from backflip.view.scene import Part


@dataclass(frozen=True)
class Solid:
    """A part of a scene at one moment."""

    part: Part
    p: np.ndarray
    R: np.ndarray
    """(3,) [m] and (3, 3) its frame S in the world's axes"""
    colour: np.ndarray
    """(3,) red, green, blue from 0 to 255"""

    @cached_property
    def corners(self) -> np.ndarray:
        """(8, 3) [m] of a box around it."""
        low, high = self.part.block
        return self.p + ((low + high) / 2 + corner_signs() * (high - low) / 2) @ self.R.T

    def hit(self, o: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where rays o + t d, |d| = 1, in S, meet it: t, inf for a miss, and the normal."""
        return self.part.kind.hit(self.part.form, o, d)


def turned(R: np.ndarray, v: np.ndarray) -> np.ndarray:
    """R v for v (3, ...), in single precision."""
    # not @: for so small a matrix the threads of BLAS cost more than they bring
    return np.einsum("ij,j...->i...", R.astype(np.float32), v)
