"""Frames: a motion as a picture, a strip of pictures, or a film, painted without a display."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from backflip.view.colour import FORCE, INK
from backflip.view.look import look_at
from backflip.view.painter import FINE, Painter
from backflip.view.replay import scene_of, step_of
from backflip.view.scene import thin

if TYPE_CHECKING:
    from PIL.Image import Image

    from backflip.model import Model

MANY = 50
"""Pictures from which on a progress bar is shown."""
SAMPLES = 4
"""Pictures from which the colours of a .gif are chosen."""


def save_frames(
    path: str | Path,
    model: "Model",
    trajectory: Any,
    *,
    dt: float | None = None,
    fps: float = 25,
    size: tuple[int, int] = (640, 360),
    follow: bool = True,
    times: float | Sequence[float] | None = None,
) -> Path:
    """Paint a trajectory as .png, .gif or .mp4; the ending of `path` says which.

    A .png shows one moment, or several side by side; the others move. An .mp4 needs imageio-ffmpeg.

    trajectory: p_WB (T, n, 3) and R_WB (T, n, 3, 3), its own or those of its `state`, after a `start`
    dt: [s] between states; `trajectory.dt` where not given
    fps: [1/s] pictures in a second of film
    size: [pixels] width and height of a picture
    follow: the camera goes along with what travels far; False: it stands, and sees the whole motion
    times: [s] of one moment or several, the nearest state of each; else the middle for .png, or all of it
    """
    path = Path(path)
    writers = {".png": _save_png, ".gif": _save_gif, ".mp4": _save_mp4}
    kind = path.suffix.lower()
    if kind not in writers:
        raise ValueError(f'save_frames: "{path.name}" ends in none of {", ".join(writers)}; give one of them')
    states = _states_of(trajectory)
    scene = scene_of(model, states, step_of(trajectory, dt))
    if times is None:
        scene = thin(scene, fps)
        moments = _nearest(scene.times, scene.times[-1:] / 2) if kind == ".png" else range(len(scene.times))
    else:
        moments = _nearest(scene.times, _check_times(times, scene.times))
    look = look_at(scene)
    painter = Painter(scene, look if follow else replace(look, follow=False), size)
    path.parent.mkdir(parents=True, exist_ok=True)
    writers[kind](path, painter, moments, fps)
    return path


def _states_of(trajectory: Any) -> Any:
    """The states of one run, from its start where that is known."""
    states = getattr(trajectory, "state", trajectory)
    shape = np.shape(states.p_WB)
    if len(shape) != 3:
        raise ValueError(
            f"save_frames: p_WB has shape {shape}; one run has (T, bodies, 3); of a batch choose one, "
            "such as jax.tree.map(lambda x: x[0], trajectory)"
        )
    return states if getattr(trajectory, "start", None) is None else trajectory.from_start


def _check_times(times: Any, known: np.ndarray) -> np.ndarray:
    """(k,) [s] the moments asked for; ValueError where they are none of the motion."""
    try:
        asked = np.atleast_1d(np.asarray(times, float))
    except (TypeError, ValueError):
        asked = np.zeros(0)
    if asked.ndim != 1 or not asked.size:
        raise ValueError(f"save_frames: times is {times!r}; give seconds, such as times=(0, 0.5, 1)")
    # a step of leeway, for times that were counted by steps
    leeway = known[1] - known[0] if len(known) > 1 else 1e-6
    outside = asked[~((asked >= -1e-9) & (asked <= known[-1] + leeway))]
    if outside.size:
        raise ValueError(
            f"save_frames: times has {outside[0]:g} s; the motion lasts from 0 to {known[-1]:g} s, give "
            "times within"
        )
    return asked


def _nearest(known: np.ndarray, asked: np.ndarray) -> list[int]:
    """Which of the known times is nearest to each of those asked for."""
    return [int(np.abs(known - t).argmin()) for t in asked]


def _pictures(painter: Painter, moments: Sequence[int]) -> Iterator["Image"]:
    """One picture after the other, with a progress bar if they are many."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=len(moments) < MANY) as bars:
        for i in bars.track(moments, description="frames"):
            yield _picture(painter, i)


def _picture(painter: Painter, i: int) -> "Image":
    """Picture i with its force arrows and the time."""
    from PIL import Image, ImageDraw, ImageFont

    fine = Image.fromarray(painter.paint(i))
    _draw_arrows(ImageDraw.Draw(fine), painter, i)
    picture = fine.reduce(FINE)
    letter = max(11, picture.height // 24)
    label = f"{painter.scene.times[i]:.2f} s"
    ImageDraw.Draw(picture).text((letter, letter), label, INK, ImageFont.load_default(letter))
    return picture


def _draw_arrows(pen: Any, painter: Painter, i: int) -> None:
    """Contact forces, drawn over everything."""
    forces = painter.scene.forces
    if forces is None:
        return
    start = forces.p[i] - painter.target(i)
    end = start + painter.look.per_newton * forces.f[i]
    head = 0.03 * painter.camera.height
    for x0, y0, x1, y1 in np.stack([*painter.camera.seen_at(start), *painter.camera.seen_at(end)], axis=-1):
        length = float(np.hypot(x1 - x0, y1 - y0))
        if length < 0.2 * head:
            continue
        # a short arrow is mostly head
        x, y = np.array([x1 - x0, y1 - y0]) / length * min(head, length / 1.5)
        pen.line([x0, y0, x1 - 0.8 * x, y1 - 0.8 * y], FORCE, width=round(0.28 * head))
        pen.polygon([x1, y1, x1 - x - 0.4 * y, y1 - y + 0.4 * x, x1 - x + 0.4 * y, y1 - y - 0.4 * x], FORCE)


def _save_png(path: Path, painter: Painter, moments: Sequence[int], fps: float) -> None:
    from PIL import Image

    strip = np.concatenate([np.asarray(picture) for picture in _pictures(painter, moments)], axis=1)
    Image.fromarray(strip).save(path)


def _save_gif(path: Path, painter: Painter, moments: Sequence[int], fps: float) -> None:
    from PIL import Image

    # one palette, of a few pictures of them all: colours of each picture's own would flicker
    some = [moments[k] for k in np.linspace(0, len(moments) - 1, SAMPLES).astype(int)]
    sheet = Image.fromarray(np.concatenate([_picture(painter, i) for i in some]))
    # small things in colours of their own count as much as the wide grey ground
    palette = sheet.quantize(256, Image.Quantize.MAXCOVERAGE)
    plain = Image.Dither.NONE
    flat = (picture.quantize(palette=palette, dither=plain) for picture in _pictures(painter, moments))
    next(flat).save(path, save_all=True, append_images=flat, duration=1000 / fps, loop=0)


def _save_mp4(path: Path, painter: Painter, moments: Sequence[int], fps: float) -> None:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        remedy = 'pip install "backflip[video]", or write a .gif'
        raise ValueError(f"save_frames: .mp4 needs imageio-ffmpeg; {remedy}") from error
    width, height = painter.size
    given = f"-f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps:g} -i -"
    # films have even sides; yuv420p is what browsers play
    made = "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2 -c:v libx264 -crf 18 -pix_fmt yuv420p -movflags +faststart"
    command = [get_ffmpeg_exe(), *f"-y -loglevel error {given} {made}".split(), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as film:
        assert film.stdin is not None
        for picture in _pictures(painter, moments):
            film.stdin.write(picture.tobytes())
    if film.returncode:
        raise RuntimeError(f"save_frames: ffmpeg could not write {path}; see its words above")
