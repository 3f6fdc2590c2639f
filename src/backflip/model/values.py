"""Numbers and names as people give them: what is refused, and in which words."""

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from backflip.geometry.shape import as_numbers
from backflip.model.names import unknown
from backflip.model.notes import rotation_matrix

LARGEST, SMALLEST = 1e12, 1e-12
"""Numbers beyond these are refused, and positive ones below: their squares and products leave float32."""
DENSEST, THINNEST = 1e6, 1e-3
"""[kg/m³]"""


def fail(who: str, what: str, remedy: str) -> NoReturn:
    """Say who is at fault, what is wrong and what to do."""
    raise ValueError(f"{who}: {what}; {remedy}")


def check_names(kind: str, names: list[str], reserved: Iterable[str] = ()) -> None:
    """Names are non-empty strings, each used once."""
    for name in names:
        if not isinstance(name, str) or not name:
            fail(f"{kind} {name!r}", "a name must be a non-empty string", 'give one such as "knee"')
        if name in reserved:
            fail(f'{kind} "{name}"', "this name is taken by the surroundings", "choose another name")
        if sum(isinstance(other, str) and other == name for other in names) > 1:
            fail(f'{kind} "{name}"', "the name is used twice", "give every one its own name (name=...)")


def check_known(who: str, what: str, name: object, known: Iterable[str]) -> None:
    """The name is among those known."""
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"{who}: {unknown(what, name, sorted(known))}")


def check_choice(who: str, what: str, value: object) -> None:
    """Yes or no."""
    if not isinstance(value, bool | np.bool_):
        fail(who, f"{what} is {value!r}", "give True or False")


def check_vector(who: str, what: str, value: object, length: int = 3) -> np.ndarray:
    """`length` finite numbers."""
    v = as_numbers(value)
    if v.shape != (length,) or not np.all(np.abs(v) <= LARGEST):
        fail(who, f"{what} is {value!r}", f"give {length} finite numbers, none beyond {LARGEST:g}")
    return v


def check_number(who: str, what: str, value: object, remedy: str = "give a finite number") -> float:
    """One finite number."""
    v = as_numbers(value)
    if v.shape != () or not np.isfinite(v):
        fail(who, f"{what} is {value!r}", remedy)
    if abs(v) > LARGEST:
        fail(who, f"{what} is {value!r}", f"{remedy}, at most {LARGEST:g}")
    return float(v)


def check_positive(
    who: str, what: str, value: object, remedy: str, *, smallest: float = SMALLEST, largest: float = LARGEST
) -> float:
    """One positive number that float32 can work with."""
    v = check_number(who, what, value, remedy)
    if not v > 0:
        fail(who, f"{what} is {value}", remedy)
    if not smallest <= v <= largest:
        fail(who, f"{what} is {value}", f"{remedy}, from {smallest:g} to {largest:g}")
    return v


def check_density(who: str, value: object) -> float:
    """A density that is not 0."""
    remedy = "give a positive density in kg/m³"
    return check_positive(who, "density", value, remedy, smallest=THINNEST, largest=DENSEST)


def check_not_negative(who: str, what: str, value: object) -> float:
    """One number that is zero or positive."""
    remedy = "give a finite number that is not negative"
    v = check_number(who, what, value, remedy)
    if not v >= 0:
        fail(who, f"{what} is {value}", remedy)
    return v


def check_rotation(who: str, rotation) -> None:
    """None, a rotation matrix (3, 3), or a rotation vector (3,)."""
    if rotation is None:
        return
    r = as_numbers(rotation)
    if r.shape not in ((3,), (3, 3)) or not np.all(np.abs(r) <= LARGEST):
        fail(who, f"rotation is {rotation!r}", "give a matrix (3, 3) or a rotation vector (3,) in rad")
    R = rotation_matrix(r)
    if np.abs(R.T @ R - np.eye(3)).max() > 1e-5 or np.linalg.det(R) < 0:
        fail(who, "rotation is not a rotation matrix", "make its columns orthonormal and right-handed")
