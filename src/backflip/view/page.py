"""The replay page: a Scene, three.js and our player (replay.js) folded into one HTML text."""

import base64
import html
import json
import re
import zipfile
from functools import cache
from importlib import resources

import numpy as np

from backflip.view.colour import GROUND, PALETTE
from backflip.view.scene import WORLD, Part, Scene, frame, thin


def page(scene: Scene, title: str, fps: float) -> str:
    """One HTML page that plays the scene; it asks the network for nothing, and its policy forbids it to."""
    pieces = {
        "title": html.escape(title),
        "three": three_js(),
        # "<" could end the script element early
        "scene": json.dumps(described(thin(scene, fps))).replace("<", "\\u003c"),
        "player": _own("replay.js"),
    }
    # one pass, so that a piece that happens to hold another's mark stays as it is
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: pieces[mark[1]], _own("replay.html"))


def _quaternions(R: np.ndarray) -> np.ndarray:
    """(..., 4) x, y, z, w."""
    from scipy.spatial.transform import Rotation  # it takes a third of a second to import

    return Rotation.from_matrix(R).as_quat()


def described(scene: Scene) -> dict:
    """The scene as the player reads it; motion is packed as float32 to keep pages small."""
    centre, radius = frame(scene)
    T, n = scene.p_WB.shape[:2]
    quaternions = _quaternions(scene.R_WB.reshape(-1, 3, 3)).reshape(T, n, 4)
    return {
        "parts": [_part(part) for part in scene.parts],
        "bodies": n,
        "colours": [PALETTE[b % len(PALETTE)] for b in range(n)],
        "centre": centre.tolist(),
        "radius": radius,
        "times": _packed(scene.times - scene.times[0]),
        # body after body, as key frames are read: (n, T, 3) and (n, T, 4)
        "p_WB": _packed(scene.p_WB.swapaxes(0, 1)),
        "q_WB": _packed(quaternions.swapaxes(0, 1)),
    }


def _part(part: Part) -> dict:
    own = GROUND if part.body == WORLD else PALETTE[part.body % len(PALETTE)]
    return {
        "kind": part.kind,
        "size": np.asarray(part.size, float).tolist(),
        "body": part.body,
        "p_BS": np.asarray(part.p_BS, float).tolist(),
        "q_BS": _quaternions(np.asarray(part.R_BS, float)).tolist(),
        "colour": part.colour or own,
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
    found = re.search(rf"<script>(.*?{re.escape(end)})", viewer, re.DOTALL)
    if found is None:
        raise RuntimeError("three.js is not where trimesh used to keep it; install trimesh 5.2")
    return found[1]
