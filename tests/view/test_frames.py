"""Frames: pictures and films without a display."""

import importlib
import sys
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import backflip as bf
from backflip.geometry import Box, Capsule, Cylinder, Hull, Polytope, Sphere
from backflip.robots import quadruped
from backflip.view import save_frames, scene_of
from backflip.view.colour import SKY
from backflip.view.look import look_at
from backflip.view.painter import FINE, Painter, rgb
from backflip.view.scene import Part

SIZE = (96, 64)


@pytest.fixture(scope="module")
def ball() -> bf.Model:
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(radius=0.2), mass=1.0, position=(0, 0, 0.2))
    b.add_ground()
    return b.build()


def rolling(model: bf.Model, T: int = 11) -> SimpleNamespace:
    """Along x, 0.1 m in a second."""
    start = bf.rest(model)
    p_WB = np.repeat(np.asarray(start.p_WB)[None], T, axis=0)
    p_WB[..., 0] += np.linspace(0, 0.1, T)[:, None]
    return SimpleNamespace(p_WB=p_WB, R_WB=np.repeat(np.asarray(start.R_WB)[None], T, axis=0), dt=0.1)


def test_a_png_shows_the_middle(tmp_path, ball) -> None:
    picture = Image.open(save_frames(tmp_path / "new" / "ball.png", ball, rolling(ball), size=SIZE))
    assert picture.size == SIZE
    red, green, _ = np.asarray(picture, int)[SIZE[1] // 2, SIZE[0] // 2]
    assert red > 1.5 * green  # the ball, on grey ground


def test_a_png_of_several_times_is_a_strip(tmp_path, ball) -> None:
    path = save_frames(tmp_path / "ball.png", ball, rolling(ball), size=SIZE, times=[0, 0.5, 1])
    assert Image.open(path).size == (3 * SIZE[0], SIZE[1])


def test_a_gif_moves_at_the_asked_rate(tmp_path, ball) -> None:
    film = Image.open(save_frames(tmp_path / "ball.gif", ball, rolling(ball), fps=5, size=SIZE))
    assert film.size == SIZE and film.n_frames == 6 and film.info["duration"] == 200


def test_an_mp4_is_written(tmp_path, ball) -> None:
    pytest.importorskip("imageio_ffmpeg")
    path = save_frames(tmp_path / "ball.mp4", ball, rolling(ball), fps=10, size=SIZE)
    assert path.read_bytes()[4:8] == b"ftyp"


def test_an_mp4_without_ffmpeg_names_the_remedy(tmp_path, ball, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ValueError, match=r"backflip\[video\]"):
        save_frames(tmp_path / "ball.mp4", ball, rolling(ball), size=SIZE)


def test_another_ending_is_refused(tmp_path, ball) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.gif, \.mp4"):
        save_frames(tmp_path / "ball.avi", ball, rolling(ball))


def test_many_pictures_show_their_progress(tmp_path, ball, capsys) -> None:
    save_frames(tmp_path / "ball.gif", ball, rolling(ball, T=60), dt=0.04, size=(16, 12))
    out, err = capsys.readouterr()
    assert out == "" and "60/60" in err


@pytest.fixture
def shown(monkeypatch) -> list[tuple[str, float]]:
    """What is written on pictures, and where the first body is, in order."""
    frames = importlib.import_module("backflip.view.frames")
    pictures: list[tuple[str, float]] = []

    def picture(painter, i):
        pictures.append((f"{painter.scene.times[i]:.2f} s", float(painter.scene.p_WB[i, 0, 0])))
        return Image.new("RGB", SIZE)

    monkeypatch.setattr(frames, "_picture", picture)
    return pictures


def test_a_motion_is_shown_from_its_start_and_every_time_is_right(tmp_path, ball, shown) -> None:
    start = eqx.tree_at(lambda s: s.v_WB, bf.rest(ball), jnp.array([[1.0, 0, 0]]))
    path = bf.rollout(bf.Scheme(0.05), ball, start, steps=6)
    save_frames(tmp_path / "ball.png", ball, path, times=(0, 0.05, 0.16, 0.3))
    assert [label for label, _ in shown] == ["0.00 s", "0.05 s", "0.15 s", "0.30 s"]
    x = path.from_start.p_WB[:, 0, 0]
    assert x[0] < x[1]
    np.testing.assert_allclose([at for _, at in shown], x[np.array([0, 1, 3, 6])], rtol=1e-6, atol=1e-9)
    shown.clear()
    save_frames(tmp_path / "ball.gif", ball, path, fps=20)
    assert [label for label, _ in shown][-7:] == [f"{0.05 * i:.2f} s" for i in range(7)]


def test_one_time_is_shown_even_between_the_pictures_of_a_film(tmp_path, ball, shown) -> None:
    save_frames(tmp_path / "ball.png", ball, rolling(ball), dt=0.01, times=0.05)
    assert [label for label, _ in shown] == ["0.05 s"]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0, 7], "times has 7 s; the motion lasts from 0 to 1 s"),
        (-0.5, "times has -0.5 s"),
        (float("nan"), "times has nan s"),
        ([], r"times is \[\]; give seconds"),
        ("first", "times is 'first'; give seconds"),
    ],
)
def test_times_that_are_not_of_the_motion_are_refused(tmp_path, ball, times, message) -> None:
    with pytest.raises(ValueError, match=f"save_frames: {message}"):
        save_frames(tmp_path / "ball.png", ball, rolling(ball), times=times)


def test_a_batch_is_refused_with_its_remedy(tmp_path, ball) -> None:
    two = jax.tree.map(lambda x: jnp.stack([x, x]), bf.rest(ball))
    batch = jax.vmap(lambda s: bf.rollout(bf.Scheme(0.05), ball, s, steps=2))(two)
    with pytest.raises(ValueError, match=r"save_frames: p_WB has shape \(2, 2, 1, 3\).*lambda x: x\[0\]"):
        save_frames(tmp_path / "ball.png", ball, batch)
    save_frames(tmp_path / "ball.png", ball, jax.tree.map(lambda x: x[0], batch), size=SIZE)


def test_all_of_a_robot_is_in_the_picture() -> None:
    model = quadruped()
    start = bf.rest(model)
    scene = scene_of(model, SimpleNamespace(p_WB=start.p_WB[None], R_WB=start.R_WB[None]), 0.01)
    painter = Painter(scene, look_at(scene), SIZE)
    for part in scene.parts:
        if not part.kind.endless:
            x, y = painter.camera.seen_at(painter.placed(part, 0).corners)
            assert x.min() > 0 and x.max() < FINE * SIZE[0] and y.min() > 0 and y.max() < FINE * SIZE[1]
    assert (painter.paint(0)[0, 0] == rgb(SKY)).all()


@pytest.mark.parametrize(
    ("kind", "size", "t", "n"),
    [
        (Sphere, (0.5, 0, 0), 1.5, (-1, 0, 0)),
        (Box, (1, 2, 3), 1.5, (-1, 0, 0)),
        (Capsule, (0.5, 2, 0), 1.5, (-1, 0, 0)),
    ],
)
def test_a_ray_meets_the_near_side(kind, size, t, n) -> None:
    o, d = np.array([[-2.0], [0.0], [0.0]], np.float32), np.array([[1.0], [0.0], [0.0]], np.float32)
    distance, normal = kind.hit(size, o, d)
    np.testing.assert_allclose(distance, [t], atol=1e-6)
    np.testing.assert_allclose(normal[:, 0], n, atol=1e-6)
    above = np.array([[-2.0], [0.0], [2.0]], np.float32)
    assert np.isinf(kind.hit(size, above, d)[0]).all()


def test_a_ray_along_a_capsule_meets_its_cap() -> None:
    o, d = np.array([[0.0], [0.0], [5.0]], np.float32), np.array([[0.0], [0.0], [-1.0]], np.float32)
    t, n = Capsule.hit((0.5, 2, 0), o, d)
    np.testing.assert_allclose(t, [3.5], atol=1e-5)
    np.testing.assert_allclose(n[:, 0], [0, 0, 1], atol=1e-5)


def test_rays_meet_the_cap_and_the_side_of_a_cylinder_and_pass_it():
    o = np.array([[0.2, 2, 0.6, 0], [0, 0, 0, 0], [3, 0.5, 3, 3]], np.float32)
    d = np.array([[0, -1, 0, 0], [0, 0, 0, 0], [-1, 0, -1, 1]], np.float32)
    t, n = Cylinder.hit((0.5, 2, 0), o, d)
    np.testing.assert_allclose(t, [2, 1.5, np.inf, np.inf], atol=1e-5)
    np.testing.assert_allclose(n[:, :2].T, [(0, 0, 1), (1, 0, 0)], atol=1e-5)


def test_rays_meet_a_hull_of_a_boxs_corners_as_they_meet_the_box():
    rng, size = np.random.default_rng(0), np.array([0.4, 0.6, 1.0], np.float32)
    hull = bf.Hull([(x * 0.2, y * 0.3, z * 0.5) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    part = Part(Hull, Polytope(hull.vertices, hull.outline))
    d = rng.normal(size=(3, 500)).astype(np.float32)
    d /= np.linalg.norm(d, axis=0)
    o = (0.3 * rng.normal(size=(3, 500)) - 3 * d).astype(np.float32)
    (t, n), (s, m) = Hull.hit(part.form, o, d), Box.hit(size, o, d)
    assert np.isfinite(s).sum() > 100
    np.testing.assert_allclose(t, s, atol=1e-4)
    np.testing.assert_allclose(n[:, np.isfinite(s)], m[:, np.isfinite(s)], atol=1e-5)
    low, high = part.block
    np.testing.assert_allclose(high - low, size, atol=1e-6)
