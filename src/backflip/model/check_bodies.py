"""What can be wrong with a body or a shape."""

import numpy as np

from backflip.geometry import Shape
from backflip.geometry.shape import LONGEST, as_numbers
from backflip.model.notes import WORLD_NAME, BodyNote, ShapeNote
from backflip.model.values import (
    LARGEST,
    check_choice,
    check_density,
    check_not_negative,
    check_positive,
    check_rotation,
    check_vector,
    fail,
)


def check_shape(note: ShapeNote) -> None:
    who = f'shape "{note.name}"'
    if not isinstance(note.shape, Shape):
        fail(who, f"{note.shape!r} is not a shape", "give one such as Sphere(radius=0.1)")
    position = check_vector(who, "position", note.position)
    if note.body != WORLD_NAME and np.abs(position).max() > LONGEST:
        fail(who, f"position is {note.position!r}", f"give a place on its body, none beyond {LONGEST:g} m")
    check_rotation(who, note.rotation)
    check_choice(who, "collide", note.collide)
    _check_form(who, note.shape)
    for what in ("density", "friction", "restitution"):
        value = getattr(note, what)
        if value is not None:
            check_not_negative(who, what, value)
    if note.density is not None and note.density != 0:
        check_density(who, note.density)
    if note.restitution is not None and note.restitution > 1:
        fail(who, f"restitution is {note.restitution}", "give a number from 0 to 1: more would make energy")
    if note.shape.endless and note.body != WORLD_NAME:
        what = f'a {note.shape.kind()} is endless and cannot ride on body "{note.body}"'
        fail(who, what, "put it on the world")


def _check_form(who: str, shape: Shape) -> None:
    """The numbers of a shape, by its own check, and the size it makes of them."""
    try:
        shape.check()
        packed = shape.pack()
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None
    numbers, count = check_vector(who, "pack()", packed), shape.measures
    if count not in range(4):
        fail(who, f"its class has measures = {count!r}", "give 0, 1, 2 or 3")
    if numbers[count:].any():
        fail(who, f"pack() is {packed!r} but its class has measures = {count}", "give 0 for the rest")


def check_body(note: BodyNote, shapes: list[ShapeNote]) -> None:
    who = f'body "{note.name}"'
    if note.group is not None and not isinstance(note.group, str):
        fail(who, f"group is {note.group!r}", "give a name, or None")
    for what in ("position", "velocity", "spin"):
        check_vector(who, what, getattr(note, what))
    check_rotation(who, note.rotation)
    if note.mass is not None and any(d is not None for d in (note.density, *(s.density for s in shapes))):
        fail(who, "both mass and density are given", "give one of them")
    if note.mass is not None:
        check_positive(who, "mass", note.mass, "give a positive mass in kg")
    if note.density is not None:
        check_density(who, note.density)
    if note.inertia is not None:
        if note.mass is None:
            fail(who, "inertia is given without mass", "give the mass too")
        _check_inertia(who, note.inertia)
    elif not shapes:
        fail(who, "it has no shape to take inertia from", "give a shape, or mass and inertia")
    if note.mass is None and all(s.density == 0 for s in shapes):
        fail(who, "its shapes weigh nothing", "give a mass or a positive density")


SMALLEST_INERTIA = 1e-27
"""[kg m²] of the smallest length and density there may be"""


def _check_inertia(who: str, inertia) -> None:
    I = as_numbers(inertia)
    if I.shape not in ((3,), (3, 3)) or not np.all(np.abs(I) <= LARGEST):
        fail(who, f"inertia is {inertia!r}", "give (3,) or (3, 3) numbers in kg m²")
    I = np.diag(I) if I.ndim == 1 else I
    if np.abs(I - I.T).max() > 1e-9 * np.abs(I).max():
        fail(who, "inertia is not symmetric", "give a symmetric matrix")
    a, b, c = np.linalg.eigvalsh(I)
    if a < SMALLEST_INERTIA:
        fail(who, f"inertia has the principal value {a:.3g}", "all three must be positive")
    if a + b < c * (1 - 1e-6):
        fail(
            who,
            f"inertia breaks the triangle inequality: {a:.3g} + {b:.3g} < {c:.3g}",
            "no mass distribution has it; make the two smaller values add up to the largest at least",
        )
