"""Bodies so slender that floats cannot hold their inertia."""

from collections.abc import Callable
from functools import cache

import jax
import numpy as np

from backflip.geometry import KINDS, Bulk, Form, Polytope, Shape
from backflip.geometry.shape import core_corners
from backflip.model.model import Model
from backflip.model.values import fail

SMALLEST_RATIO = 4
"""Smallest to largest principal inertia, in roundings (2⁻²³ in float32): 4.8e-7, a rod 3,500 radii long.

Turned in its body or in the world, an inertia is one matrix, whose elements are rounded in parts of the
largest: of a smaller ratio nothing is left, whatever it is inverted by. At this one it is right to a fourth.
"""
STOUT = 0.02
"""Width to length of shapes that are far from slender: their inertias need not be added up."""


def check_slender(model: Model) -> None:
    """Raise ValueError for a body with a principal inertia that is lost beside its largest."""
    dtype = np.dtype(model.gravity.dtype)
    bound = SMALLEST_RATIO * float(np.finfo(dtype).eps)
    leaves = jax.tree.map(np.asarray, model)  # JAX would compile every slice
    for b, name in enumerate(model.topology.bodies):
        inertia = _inertia(leaves, b)
        if not np.isfinite(inertia).all():
            fail(f'body "{name}"', "its inertia is not finite", "see to it that bulk() of its shapes is")
        principal = np.linalg.eigvalsh(inertia)
        ratio = principal[0] / principal[2]
        if ratio < bound:
            double = ", or enable jax_enable_x64" if dtype == np.float32 else ""
            fail(
                f'body "{name}"',
                f"its smallest principal inertia is {ratio:.2g} of its largest; {dtype} carries {bound:.2g}",
                f"make it thicker or shorter, cut it into several bodies{double}",
            )


def _inertia(model: Model, b: int) -> np.ndarray:
    """(3, 3) of body b about its centre of mass, in B, up to a factor; `model` has leaves of numpy."""
    facts = model.topology
    if facts.inertia_given[b]:
        return np.asarray(model.inertia[b], float)
    parts = [i for i, s in enumerate(facts.shapes) if s.body == b and not s.kind.endless]
    if _stout(model, parts):
        return np.eye(3)
    bulks = [_bulk(facts.shapes[i].kind, model.form(i)) for i in parts]
    weights = np.ones(len(parts)) if facts.mass_given[b] else np.asarray(model.density[parts], float)
    masses = weights * [one.volume for one in bulks]
    masses = masses / masses.sum()
    turns = np.asarray(model.R_BS[parts], float)
    centres = model.p_BS[parts] + np.array([R @ one.centre for R, one in zip(turns, bulks, strict=True)])
    arms = centres - masses @ centres
    whole = np.zeros((3, 3))
    for m, R, one, d in zip(masses, turns, bulks, arms, strict=True):
        # Steiner: R J Rᵀ + |d|² I − d dᵀ
        whole += m * (R @ one.inertia @ R.T + d @ d * np.eye(3) - np.outer(d, d))
    return whole


def _stout(model: Model, parts: list[int]) -> bool:
    """Whether all shapes are known ones, and none is thin beside the whole body."""
    widths, reaches = [], []
    for i in parts:
        kind, form = model.topology.shapes[i].kind, model.form(i)
        if kind not in KINDS:
            return False
        points, radius = (form.points, 0.0) if isinstance(form, Polytope) else core_corners(*kind.core(form))
        # a solid is as hard to turn about its long axis as it is wide along the second
        spread = np.linalg.eigvalsh(np.cov(np.asarray(points, float).T, bias=True))[1]
        widths.append(np.sqrt(max(spread, 0.0)) + radius)
        reaches.append(np.linalg.norm(model.p_BS[i]) + np.linalg.norm(points, axis=1).max() + radius)
    return min(widths) >= STOUT * max(reaches)


def _bulk(kind: type[Shape], form: Form) -> Bulk:
    """The Bulk of a form, of numpy."""
    return jax.tree.map(lambda x: np.asarray(x, float), _compiled(kind.bulk)(form))


@cache
def _compiled(bulk: Callable[[Form], Bulk]) -> Callable[[Form], Bulk]:
    """Once for every kind of shape."""
    return jax.jit(bulk)
