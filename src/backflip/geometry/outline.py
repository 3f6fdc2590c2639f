"""The outline of a polytope: which corners its faces have and which faces meet at its edges.

Static and hashable: where the corners are is a differentiable array; which of them belong together is not.
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np

MAX_VERTICES = 32
"""Corners of a hull, at most: every pair of edges of two hulls is looked at."""
FLAT = 1e-6
"""Parts of its extent by which a corner may stick out of a face and still lie in it."""
OUTSIDE = 10
"""How many times as far a point may stick out of the plane that is taken for a face."""
THIN = 1e-6
"""Parts of its extent cubed below which a hull has no volume."""
IN_ONE_PLANE = "the points lie in one plane"


@dataclass(frozen=True)
class Outline:
    """Faces and edges of a polytope with `count` corners, by the corners' numbers."""

    count: int
    faces: tuple[tuple[int, ...], ...] = ()
    """corners, counter-clockwise as seen from outside"""
    edges: tuple[tuple[int, int], ...] = ()
    sides: tuple[tuple[int, int], ...] = ()
    """the two faces of every edge; none for a lone edge"""
    widest: tuple[tuple[int, int, int], ...] = ()
    """three corners of every face, in turn and as far apart as can be: what its normal is taken from"""

    @cached_property
    def triples(self) -> np.ndarray:
        """(f, 3) those of `widest`."""
        return np.array(self.widest, int).reshape(-1, 3)

    @cached_property
    def polygons(self) -> np.ndarray:
        """(f, m) corners of every face; smaller faces repeat their last."""
        most = max(len(face) for face in self.faces)
        return np.array([face + (face[-1],) * (most - len(face)) for face in self.faces], int)

    @cached_property
    def ends(self) -> np.ndarray:
        """(e, 2) corners of every edge."""
        return np.array(self.edges, int).reshape(-1, 2)

    @cached_property
    def triangles(self) -> np.ndarray:
        """(t, 3) the surface cut into triangles."""
        fans = [(face[0], a, b) for face in self.faces for a, b in pairwise(face[1:])]
        return np.array(fans, int).reshape(-1, 3)


POINT = Outline(1)
SEGMENT = Outline(2, edges=((0, 1),))


def outline_of(points: np.ndarray) -> tuple[np.ndarray, Outline]:
    """The corners (v, 3) of the convex hull of points (n, 3), and its outline; triangles in one plane merge.

    Raises ValueError if the points lie in a plane, or so nearly that no closed surface comes of them.
    """
    slack = FLAT * np.ptp(points, axis=0).max()
    outer = points[np.sort(_convex_hull(points).vertices)]
    # points by the same corner make slivers, so they are welded; of a thin hull sides may merge that face
    # opposite ways, so its triangles stay apart
    for welded, flat in ((outer, slack), (_welded(outer, slack), slack), (outer, 0.0)):
        faces = _without_middles(_merged(welded, _convex_hull(welded), flat))
        if _closes(faces):
            corners, outline = _numbered(welded, faces)
            if _sticks_out(points, corners, outline) < OUTSIDE * slack:
                return corners, outline
    raise ValueError(IN_ONE_PLANE)


def rough_corners(points: np.ndarray) -> int:
    """How many corners the hull of points (n, 3) has before any are merged; 0 if they lie in a plane."""
    try:
        return len(_convex_hull(points).vertices)
    except ValueError:
        return 0


def _sticks_out(points: np.ndarray, corners: np.ndarray, outline: Outline) -> float:
    """How far [m] points are outside of the planes of the faces, at most; inf if a face has none."""
    a, b, c = (corners[k] for k in outline.triples.T)
    n = np.cross(b - a, c - a)
    length = np.linalg.norm(n, axis=1, keepdims=True)
    if not length.all():
        return np.inf
    n /= length
    return float(np.max(points @ n.T - np.sum(n * a, 1)))


def _convex_hull(points: np.ndarray) -> Any:
    """scipy's hull of points (n, 3)."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except QhullError as error:
        raise ValueError(IN_ONE_PLANE) from error
    if hull.volume < THIN * np.ptp(points, axis=0).max() ** 3:
        raise ValueError(IN_ONE_PLANE)
    return hull


def _welded(points: np.ndarray, slack: float) -> np.ndarray:
    """The points without those within `slack` [m] of an earlier one."""
    apart: list[np.ndarray] = []
    for p in points:
        if all(np.abs(p - q).max() > slack for q in apart):
            apart.append(p)
    return np.array(apart)


def _closes(faces: list[tuple[int, ...]]) -> bool:
    """Whether faces close like a ball's surface: every edge is run once each way, and V − E + F = 2."""
    runs = [run for face in faces for run in _around(face)]
    corners = {v for face in faces for v in face}
    paired = len(set(runs)) == len(runs) and {(b, a) for a, b in runs} == set(runs)
    whole = all(len(set(face)) == len(face) >= 3 for face in faces)
    return whole and paired and len(corners) - len(runs) // 2 + len(faces) == 2


def _numbered(points: np.ndarray, faces: list[tuple[int, ...]]) -> tuple[np.ndarray, Outline]:
    """The points that are corners, and the outline of the faces, in which they are counted from 0."""
    corners = sorted({v for face in faces for v in face})
    number = {v: i for i, v in enumerate(corners)}
    named = tuple(tuple(number[v] for v in face) for face in faces)
    return points[corners], _with_edges(
        len(corners), named, tuple(_widest(points[corners], face) for face in named)
    )


def _without_middles(faces: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The faces without corners that only two of them have: those lie in the middle of an edge."""
    met = Counter(v for face in faces for v in face)
    return [tuple(v for v in face if met[v] > 2) for face in faces]


def _widest(points: np.ndarray, face: tuple[int, ...]) -> tuple[int, int, int]:
    """The three corners that span the largest triangle, in turn."""

    def area(triple: tuple[int, ...]) -> float:
        a, b, c = points[list(triple)]
        return float(np.linalg.norm(np.cross(b - a, c - a)))

    i, j, k = max(combinations(face, 3), key=area)
    return i, j, k


def _with_edges(
    count: int, faces: tuple[tuple[int, ...], ...], widest: tuple[tuple[int, int, int], ...]
) -> Outline:
    """The outline of faces that close a surface: every edge is run once in either direction."""
    left = {(a, b): f for f, face in enumerate(faces) for a, b in _around(face)}
    edges = tuple(sorted((a, b) for a, b in left if a < b))
    return Outline(count, faces, edges, tuple((left[a, b], left[b, a]) for a, b in edges), widest)


def _around(face: tuple[int, ...]) -> list[tuple[int, int]]:
    return list(pairwise((*face, *face[:1])))


def _merged(points: np.ndarray, hull, slack: float) -> list[tuple[int, ...]]:
    """Faces of a scipy hull, counter-clockwise, with neighbours within `slack` [m] of one plane made one."""
    group = list(range(len(hull.simplices)))

    def root(i: int) -> int:
        return i if group[i] == i else root(group[i])

    for i, neighbours in enumerate(hull.neighbors):
        for k in neighbours:
            off = points[hull.simplices[k]] @ hull.equations[i, :3] + hull.equations[i, 3]
            if np.abs(off).max() < slack:
                group[root(k)] = root(i)
    roots = sorted({root(i) for i in group})
    turned = [_turned(points, s, e) for s, e in zip(hull.simplices, hull.equations, strict=True)]
    return [_loop([turned[i] for i in range(len(turned)) if root(i) == r]) for r in roots]


def _turned(points: np.ndarray, simplex: np.ndarray, equation: np.ndarray) -> tuple[int, ...]:
    """The corners of a triangle, counter-clockwise about its outward normal."""
    a, b, c = points[simplex]
    i, j, k = (int(v) for v in simplex)
    return (i, j, k) if np.cross(b - a, c - a) @ equation[:3] > 0 else (i, k, j)


def _loop(triangles: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The rim of triangles that share edges; () if they have none, or more than one."""
    runs = {run for t in triangles for run in _around(t)}
    rim = [(a, b) for a, b in runs if (b, a) not in runs]
    after = dict(rim)
    face = [min(after)] if after else []
    while len(face) < len(rim) and after[face[-1]] in after and after[face[-1]] != face[0]:
        face.append(after[face[-1]])
    return tuple(face) if len(face) == len(rim) else ()


BOX_SIGNS = tuple((x, y, z) for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0))
_BOX_FACES = ((0, 2, 6, 4), (0, 4, 5, 1), (4, 6, 7, 5), (0, 1, 3, 2), (2, 3, 7, 6), (1, 5, 7, 3))
BOX = _with_edges(8, _BOX_FACES, tuple((a, b, c) for a, b, c, _ in _BOX_FACES))
"""Its corners are in the order of BOX_SIGNS."""
