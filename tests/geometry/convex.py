"""Support functions, an outside oracle, and scenes of cylinders and hulls for the tests of this folder."""

from functools import cache

import coal
import jax
import numpy as np
from scenes import Scene, compile_fast, degenerate_scene, random_scene
from scipy.spatial.transform import Rotation

from backflip.geometry import PAIRS, Hull, Outline, Touch

NEW = [kinds for kinds in PAIRS if {"cylinder", "hull"} & set(kinds)]
N = 240
"""random pairs of a kind"""
STEP = 1e-6
"""of central differences"""
TURN, SHIFT = Rotation.from_rotvec([0.3, -1.1, 0.7]).as_matrix(), np.array([0.4, -0.2, 0.9])


def _stones() -> tuple[Hull, Hull]:
    """Two stones with different outlines, all faces triangles."""
    rng = np.random.default_rng(3)
    points = [rng.normal(size=(k, 3)) for k in (7, 9)]
    return tuple(Hull(0.5 * p / np.linalg.norm(p, axis=1, keepdims=True)) for p in points)  # type: ignore


STONES = _stones()


def outlines(kinds: tuple[str, str]) -> list[Outline | None]:
    return [STONES[k].outline if kind == "hull" else None for k, kind in enumerate(kinds)]


def scene_of(kinds: tuple[str, str], n: int, seed: int) -> Scene:
    """n random pairs; the corners of a hull are those of its stone, stretched, sheared and moved."""
    rng, scene = np.random.default_rng(seed), random_scene(kinds, n, seed, distance=0.5)
    for k, kind in enumerate(kinds):
        if kind == "hull":
            maps = np.eye(3) * rng.uniform(0.6, 1.4, (n, 1, 3)) + 0.2 * rng.normal(size=(n, 3, 3))
            corners = np.einsum("vj,nij->nvi", STONES[k].vertices, maps)
            scene[3 * k] = corners + 0.1 * rng.normal(size=(n, 1, 3))
    return scene


def still_scenes(kinds: tuple[str, str], n: int) -> list[Scene]:
    """Poses where things coincide, touch or run parallel, n at a time."""
    scene = degenerate_scene(kinds)
    for k, kind in enumerate(kinds):
        if kind == "hull":
            scene[3 * k] = STONES[k].vertices * scene[3 * k][:, None]
    starts = range(0, len(scene[0]), n)
    return [[x[np.arange(i, i + n) % len(x)] for x in scene] for i in starts]


def moved(scene: Scene) -> Scene:
    """The whole scene turned and shifted."""
    poses = [scene[1] @ TURN.T + SHIFT, TURN @ scene[2], scene[4] @ TURN.T + SHIFT, TURN @ scene[5]]
    return [scene[0], *poses[:2], scene[3], *poses[2:]]


def rates_of(scene: Scene) -> Scene:
    """Random rates of change: of sizes and corners, centres, and turning rates of the rotations."""
    rng = np.random.default_rng(6)
    return [rng.normal(size=np.shape(x) if k in (0, 3) else (len(x), 3)) for k, x in enumerate(scene)]


def shifted(scene: Scene, rates: Scene, h: float) -> Scene:
    """The scene after a time h; sizes grow by parts of themselves, corners move."""
    after = [x + h * r for x, r in zip(scene, tangent(scene, rates), strict=True)]
    for k in (2, 5):
        after[k] = Rotation.from_rotvec(h * rates[k]).as_matrix() @ scene[k]
    return after


def tangent(scene: Scene, rates: Scene) -> Scene:
    """The same as a tangent of the six arrays."""
    found = list(rates)
    for k in (0, 3):
        found[k] = rates[k] * (scene[k] if scene[k].ndim == 2 else 0.3)
    for k in (2, 5):
        found[k] = np.cross(rates[k][:, None], scene[k].swapaxes(1, 2)).swapaxes(1, 2)
    return found


@cache
def slope_program(kinds: tuple[str, str]):
    """Touch and its slope over a batch: the one program that all tests of a pair share."""
    one = PAIRS[kinds].between(*outlines(kinds))
    return compile_fast(lambda x, dx: jax.jvp(jax.vmap(one), x, dx))


def collide_all(kinds: tuple[str, str], scene: Scene, rates: Scene | None = None) -> tuple[Touch, Touch]:
    """Touch and slope as numpy."""
    rates = rates_of(scene) if rates is None else rates
    both = slope_program(kinds)(tuple(scene), tuple(tangent(scene, rates)))
    return tuple(Touch(*(np.asarray(x) for x in part)) for part in both)  # type: ignore


def reach(kind: str, form: np.ndarray, R: np.ndarray, n: np.ndarray) -> float:
    """How far a shape reaches from its origin along n [m]."""
    x, y, z = R.T @ n
    if kind == "hull":
        return float((form @ (R.T @ n)).max())
    a, b, c = form
    far = {
        "sphere": a,
        "capsule": a + abs(z) * b / 2,
        "box": (abs(x) * a + abs(y) * b + abs(z) * c) / 2,
        "cylinder": a * np.hypot(x, y) + abs(z) * b / 2,
    }
    return float(far[kind])


def held_apart(kinds: tuple[str, str], row: tuple, n: np.ndarray) -> float:
    """How far planes square to n hold a pair apart [m]: never more than their signed distance."""
    form_a, p_WA, R_WA, form_b, p_WB, R_WB = row
    return n @ (p_WB - p_WA) - reach(kinds[0], form_a, R_WA, n) - reach(kinds[1], form_b, R_WB, -n)


def coal_shape(kind: str, form: np.ndarray):
    if kind == "hull":
        points = coal.StdVec_Vec3s()
        for p in form:
            points.append(p)
        return coal.Convex.convexHull(points, True, "Qt")
    a, b, c = (float(x) for x in form)
    make = {
        "sphere": lambda: coal.Sphere(a),
        "capsule": lambda: coal.Capsule(a, b),
        "box": lambda: coal.Box(a, b, c),
        "cylinder": lambda: coal.Cylinder(a, b),
    }
    return make[kind]()


def coal_normal(kinds: tuple[str, str], row: tuple) -> np.ndarray:
    """The direction from A to B in which coal finds a pair apart, or least deep; NaN where it gives up."""
    form_a, p_WA, R_WA, form_b, p_WB, R_WB = row
    asked, found = coal.DistanceRequest(True, True), coal.DistanceResult()
    asked.gjk_tolerance = asked.epa_tolerance = 1e-7
    asked.gjk_max_iterations = asked.epa_max_iterations = 500
    a, b = coal_shape(kinds[0], form_a), coal_shape(kinds[1], form_b)
    coal.distance(a, coal.Transform3s(R_WA, p_WA), b, coal.Transform3s(R_WB, p_WB), asked, found)
    return np.array(found.normal)
