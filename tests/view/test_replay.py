"""Replay pages: one file, all inside, small, and true to the motion."""

import base64
import json
import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import backflip as bf
from backflip.geometry import Box, Plane, Sphere
from backflip.view import PALETTE, Part, Scene, save_replay, save_scene, scene_of
from backflip.view.page import described, three_js
from backflip.view.plots import convergence_plot


def swing(T: int = 101, n: int = 2) -> Scene:
    """Bodies that go along x and turn about z."""
    t = np.linspace(0, 1, T)
    p_WB = np.zeros((T, n, 3))
    p_WB[..., 0] = t[:, None] * np.arange(1, n + 1)
    c, s, zero, one = np.cos(t), np.sin(t), 0 * t, 0 * t + 1
    R = np.stack([np.stack(row, -1) for row in ((c, -s, zero), (s, c, zero), (zero, zero, one))], -2)
    parts = (Part(Plane, (0, 0, 0)), *(Part(Box, (1, 1, 1), b) for b in range(n)))
    return Scene(parts, p_WB, np.repeat(R[:, None], n, axis=1), t)


def scene_in(text: str) -> dict:
    found = re.search(r'<script id="scene" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def unpacked(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)


def test_the_page_has_everything_inside(tmp_path) -> None:
    text = save_scene(tmp_path / "swing.html", swing(), title="A swing").read_text("utf-8")
    assert "<title>A swing</title>" in text and "THREE.TrackballControls=" in text
    assert not re.search(r"\{\{\w+\}\}", text)
    # nothing is loaded from elsewhere, and the browser is told to refuse it
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*\s(?:src|href)\s*=", text)
    assert "default-src 'none'" in text


def test_the_motion_comes_through(tmp_path) -> None:
    scene = swing(T=51)
    told = scene_in(save_scene(tmp_path / "swing.html", scene, fps=50).read_text("utf-8"))
    np.testing.assert_allclose(unpacked(told["times"], 51), scene.times, atol=1e-6)
    np.testing.assert_allclose(unpacked(told["p_WB"], 2, 51, 3), scene.p_WB.swapaxes(0, 1), atol=1e-6)
    # a turn by t about z: q = (0, 0, sin t/2, cos t/2)
    q = unpacked(told["q_WB"], 2, 51, 4)[0]
    half = np.sin(scene.times / 2), np.cos(scene.times / 2)
    np.testing.assert_allclose(q[:, 2:], np.stack(half, -1), atol=1e-6)


def test_bodies_have_colours_of_their_own() -> None:
    ground, first, second = described(swing())["parts"]
    assert [first["colour"], second["colour"]] == list(PALETTE[:2]) and ground["colour"] not in PALETTE


def test_a_long_replay_stays_small() -> None:
    motion = json.dumps(described(swing(T=500, n=10)))
    assert len(motion) < 250_000


def test_a_title_cannot_break_the_page(tmp_path) -> None:
    title = "</title><script>alert(1)</script>{{scene}}"
    text = save_scene(tmp_path / "a.html", swing(), title=title).read_text("utf-8")
    assert "<script>alert" not in text
    assert scene_in(text)["bodies"] == 2


def test_three_js_is_a_whole_library() -> None:
    for name in ("WebGLRenderer", "CapsuleGeometry", "AnimationMixer", "TrackballControls"):
        assert name in three_js()
    assert "</script" not in three_js()


def test_a_trajectory_without_a_dt_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="give dt="):
        save_replay(tmp_path / "a.html", SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]


def test_a_plot_is_drawn_without_a_display(tmp_path) -> None:
    path = convergence_plot(tmp_path / "plots" / "c.png", {"BPTT": [1, 0.1], "CMA-ES": [1, 0.5]}, title="t")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_trajectory_of_a_model_becomes_a_scene() -> None:
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(radius=0.5), mass=1.0, position=(0, 0, 2))
    b.add_ground()
    model = b.build()
    states = jax.tree.map(lambda x: np.stack([x] * 5), bf.rest(model))
    scene = scene_of(model, bf.Trajectory(states, np.zeros((5, 0)), None, 0.01), 0.01)
    (ball,) = (part for part in scene.parts if part.kind is Sphere)
    assert ball.body == 0 and ball.form[0] == 0.5
    assert {part.kind for part in scene.parts} == {Plane, Sphere}
    np.testing.assert_allclose(scene.p_WB, states.p_WB)
    np.testing.assert_allclose(scene.times, [0.0, 0.01, 0.02, 0.03, 0.04])


def test_a_part_sits_where_its_shape_is_in_the_world() -> None:
    b = bf.Builder()
    b.add_body("hammer", bf.Box((1.0, 0.2, 0.2)), mass=2.0, position=(1, 2, 3))
    b.add_shape("hammer", bf.Sphere(radius=0.3), position=(0.5, 0, 0))
    model = b.build()
    start = bf.rest(model)
    states = SimpleNamespace(p_WB=start.p_WB[None], R_WB=start.R_WB[None])
    # the centre of mass lies between the shapes: neither part may sit on it
    for part, p_WS in zip(scene_of(model, states, 0.01).parts, ([1, 2, 3], [1.5, 2, 3]), strict=True):
        np.testing.assert_allclose(np.asarray(start.p_WB[0]) + part.p_CS, p_WS, atol=1e-6)
