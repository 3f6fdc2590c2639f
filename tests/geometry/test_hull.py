"""Hulls: outlines, volume and inertia, meshes, and what is refused."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip.geometry import Box, Bulk, Cylinder, Hull, Polytope, form_of, hulls_of_mesh
from backflip.geometry.outline import outline_of
from backflip.model import bodies_of

CUBE = np.array(list(product((-0.5, 0.5), repeat=3)))
STONE = np.random.default_rng(0).normal(size=(12, 3))
BALL = np.random.default_rng(0).normal(size=(40, 3))
BALL /= np.linalg.norm(BALL, axis=1, keepdims=True)
NAN = float("nan")


def test_the_outline_of_a_cube_has_six_squares_and_twelve_edges_whatever_lies_inside():
    within = np.concatenate([CUBE, 0.4 * CUBE, [(0, 0, 0.5), (0.5, 0.2, -0.1)]])
    hull = Hull(within * (1, 2, 3))
    assert len(hull.vertices) == 8
    assert [len(face) for face in hull.outline.faces] == [4] * 6 and len(hull.outline.edges) == 12
    assert hash(hull.outline) == hash(Hull(CUBE).outline)


@pytest.mark.parametrize("off", [1e-9, 1e-7])
def test_a_point_that_sticks_out_of_an_edge_by_rounding_leaves_faces_where_they_are(off):
    corners = np.array([(1.0, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)])
    middles = [(corners[i] + corners[k]) / 2 * (1 + off) for i, k in ((0, 1), (0, 2), (1, 3))]
    kept, outline = outline_of(np.concatenate([corners, middles]))
    a, b, c = (kept[k] for k in outline.triples.T)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    assert np.max(normal @ kept.T - np.sum(normal * a, 1)[:, None]) < 1e-6
    assert len(outline.faces) - len(outline.edges) + len(kept) == 2


def clouds(seed: int) -> list[np.ndarray]:
    """Points nearly in a plane or on a line, on a grid, and doubled."""
    rng = np.random.RandomState(seed)
    x = rng.rand(12, 3)
    thin, noise = 10 ** rng.uniform(-7, -4), 10 ** rng.uniform(-12, -4)
    return [
        x * [1, 1, thin],
        np.outer(x[:, 0], x[0]) + noise * x,
        np.round(x * 3) / 3 + noise * rng.normal(size=x.shape),
        np.concatenate([x[:5], x[:5], x[:5] + 1e-9 * x[5:10]]),
    ]


def test_a_cloud_nearly_flat_doubled_or_in_line_gives_a_convex_closed_hull_or_is_refused():
    hulls = 0
    for points in [
        np.random.RandomState(168).rand(12, 3) * [1, 1, 8e-6],
        *(c for k in range(60) for c in clouds(k)),
    ]:
        try:
            corners, outline = outline_of(points)
        except ValueError as error:
            assert "one plane" in str(error)
            continue
        hulls += 1
        a, b, c = (corners[k] for k in outline.triples.T)
        n = np.cross(b - a, c - a)
        n /= np.linalg.norm(n, axis=1, keepdims=True)
        assert np.max(points @ n.T - np.sum(n * a, 1)) < 1e-5
        assert len(outline.faces) - len(outline.edges) + len(corners) == 2
        assert all(len(side) == 2 and side[0] != side[1] for side in outline.sides)
    assert hulls > 100


def test_the_outline_of_a_stone_closes():
    outline = Hull(STONE).outline
    assert outline.count - len(outline.edges) + len(outline.faces) == 2


def bulk_of(hull: Hull) -> Bulk:
    return hull.bulk(form_of(hull))


def test_bulk_of_a_box_as_a_hull_is_that_of_the_box_shifted():
    size, shift = jnp.array([0.4, 0.9, 1.3]), np.array([0.3, -2.0, 1.0])
    hull = Hull(CUBE * np.asarray(size) + shift)
    found = bulk_of(hull)
    np.testing.assert_allclose(found.volume, Box.bulk(size).volume, rtol=1e-12)
    np.testing.assert_allclose(found.centre, shift, atol=1e-12)
    np.testing.assert_allclose(found.inertia, Box.bulk(size).inertia, atol=1e-12)


def test_bulk_of_a_stone_is_that_of_a_cloud_of_points_in_it():
    hull = Hull(STONE)
    found = bulk_of(hull)
    x = np.random.default_rng(1).uniform(STONE.min(0), STONE.max(0), (200_000, 3))
    a, b, c = (hull.vertices[k] for k in hull.outline.triples.T)
    n = np.cross(b - a, c - a)
    kept = x[((x[:, None] - a) * n).sum(-1).max(-1) < 0]
    whole = np.prod(np.ptp(STONE, axis=0)) * len(kept) / len(x)
    np.testing.assert_allclose(found.volume, whole, rtol=0.02)
    np.testing.assert_allclose(found.centre, kept.mean(0), atol=0.02)
    spread = np.cov(kept.T, bias=True)
    np.testing.assert_allclose(found.inertia, np.trace(spread) * np.eye(3) - spread, atol=0.02)


def test_slopes_of_bulk_are_those_of_central_differences():
    hull, h = Hull(STONE), 1e-6
    rate = np.random.default_rng(2).normal(size=hull.vertices.shape)

    def all_of(v):
        return jnp.concatenate([jnp.ravel(x) for x in Hull.bulk(Polytope(v, hull.outline))])

    _, slope = jax.jvp(all_of, (jnp.asarray(hull.vertices),), (jnp.asarray(rate),))
    up, down = (all_of(jnp.asarray(hull.vertices + s * rate)) for s in (h, -h))
    np.testing.assert_allclose(slope, (up - down) / (2 * h), atol=1e-8)


def test_a_body_of_a_hull_turns_about_the_hulls_centre_of_mass():
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body(
        "stone",
        Hull(CUBE + np.array([1, 0, 0])),
        mass=2.0,
        position=(0, 0, 1),
        rotation=(0, 0, np.pi / 2),
        group="one",
    )
    b.add_body("can", Cylinder(0.1, 0.2), density=500.0, position=(5, 0, 0), group="one")
    model = b.build()
    np.testing.assert_allclose(bf.rest(model).p_WB[0], (0, 1, 1), atol=1e-12)
    bodies = bodies_of(model)
    np.testing.assert_allclose(bodies.inertia[0], np.eye(3) * 2 / 6, atol=1e-12)
    np.testing.assert_allclose(bodies.mass[1], 500 * np.pi * 0.1**2 * 0.2, rtol=1e-12)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (CUBE[:3], "stone.*3 points.*at least 4"),
        (CUBE * (1, 1, 0), "stone.*one plane"),
        (CUBE * (1, 1, 1e-9), "stone.*one plane"),
        (np.where(CUBE > 0, NAN, CUBE), "stone.*point 1 is.*finite"),
        (CUBE[:, :2], r"stone.*\(n, 3\)"),
        ("cube", r"stone.*\(n, 3\)"),
        (STONE[0] + BALL, "stone.*40 corners.*at most 32"),
    ],
)
def test_points_that_make_no_hull_are_refused_by_name(points, words):
    b = bf.Builder()
    b.add_body("stone", Hull(points))
    with pytest.raises(ValueError, match=words):
        b.build()


def test_a_mesh_with_a_notch_becomes_hulls_that_fill_it():
    corner = [(0, 0), (1, 0), (1, 0.2), (0.2, 0.2), (0.2, 1), (0, 1)]
    points = np.array([(x, y, z) for z in (0.0, 0.5) for x, y in corner])
    flat = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]
    around = [(k, (k + 1) % 6, k + 6) for k in range(6)] + [
        ((k + 1) % 6, (k + 1) % 6 + 6, k + 6) for k in range(6)
    ]
    faces = [(a, c, b) for a, b, c in flat] + [(a + 6, b + 6, c + 6) for a, b, c in flat] + around
    hulls = hulls_of_mesh((points, np.array(faces)), hulls=4)
    found = sum(float(bulk_of(h).volume) for h in hulls)
    assert 2 <= len(hulls) <= 4 and all(len(h.vertices) <= 32 for h in hulls)
    assert abs(found / 0.18 - 1) < 0.1


def test_a_mesh_that_is_not_there_is_refused_by_name():
    with pytest.raises(ValueError, match=r"nothing\.obj"):
        hulls_of_mesh("nothing.obj")


def test_a_hull_is_not_smaller_than_what_float32_can_weigh():
    cloud = np.random.default_rng(0).random((8, 3))
    for size in (cloud * 1e-8, cloud * [1e-4, 5e-6, 1e-4]):
        with pytest.raises(ValueError, match=r"its points span .* along [xyz]; give .* at least 1e-05"):
            Hull(size).check()
    small = Hull(cloud * 2e-5)
    small.check()
    inertia = Hull.bulk(form_of(small, "float32")).inertia
    assert (np.linalg.eigvalsh(np.asarray(inertia, float)) > 0).all()


def test_a_hull_of_thousands_of_points_is_refused_soon_and_one_far_from_its_origin_at_once():
    with pytest.raises(ValueError, match=r"it has \d+ corners; give at most 32"):
        bf.Hull(np.random.RandomState(0).rand(3000, 3)).check()
    with pytest.raises(ValueError, match="far from its origin for their size; give it a position"):
        bf.Hull(1e-4 * np.random.RandomState(0).rand(12, 3) + 1e4).check()


@pytest.mark.parametrize("ending", ["obj", "stl", "ply", "glb", "off", "3mf"])
def test_a_file_that_is_no_mesh_is_named(tmp_path, ending):
    for k, data in enumerate((b"", b"nonsense", np.random.RandomState(0).bytes(300), b"v 0 0 0\nf 1 2 3\n")):
        file = tmp_path / f"robot{k}.{ending}"
        file.write_bytes(data)
        with pytest.raises(ValueError, match="hulls_of_mesh: "):
            hulls_of_mesh(file)
