"""Hulls: shapes whose form is their corners."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from jax import Array

from backflip.geometry.bulk import hull_bulk
from backflip.geometry.choose import pick
from backflip.geometry.hits import hit_walls
from backflip.geometry.outline import MAX_VERTICES, Outline, outline_of, rough_corners
from backflip.geometry.shape import (
    LONGEST,
    SHORTEST,
    Block,
    Bulk,
    Features,
    Form,
    Hit,
    Shape,
    Size,
    as_numbers,
    polytope_features,
    walls_of,
)
from backflip.math import dot

MANY = 16 * MAX_VERTICES
"""Corners that no merging of faces brings down to MAX_VERTICES; so many are not looked at one by one."""
FAR_OFF = 1e-3
"""Least extent of a hull as a part of the distance from its origin: float32 would lose its shape beyond."""


@dataclass(frozen=True, eq=False)
class Hull(Shape):
    """The convex hull of points (n, 3) [m], which say where it is; points inside it are left out."""

    points: Sequence[Sequence[float]] | np.ndarray
    measures: ClassVar[int] = 0

    def pack(self) -> Size:
        """(0, 0, 0): a hull has corners instead of a size."""
        return (0.0, 0.0, 0.0)

    @cached_property
    def vertices(self) -> np.ndarray:
        """(v, 3) [m] its corners."""
        return self._corners_and_outline[0]

    @cached_property
    def outline(self) -> Outline:  # type: ignore[override]
        """Its faces and edges."""
        return self._corners_and_outline[1]

    @cached_property
    def _corners_and_outline(self) -> tuple[np.ndarray, Outline]:
        return outline_of(np.asarray(self.points, float))

    def check(self) -> None:
        """Points that span a volume, and not too many corners."""
        points = as_numbers(self.points)
        if points.ndim != 2 or points.shape[1:] != (3,):
            raise ValueError(f"points of shape {points.shape}; give (n, 3) numbers in metres")
        wrong = ~(np.abs(points) <= LONGEST).all(-1)
        if wrong.any():
            row, remedy = int(np.argmax(wrong)), f"give finite numbers, none beyond {LONGEST:g} m"
            raise ValueError(f"point {row} is {points[row]}; {remedy}")
        if len(points) < 4:
            raise ValueError(f"{len(points)} points span no volume; give at least 4, not in one plane")
        extents = np.ptp(points, axis=0)
        if extents.max() < FAR_OFF * np.abs(points).max():
            raise ValueError("its points are far from its origin for their size; give it a position instead")
        count = rough_corners(points)
        try:
            count = count if count > MANY else len(self.vertices)
        except ValueError:
            raise ValueError("its points lie in one plane; give a solid, or a thin Box") from None
        if extents.min() < SHORTEST:
            axis = int(np.argmin(extents))
            remedy = f"give a solid of at least {SHORTEST:g} m, or a thin Box"
            raise ValueError(f"its points span {extents[axis]:.3g} m along {'xyz'[axis]}; {remedy}")
        if count > MAX_VERTICES:
            remedy = f"give at most {MAX_VERTICES}; leave out those that add little"
            raise ValueError(f"it has {count} corners; {remedy}")

    @classmethod
    def bulk(cls, form: Form) -> Bulk:
        """The sum over its tetrahedra."""
        return Bulk(*hull_bulk(form.outline, form.points))

    @classmethod
    def support(cls, form: Form, n: Array) -> Array:
        """The farthest corner."""
        return pick(dot(form.points, n), form.points)[1]

    @classmethod
    def features(cls, form: Form) -> Features:
        """Its faces, edges and corners."""
        return polytope_features(form.points, form.outline)

    @classmethod
    def smallest(cls, form: Form) -> float:
        """The smallest extent [m] along its axes."""
        low, high = cls.block(form)
        return float(np.min(high - low))

    @classmethod
    def block(cls, form: Form) -> Block:
        """Around its corners."""
        points = np.asarray(form.points)
        return points.min(axis=0), points.max(axis=0)

    @classmethod
    def hit(cls, form: Form, o: np.ndarray, d: np.ndarray) -> Hit:
        """Between the planes of its faces."""
        return hit_walls(walls_of(*cls.surface(form)), o, d)

    @classmethod
    def surface(cls, form: Form) -> tuple[np.ndarray, np.ndarray]:
        """Its corners, and its faces cut into triangles."""
        return np.asarray(form.points, float), form.outline.triangles
