"""Random and degenerate poses of two shapes, for the tests of this folder."""

from collections.abc import Callable
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from backflip.experiments.certificates.shapes import collider
from backflip.geometry import PAIRS, Touch

Scene = list[np.ndarray]  # size_a, p_WA, R_WA, size_b, p_WB, R_WB, each with a leading axis


def sizes(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """n random sizes of a kind."""
    numbers = {"plane": 0, "sphere": 1, "capsule": 2, "box": 3, "cylinder": 2, "hull": 3}[kind]
    return rng.uniform(0.2, 1.0, (n, 3)) * (np.arange(3) < numbers)


def random_scene(kinds: tuple[str, str], n: int, seed: int, distance: float = 0.6) -> Scene:
    """n random pairs, apart and overlapping."""
    rng = np.random.default_rng(seed)
    scene = []
    for kind, spread in zip(kinds, (0.3, distance), strict=True):
        turns = Rotation.random(n, random_state=rng.integers(1 << 31)).as_matrix()
        scene += [sizes(kind, n, rng), rng.normal(size=(n, 3)) * spread, turns]
    return scene


def degenerate_scene(kinds: tuple[str, str]) -> Scene:
    """Every combination of a few poses where things coincide, touch, or run parallel."""
    quarter = np.round(Rotation.from_euler("y", 90, degrees=True).as_matrix())
    diagonal = Rotation.from_euler("z", 45, degrees=True).as_matrix()
    corner = Rotation.from_rotvec([0.5, -0.5, 0]).as_matrix()
    turns = [np.eye(3), quarter, diagonal, corner]
    nothing = 1e-20
    places = [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 1),
        (1, 1, 1),
        (0, 0, 0.5),
        (0.5, 0.5, 0),
        (0.5, 0, 0),
        (0.25, 0, 0),
    ]
    places += [(nothing, 0, 0), (0, 0, 0.5 + 1e-8), (1e-4, 0, 1), (0, 2, 0.5), (0.5, 0.5, 0.5)]
    blocks = {
        "plane": [(0, 0, 0)],
        "sphere": [(0.5, 0, 0), (0.25, 0, 0)],
        "capsule": [(0.5, 1, 0), (0.25, 0, 0)],
        "box": [(1, 1, 1), (1, 2, 0.5)],
        "cylinder": [(0.5, 1, 0), (0.25, 0.5, 0)],
        "hull": [(1, 1, 1), (1, 2, 0.5)],
    }
    rows = list(product(blocks[kinds[0]], turns, blocks[kinds[1]], turns, places))
    size_a, R_WA, size_b, R_WB, p_WB = (np.array([row[k] for row in rows], float) for k in range(5))
    return [size_a, np.zeros_like(p_WB), R_WA, size_b, p_WB, R_WB]


def collide(kinds: tuple[str, str], scene: Scene) -> Touch:
    """The Touch of every pair of the scene, as numpy."""
    touch = compiled(kinds)(*(jnp.asarray(x) for x in scene))
    return Touch(*(np.asarray(x) for x in touch))


def compile_fast(function: Callable) -> Callable:
    """jit with little optimisation: these tests spend their time compiling."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


@cache
def compiled(kinds: tuple[str, str]) -> Callable:
    """The pair's function over a batch, compiled once for all tests."""
    return compile_fast(jax.vmap(collider(kinds)))


def candidates(kinds: tuple[str, str]) -> int:
    """How many candidates a pair promises."""
    return {(a.kind(), b.kind()): pair.count for (a, b), pair in PAIRS.items()}[kinds]


def one(kinds: tuple[str, str], *scene) -> Touch:
    """The Touch of a single pair: size_a, p_WA, R_WA, size_b, p_WB, R_WB."""
    touch = collide(kinds, [np.asarray(x, float)[None] for x in scene])
    return Touch(*(x[0] for x in touch))


def turn(*rotvec: float) -> np.ndarray:
    """The rotation by a rotation vector [rad]."""
    return Rotation.from_rotvec(rotvec).as_matrix()
