"""Every pair of shapes against an outside collision library, coal: ten thousand scenes, a row for each pair.

For any unit n the planes square to it hold two convex shapes apart by at most their signed distance, so a gap
is right if its own normal holds that much apart (`own`) and no normal that coal finds holds more (`missed`).
Errors are in parts of the shapes' size.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from backflip.experiments.base import Progress, Unable, save_result
from backflip.experiments.tables import markdown, put_table
from backflip.geometry import KINDS, PAIRS, Hull, Outline, Polytope, Touch, pair_of

NEW = [(a.kind(), b.kind()) for a, b in PAIRS if {"cylinder", "hull"} & {a.kind(), b.kind()}]
"""The pairs that are compared: those that search for their normal."""
SCENES = 10_000
"""in all"""
GAP, ANGLE = 1e-4, 1e-3
"""Errors asked of gaps, in parts of the size, and of normals [rad]."""
AS_GOOD = 1e-9
"""coal's normal is compared where it holds as much apart as ours, within this part of the size,"""
ANOTHER = 0.05
"""[rad] and is not another direction that is as good."""
QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""How programs are compiled here: they run for less time than they build."""
MARK = "shapes"
"""What marks the table's place on its page."""

Row = tuple[np.ndarray, ...]
"""form_a, p_WA, R_WA, form_b, p_WB, R_WB of one pair; with a leading axis, of many"""


@dataclass(frozen=True)
class Comparison:
    """What was found for one pair of kinds."""

    pair: str
    scenes: int
    deep: int
    """scenes that overlap"""
    own: float
    missed: float
    """largest errors of the gap, in parts of the size"""
    angle: float
    """[rad] largest between our normal and coal's"""
    compared: int
    """scenes whose normals were compared"""
    unknown: int
    """scenes that coal gave up on"""
    single: float
    """largest difference of the gap in float32, in parts of the size"""

    @property
    def ok(self) -> bool:
        """Whether everything asked is reached."""
        return max(self.own, self.missed) <= GAP and self.angle <= ANGLE and self.single <= GAP


def stone(which: int) -> Hull:
    """One of two hulls with triangular faces."""
    points = np.random.default_rng(3 + which).normal(size=(10 + 4 * which, 3))
    return Hull(0.5 * points / np.linalg.norm(points, axis=1, keepdims=True))


def outlines_of(kinds: tuple[str, str]) -> list[Outline | None]:
    """Outlines of the two shapes of a pair; None for what is no hull."""
    return [stone(k).outline if kind == "hull" else None for k, kind in enumerate(kinds)]


def collider(kinds: tuple[str, str]) -> Callable[..., Touch]:
    """The function of a pair, by the names of its kinds; of a hull it takes the corners of a stone."""
    named = {kind.kind(): kind for kind in KINDS}
    collide, outlines = pair_of(*(named[kind] for kind in kinds)).collide, outlines_of(kinds)

    def of_arrays(form_a, p_WA, R_WA, form_b, p_WB, R_WB) -> Touch:
        a, b = (
            form if outline is None else Polytope(form, outline)
            for form, outline in zip((form_a, form_b), outlines, strict=True)
        )
        return collide(a, p_WA, R_WA, b, p_WB, R_WB)

    return of_arrays


def turns(n: int, rng: np.random.Generator) -> np.ndarray:
    """n random rotations (n, 3, 3)."""
    Q, R = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    Q = Q * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None]
    return Q * np.linalg.det(Q)[:, None, None]


def forms(kind: str, which: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Random sizes (n, 3), or corners (n, v, 3) of a stone that is stretched, sheared and moved [m]."""
    if kind == "hull":
        maps = np.eye(3) * rng.uniform(0.6, 1.4, (n, 1, 3)) + 0.2 * rng.normal(size=(n, 3, 3))
        return np.einsum("vj,nij->nvi", stone(which).vertices, maps) + 0.1 * rng.normal(size=(n, 1, 3))
    numbers = {"plane": 0, "sphere": 1, "capsule": 2, "box": 3, "cylinder": 2}[kind]
    return rng.uniform(0.2, 1.0, (n, 3)) * (np.arange(3) < numbers)


def scenes(kinds: tuple[str, str], n: int, seed: int) -> Row:
    """n pairs: at random, deep in each other, nearly parallel, and both of these."""
    rng = np.random.default_rng(seed)
    form_a, form_b = (forms(kind, k, n, rng) for k, kind in enumerate(kinds))
    R_WA, R_WB = turns(n, rng), turns(n, rng)
    which = np.arange(n) % 4
    # a quarter turn about z or none, then a tilt of 1e-1 ... 1e-7 rad
    quarter = np.where(
        rng.integers(2, size=(n, 1, 1)), np.eye(3), np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    )
    tilt = rng.normal(size=(n, 3)) * 10 ** -rng.uniform(1, 7, (n, 1))
    nearly = R_WA @ quarter @ np.asarray(_small_turns(tilt))
    R_WB = np.where((which >= 2)[:, None, None], nearly, R_WB)
    far = np.where(which % 2, 0.15, 0.6)[:, None]
    p_WA = 0.3 * rng.normal(size=(n, 3))
    return form_a, p_WA, R_WA, form_b, p_WA + far * rng.normal(size=(n, 3)), R_WB


def _small_turns(turn: np.ndarray) -> np.ndarray:
    """Rotations (n, 3, 3) by small vectors: the orthogonal part of 1 + turn×."""
    x, y, z = turn.T
    o = np.zeros_like(x)
    spin = np.stack([o, -z, y, z, o, -x, -y, x, o], -1).reshape(-1, 3, 3)
    U, _, Vt = np.linalg.svd(np.eye(3) + spin)
    return U @ Vt


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
        "cylinder": a * math.hypot(x, y) + abs(z) * b / 2,
    }
    return float(far[kind])


def held_apart(kinds: tuple[str, str], row: Row, n: np.ndarray) -> float:
    """How far planes square to n hold a pair apart [m]: never more than their signed distance."""
    form_a, p_WA, R_WA, form_b, p_WB, R_WB = row
    own = 0.0 if kinds[0] == "plane" else reach(kinds[0], form_a, R_WA, n)
    return float(n @ (p_WB - p_WA)) - own - reach(kinds[1], form_b, R_WB, -n)


def coal_normal(kinds: tuple[str, str], row: Row) -> np.ndarray:
    """The direction from A to B in which coal finds a pair apart, or least deep; NaN where it gives up."""
    import coal

    form_a, p_WA, R_WA, form_b, p_WB, R_WB = row
    if kinds[0] == "plane":
        return R_WA[:, 2]
    request, result = coal.DistanceRequest(True, True), coal.DistanceResult()
    request.gjk_tolerance = request.epa_tolerance = 1e-7
    request.gjk_max_iterations = request.epa_max_iterations = 500
    a, b = _coal_shape(kinds[0], form_a), _coal_shape(kinds[1], form_b)
    coal.distance(a, coal.Transform3s(R_WA, p_WA), b, coal.Transform3s(R_WB, p_WB), request, result)
    return np.array(result.normal)


def _coal_shape(kind: str, form: np.ndarray) -> Any:
    import coal

    if kind == "hull":
        points = coal.StdVec_Vec3s()
        for p in form:
            points.append(p)
        return coal.Convex.convexHull(points, True, "Qt")
    a, b, c = (float(x) for x in form)
    make: dict[str, Callable] = {
        "sphere": lambda: coal.Sphere(a),
        "capsule": lambda: coal.Capsule(a, b),
        "box": lambda: coal.Box(a, b, c),
        "cylinder": lambda: coal.Cylinder(a, b),
    }
    return make[kind]()


def compare(kinds: tuple[str, str], n: int, seed: int) -> Comparison:
    """n scenes of one pair, ours against coal's."""
    rows = scenes(kinds, n, seed)
    program = jax.jit(jax.vmap(collider(kinds)), compiler_options=QUICK)
    touch, single = (program(*(jnp.asarray(x, dtype) for x in rows)) for dtype in ("float64", "float32"))
    gaps = np.asarray(touch.gap)
    best = gaps.argmin(-1)
    gap, normal = gaps.min(-1), np.asarray(touch.normal)[np.arange(n), best]
    listed = list(zip(*rows, strict=True))
    size = np.array([_size(row) for row in listed])
    own = np.array([held_apart(kinds, row, v) for row, v in zip(listed, normal, strict=True)])
    theirs = np.array([coal_normal(kinds, row) for row in listed])
    known = np.isfinite(theirs).all(-1)
    most = np.array([held_apart(kinds, row, v) for row, v in zip(listed, theirs, strict=True)])
    missed = np.where(known, np.maximum(most - gap, 0), 0) / size
    apart = np.arccos(np.clip((normal * theirs).sum(-1), -1, 1))
    same = known & (np.abs(most - gap) < AS_GOOD * size) & (apart < ANOTHER)
    difference = np.abs(np.asarray(single.gap).min(-1) - gap) / size
    return Comparison(
        pair="-".join(kinds),
        scenes=n,
        deep=int((gap < 0).sum()),
        own=float((np.abs(gap - own) / size).max()),
        missed=float(missed.max()),
        angle=float(apart[same].max(initial=0)),
        compared=int(same.sum()),
        unknown=int((~known).sum()),
        single=float(difference.max()),
    )


def _size(row: Row) -> float:
    """[m] the larger of the two shapes, corner to corner or length and diameter."""
    lengths = [np.ptp(x, axis=0) if x.ndim == 2 else x for x in (row[0], row[3])]
    return max(float(np.linalg.norm(x)) for x in lengths)


def write_table(out: Path, *, page: Path | None = None) -> str:
    """Compare everything, write out/shapes.json, and return the table; it goes into `page` too."""
    try:
        import coal  # noqa: F401
    except ImportError as error:
        raise Unable('shapes: there is no coal to compare with; pip install "backflip[dev]"') from error
    jax.config.update("jax_enable_x64", True)
    began, each = time.perf_counter(), -(-SCENES // len(NEW))
    comparisons = []
    with Progress().task("shapes", len(NEW)) as task:
        for kinds in NEW:
            comparisons.append(compare(kinds, each, seed=0))
            task.advance(pair=comparisons[-1].pair, missed=comparisons[-1].missed)
    result = {
        "scenes": each * len(NEW),
        "asked": {"gap": GAP, "angle": ANGLE},
        "pairs": [{**vars(one), "ok": one.ok} for one in comparisons],
    }
    save_result(out / "shapes.json", "shapes", result, seed=0, seconds=time.perf_counter() - began)
    text = table(comparisons)
    if page:
        put_table(page, MARK, text)
    return text


def table(comparisons: list[Comparison]) -> str:
    """Markdown: a row for each pair."""
    heads = [
        "pair",
        "scenes",
        "deep",
        "gap: own normal",
        "gap: coal's",
        "normal [rad]",
        "compared",
        "float32",
    ]
    rows = []
    for one in comparisons:
        errors = [f"{x:.0e}" for x in (one.own, one.missed, one.angle)]
        last = f"{one.single:.0e}" + ("" if one.ok else " ✗")
        rows.append([one.pair, str(one.scenes), str(one.deep), *errors, str(one.compared), last])
    return markdown(heads, rows)
