"""Bones: what holds a robot together where its contact shapes do not show it."""

from typing import TYPE_CHECKING

import numpy as np

from backflip.geometry import Box, Capsule
from backflip.view.colour import STEEL
from backflip.view.scene import Part

if TYPE_CHECKING:
    from backflip.model import Model

THIN = 0.01
"""Radius of a rod, in lengths of itself or of its body's first part, whichever is longer."""


def bones_of(model: "Model", shapes: tuple[Part, ...]) -> tuple[Part, ...]:
    """A box for every body with an inertia but no shape about its centre, and rods to all that is loose."""
    from backflip.model import bodies_of

    facts, bodies = model.topology, bodies_of(model)
    mass, inertia, p_CJ_A, p_CJ_B = (
        np.asarray(x, float) for x in (bodies.mass, bodies.inertia, bodies.p_CJ_A, bodies.p_CJ_B)
    )
    bones: list[Part] = []
    for b in range(len(facts.bodies)):
        own = [part for part in shapes if part.body == b and not part.kind.endless]
        hollow = all(_nearest(part, np.zeros(3))[1] > 0 for part in own)
        if facts.inertia_given[b] and hollow:
            bones.append(_box_of_inertia(b, mass[b], inertia[b]))
            own.insert(0, bones[-1])
        anchors = [p_CJ_A[j] for j, fact in enumerate(facts.joints) if fact.a == b]
        anchors += [p_CJ_B[j] for j, fact in enumerate(facts.joints) if fact.b == b]
        bones += _rods(own, anchors)
    return tuple(bones)


def _box_of_inertia(body: int, mass: float, inertia: np.ndarray) -> Part:
    """The solid box that weighs and turns as the body does.

    Edges a, b, c along the principal axes: I_x = m (b² + c²) / 12 and so on, hence
    a² = 6 (I_y + I_z − I_x) / m.
    """
    principal, R = np.linalg.eigh(inertia)
    squares = 6 * (principal.sum() - 2 * principal) / mass
    edges = np.sqrt(np.maximum(squares, 1e-4 * squares.max()))
    if np.linalg.det(R) < 0:
        R[:, 0] *= -1
    return Part(Box, edges, body, R_BS=R, colour=STEEL)


def _rods(parts: list[Part], anchors: list[np.ndarray]) -> list[Part]:
    """Rods to every part from those before it, and to the joints from all, where there is a gap."""
    thin = THIN * parts[0].reach
    loose = [(parts[:i], np.asarray(part.p_CS)) for i, part in enumerate(parts) if i > 0]
    loose += [(parts, p) for p in anchors]
    rods = []
    for others, p in loose:
        start, gap = min((_nearest(part, p) for part in others), key=lambda near: near[1])
        if gap > thin:
            rods.append(_rod(parts[0].body, start, p, thin))
    return rods


def _nearest(part: Part, p: np.ndarray) -> tuple[np.ndarray, float]:
    """The point of a part's core nearest to p (3,) [m], from C, in B, and how far p is outside it [m]."""
    R = np.asarray(part.R_BS)
    low, high, rounding = part.kind.core(part.form)
    p_S = R.T @ (p - part.p_CS)
    core = np.clip(p_S, low, high)
    return part.p_CS + R @ core, float(np.linalg.norm(p_S - core)) - rounding


def _rod(body: int, start: np.ndarray, end: np.ndarray, thin: float) -> Part:
    along = end - start
    length = float(np.linalg.norm(along))
    z = along / length
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    R = np.stack([x, np.cross(z, x), z], axis=-1)
    middle = tuple((start + end) / 2)
    return Part(Capsule, np.array([max(thin, THIN * length), length, 0.0]), body, middle, R, STEEL)
