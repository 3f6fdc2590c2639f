"""The replay page: a Scene, three.js and our player (replay.js) folded into one HTML text."""

import base64
import html
import json
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from backflip.view.colour import FORCE, PALETTE
from backflip.view.look import Look, arrow_scale, look_at
from backflip.view.scene import Part, Scene, colour_of, thin


@dataclass(frozen=True)
class Curve:
    """What is plotted beside a replay."""

    lines: Mapping[str, Sequence[float]]
    """values by name, in the order of updates; those that are not finite leave a gap"""
    x: str = "update"
    y: str = "cost"


def page(scene: Scene, title: str, fps: float, curve: Curve | None = None) -> str:
    """One HTML page that plays the scene; it asks the network for nothing, and its policy forbids it to."""
    content = described(thin(scene, fps)) | {"curve": curve and _curve(curve)}
    pieces = {
        "title": html.escape(title),
        "three": three_js(),
        # "<" could end the script element
        "scene": json.dumps(content).replace("<", "\\u003c"),
        "curve": _own("curve.js"),
        "player": _own("replay.js"),
    }
    # one pass, so that a piece that happens to hold another's mark stays as it is
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: pieces[mark[1]], _own("replay.html"))


def _curve(curve: Curve) -> dict:
    """Six digits are more than a screen shows; JSON has no NaN."""

    def value(x: float) -> float | None:
        return float(f"{x:.6g}") if math.isfinite(x) else None

    lines = [
        {"name": name, "values": [value(float(x)) for x in values], "colour": PALETTE[i % len(PALETTE)]}
        for i, (name, values) in enumerate(curve.lines.items())
    ]
    return {"x": curve.x, "y": curve.y, "lines": lines}


def _quaternions(R: np.ndarray) -> np.ndarray:
    """(..., 4) x, y, z, w."""
    from scipy.spatial.transform import Rotation  # it takes a third of a second to import

    return Rotation.from_matrix(R).as_quat()


def described(scene: Scene) -> dict:
    """The scene as the player reads it; motion is packed as float32 to keep pages small."""
    look = look_at(scene)
    T, n = scene.p_WB.shape[:2]
    quaternions = _quaternions(scene.R_WB.reshape(-1, 3, 3)).reshape(T, n, 4)
    return {
        "parts": [_part(part) for part in scene.parts],
        "bodies": n,
        "colours": [PALETTE[b % len(PALETTE)] for b in range(n)],
        "centre": look.centre.tolist(),
        "half": look.half.tolist(),
        "robot": look.robot.tolist(),
        "follow": look.follow,
        "tile": look.tile,
        "times": _packed(scene.times - scene.times[0]),
        # body after body, as key frames are read: (n, T, 3) and (n, T, 4)
        "p_WB": _packed(scene.p_WB.swapaxes(0, 1)),
        "q_WB": _packed(quaternions.swapaxes(0, 1)),
        "path": _packed(look.path),
        "forces": _forces(scene, look) if look.per_newton > 0 else None,
    }


def _forces(scene: Scene, look: Look) -> dict:
    """Arrows (T, k, 3) [m] and the points they start from."""
    assert scene.forces is not None
    return {
        "count": scene.forces.f.shape[1],
        "arrows": _packed(look.per_newton * scene.forces.f),
        "points": _packed(scene.forces.p),
        "colour": FORCE,
        "scale": arrow_scale(look.per_newton),
    }


def _surface(part: Part) -> list[float]:
    """The corners of all triangles, one after the other."""
    corners, triangles = part.kind.surface(part.form)
    return corners[triangles].reshape(-1).tolist()


def _part(part: Part) -> dict:
    drawn = part.kind.drawn_as == "surface"
    return {
        "kind": part.kind.drawn_as,
        "two_tone": part.kind.two_tone,
        "size": [] if drawn else np.asarray(part.form, float).tolist(),
        "body": part.body,
        "p_CS": np.asarray(part.p_CS, float).tolist(),
        "q_BS": _quaternions(np.asarray(part.R_BS, float)).tolist(),
        "colour": colour_of(part),
        "surface": _surface(part) if drawn else [],
    }


def _packed(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode("ascii")


def _own(name: str) -> str:
    return resources.files("backflip.view").joinpath(name).read_text("utf-8")


@cache
def three_js() -> str:
    """three.js and its TrackballControls, as shipped inside trimesh's own viewer page."""
    stored = resources.files("trimesh").joinpath("resources/templates/viewer.zip")
    with stored.open("rb") as file, zipfile.ZipFile(file) as archive:
        viewer = archive.read("viewer.html.template").decode("utf-8")
    # the library is everything in the script up to here; trimesh's page of its own comes after
    end = "THREE.TrackballControls=TrackballControls;})();"
    library = re.search(rf"<script>(.*?{re.escape(end)})", viewer, re.DOTALL)
    if library is None:
        raise RuntimeError("three.js is not where trimesh used to keep it; install trimesh 5.2")
    return library[1]
