"""Joints of planar scenes, where y is held anyway: they hold one of the three freedoms of a body.

kind           leaves free                   holds
hold x         move along z, turn about y    the line x = const through a point of B
hold z         move along x, turn about y    the line z = const through a point of B
hold rotation  move along x and z            orientation
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.math import relative_rotation_vector
from backflip.model.joints import Fixed, Frames, Hinge, JointKind, Mistake, Slider, moves, turns


@dataclass(frozen=True)
class Hold(JointKind):
    """Holds "x", "z" or "rotation" of a body of a planar scene."""

    what: str
    freedoms = 2
    slides = True

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"hold {self.what}"

    def free(self, at: Frames) -> list[Array]:
        along, about = moves(at), turns(at)
        return {"x": [along[2], about[1]], "z": [along[0], about[1]], "rotation": [along[0], along[2]]}[
            self.what
        ]

    def held(self, at: Frames) -> list[Array]:
        along, about = moves(at), turns(at)
        return {
            "x": [along[0], along[1], about[0], about[2]],
            "z": [along[1], along[2], about[0], about[2]],
            "rotation": [along[1], *about],
        }[self.what]

    def turn_error(self, at: Frames) -> Array:
        if self.what == "rotation":
            return relative_rotation_vector(at.R_A, at.R_B)
        return jnp.zeros_like(at.apart)

    def mistake(self, axes: list[np.ndarray], planar: bool) -> Mistake | None:
        if planar:
            return None
        remedy = "give Builder(planar=True), or use a hinge, slider or fixed joint"
        return f"add_hold({self.what!r}) is for planar scenes", remedy


Axis = tuple[float, float, float]

_HOLDS: dict[tuple[str, ...], tuple[JointKind, tuple[Axis, ...]]] = {
    ("x",): (Hold("x"), ()),
    ("z",): (Hold("z"), ()),
    ("rotation",): (Hold("rotation"), ()),
    ("x", "z"): (Hinge(), ((0.0, 1.0, 0.0),)),
    ("rotation", "x"): (Slider(), ((0.0, 0.0, 1.0),)),
    ("rotation", "z"): (Slider(), ((1.0, 0.0, 0.0),)),
    ("rotation", "x", "z"): (Fixed(), ()),
}


def holding(body: str, what: tuple[str, ...]) -> tuple[JointKind, tuple[Axis, ...]]:
    """Kind and axes of the joint that holds these of the x, z and rotation of a body."""
    key = tuple(sorted(what)) if all(isinstance(part, str) for part in what) else ()
    if key not in _HOLDS:
        raise ValueError(f'add_hold of body "{body}": {what!r}; give one or more of "x", "z", "rotation"')
    return _HOLDS[key]
