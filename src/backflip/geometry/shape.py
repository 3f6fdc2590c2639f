"""The base of all shapes: what a shape must say of itself, and what follows from that.

A description is plain numbers, all in metres. What the model keeps of it as a differentiable leaf is called
its form: up to three numbers, its size (3,), or the corners of a Polytope. All else is a function of that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from itertools import product
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry.axes import face_normals
from backflip.geometry.hits import hit_walls
from backflip.geometry.outline import Outline

Size = tuple[float, float, float]
Block = tuple[np.ndarray, np.ndarray]
Hit = tuple[np.ndarray, np.ndarray]

LONGEST, SHORTEST = 1e6, 1e-5
"""[m] lengths of shapes, whose fifth power is in an inertia"""
FINE, COARSE = 24, 14
"""Rows of the triangles that a smooth shape is drawn with, and of the planes that painted pictures see."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Polytope:
    """The form of a shape with corners: where they are, and which of them belong together."""

    points: Array
    """(v, 3) [m]"""
    outline: Outline = field(metadata={"static": True})


Form = Any
"""Array (3,) or Polytope"""


class Bulk(NamedTuple):
    """What a solid weighs and where, in its own frame."""

    volume: Array
    """[m³]"""
    centre: Array
    """(3,) [m] of mass"""
    inertia: Array
    """(3, 3) [m²] per mass, about the centre of mass"""


class Features(NamedTuple):
    """Where a convex shape is not smooth and strictly convex, in its own frame: faces, lines and points.

    Lines and points may be rounded: what is farthest out is `radius` from them.
    """

    normals: Array
    """(f, 3) unit, outward, of flat faces"""
    lines: Array
    """(l, 2, 3) [m] ends of straight edges, or of the axis of a round side"""
    points: Array
    """(v, 3) [m] corners"""
    radius: Array
    """[m]"""
    complete: bool
    """whether the shape is all faces, lines and points: nothing else can touch"""


def no_features(dtype: np.dtype) -> Features:
    """Of a shape that is smooth and strictly convex all over."""
    none = jnp.zeros((0, 3), dtype)
    return Features(none, jnp.zeros((0, 2, 3), dtype), none, jnp.zeros((), dtype), False)


class Shape:
    """A convex solid about its own origin, which lies inside it.

    A new shape is a frozen dataclass with this base, and says `pack`, `bulk` and `support`; `measures` where
    it has fewer than three numbers, `check` where they are not all positive lengths, `features` where it has
    faces or straight lines, `hit` and `block` where a picture can be had faster.

    It then collides with every other shape, by the general convex pair. This gives one contact, which is
    enough for round shapes. A flat face would rock on it: solids with flat faces are Hulls, which have up to
    four, or have pairs of their own in PAIRS.
    """

    measures: ClassVar[int] = 3
    """how many of the three numbers of pack() are its size; the others are 0"""

    endless: ClassVar[bool] = False
    """whether it is a half-space: without volume, on the world only"""
    drawn_as: ClassVar[str] = "surface"
    """what the replay page draws: a solid it knows by name, of size `form`, or the triangles of `surface`"""
    two_tone: ClassVar[bool] = False
    """whether pictures paint its octants in two tones, so that it is seen to turn"""
    outline: Outline | None = None
    """faces and edges of a shape whose form is a Polytope"""

    def pack(self) -> Size:
        """Three numbers that are differentiable: its size, and 0 for those beyond `measures`."""
        raise ValueError(f'shape "{self.kind()}" does not say its numbers; give it a pack()')

    @property
    def vertices(self) -> np.ndarray:
        """(v, 3) [m] corners, where they are its form."""
        return np.zeros((0, 3))

    def check(self) -> None:
        """Raise ValueError for a number that makes no sense: what it is; what to give instead."""
        if not is_dataclass(self):
            raise ValueError(f"{self.kind()} is no dataclass; make its class one, or give it a check()")
        for own in fields(self):
            check_length(own.name, getattr(self, own.name))

    @classmethod
    def kind(cls) -> str:
        """Its name in tables and messages."""
        return cls.__name__.lower()

    @classmethod
    def bulk(cls, form: Form) -> Bulk:
        """Volume, centre of mass and inertia."""
        raise ValueError(f'shape "{cls.kind()}" has no volume or inertia')

    @classmethod
    def support(cls, form: Form, n: Array) -> Array:
        """The point (3,) [m] farthest along the unit vector n (3,), in its own frame; smooth in both."""
        raise ValueError(f'shape "{cls.kind()}" does not say how far it reaches; give it a support()')

    @classmethod
    def features(cls, form: Form) -> Features:
        """Its flat faces, straight lines and corners; none where it is smooth and strictly convex."""
        return no_features(form.dtype)

    @classmethod
    def block(cls, form: Form) -> Block:
        """Low and high corners (3,) [m] of a box around it, in its own frame."""
        points = cls.supports(form, np.concatenate([-np.eye(3), np.eye(3)]))
        return np.diagonal(points[:3]).copy(), np.diagonal(points[3:]).copy()

    @classmethod
    def core(cls, form: Form) -> tuple[np.ndarray, np.ndarray, float]:
        """Low and high corners (3,) [m] of a box, and by how much [m] it is rounded, that hold the shape."""
        return (*cls.block(form), 0.0)

    @classmethod
    def frame(cls, form: Form) -> tuple[np.ndarray, float]:
        """Points (k, 3) [m], and a radius [m] about them, whose hull the shape is, or nearly."""
        return cls.surface(form)[0], 0.0

    @classmethod
    def reach(cls, form: Form) -> float:
        """[m] from its origin to its farthest point; 0 for what is endless."""
        corners, _ = cls.surface(form)
        return float(np.linalg.norm(corners, axis=1).max())

    @classmethod
    def smallest(cls, form: Form) -> float:
        """Its smallest length [m]; inf if it has none."""
        lengths = np.asarray(form)
        return float(np.min(lengths[lengths > 0], initial=np.inf))

    @classmethod
    def surface(cls, form: Form) -> tuple[np.ndarray, np.ndarray]:
        """Corners (v, 3) [m] and triangles (t, 3) of what is drawn, counter-clockwise from outside."""
        directions, triangles = _globe(FINE)
        return cls.supports(form, directions), triangles

    @classmethod
    def hit(cls, form: Form, o: np.ndarray, d: np.ndarray) -> Hit:
        """Where rays o + t d, |d| = 1, (3, ...) each, meet it: t [m], inf for a miss, and the normal."""
        return hit_walls(_tangent_planes(cls, tuple(map(float, form))), o, d)  # type: ignore[arg-type]

    @classmethod
    def supports(cls, form: Form, directions: np.ndarray) -> np.ndarray:
        """Its farthest points (k, 3) [m] along directions (k, 3), as numpy."""
        each = jax.vmap(lambda n: cls.support(form, n))
        return np.asarray(each(jnp.asarray(directions, jnp.result_type(float))), float)


@lru_cache(256)
def _tangent_planes(kind: Any, size: tuple[float, ...]) -> np.ndarray:
    """(f, 4) normals and offsets [m] of planes that touch a smooth shape all around."""
    directions = np.unique(np.round(_globe(COARSE)[0], 12), axis=0)
    points = kind.supports(np.array(size), directions)
    return np.concatenate([directions, (directions * points).sum(axis=1, keepdims=True)], axis=1)


def walls_of(corners: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """(f, 4) unit normal and offset [m] of every triangle that has an area."""
    a, b, c = corners[triangles].swapaxes(0, 1)
    n = np.cross(b - a, c - a)
    long = np.linalg.norm(n, axis=1)
    a, n = a[long > 0], n[long > 0] / long[long > 0, None]
    return np.concatenate([n, (n * a).sum(axis=1, keepdims=True)], axis=1)


@cache
def _globe(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Directions (k, 3) on circles of latitude, and the triangles between them."""
    around = 2 * rows
    up, turn = np.pi * np.arange(rows + 1) / rows, 2 * np.pi * np.arange(around) / around
    u, t = np.meshgrid(up, turn, indexing="ij")
    points = np.stack([np.sin(u) * np.cos(t), np.sin(u) * np.sin(t), np.cos(u)], -1).reshape(-1, 3)
    i, k = np.meshgrid(np.arange(rows), np.arange(around), indexing="ij")
    a, b = i * around + k, i * around + (k + 1) % around
    c, d = a + around, b + around
    quads = np.stack([np.stack([a, c, b], -1)[1:], np.stack([b, c, d], -1)[:-1]])
    return points, quads.reshape(-1, 3)


def core_corners(low: np.ndarray, high: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The corners (8, 3) of a core, and how it is rounded."""
    return np.array(list(product(*zip(low, high, strict=True)))), radius


def as_numbers(value: object) -> np.ndarray:
    """Floats; nan, which no check lets pass, for what is not a real number: strings, booleans, dates."""
    try:
        plain = np.asarray(value)
        real = plain.dtype.kind in "iuf" or (
            plain.dtype.kind == "O"
            and all(isinstance(x, Real) and not isinstance(x, bool) for x in plain.flat)
        )
        return plain.astype(float) if real else np.asarray(np.nan)
    except (TypeError, ValueError, OverflowError):
        return np.asarray(np.nan)


def check_length(what: str, value: object) -> None:
    """Refuse what is not one positive length that float32 can work with."""
    v, remedy = as_numbers(value), "give a positive length in metres"
    if v.shape != () or not 0 < v < np.inf:
        raise ValueError(f"{what} is {value!r}; {remedy}")
    if not SHORTEST <= v <= LONGEST:
        raise ValueError(f"{what} is {value!r}; {remedy}, from {SHORTEST:g} to {LONGEST:g}")


def check_lengths(what: str, values: object) -> None:
    """Refuse what is not three positive lengths."""
    if as_numbers(values).shape != (3,) or not isinstance(values, Iterable):
        raise ValueError(f"{what} is {values!r}; give 3 finite numbers")
    for value in values:
        check_length(what, value)


def polytope_features(points: Array, outline: Outline) -> Features:
    """The features of a polytope."""
    normals = face_normals(points, outline)
    return Features(normals, points[outline.ends], points, jnp.zeros((), points.dtype), True)


def form_of(shape: Shape, dtype: np.dtype | str | None = None) -> Form:
    """The form of a described shape, as the model keeps it."""
    dtype = jnp.result_type(float) if dtype is None else dtype
    if shape.outline is None:
        return jnp.asarray(shape.pack(), dtype)
    return Polytope(jnp.asarray(shape.vertices, dtype), shape.outline)
