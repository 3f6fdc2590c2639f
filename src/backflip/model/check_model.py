"""Whether a Model still makes sense: for those changed leaf by leaf after they were built."""

from collections.abc import Callable

import jax
import numpy as np

from backflip.geometry import KINDS, Shape
from backflip.model.fields import FIELDS, expect_model
from backflip.model.model import Model
from backflip.model.slender import check_slender
from backflip.model.values import fail

NOT_NEGATIVE = ("density", "friction", "stiffness", "damping", "ball_damping", "damping_ratio", "frequency")
POSITIVE = ("gain", "max_velocity", "max_torque")
ROTATIONS = ("rotation", "R_BS", "R_AJ", "R_BJ")
ROUNDING = 1e-4
"""By how much a matrix may miss a rotation, or a number its bound, in float32."""


def check(model: Model) -> None:
    """Raise ValueError for a Model that build() would not have made: wrong shapes, NaN, negative masses.

    Changes by `equinox.tree_at` and optimisers are not looked at when they are made; this looks at all of
    them. Under jit, vmap and grad, where numbers are not known yet, only shapes and precision are checked.
    """
    expect_model("check", model)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(model)):
        return
    leaves = {name: np.asarray(getattr(model, name), float) for name in FIELDS}
    for name, leaf in leaves.items():
        _demand(model, name, np.isfinite(leaf), leaf, "give finite numbers")
    for sensor, own in zip(model.topology.sensor_names, model.sensors, strict=True):
        for name, value in own.items():
            if not np.all(np.isfinite(value)):
                fail("check", f"{name} of sensor {sensor} is {value}", "give finite numbers")
    for name in NOT_NEGATIVE:
        _demand(model, name, leaves[name] >= 0, leaves[name], "give numbers that are not negative")
    for name in POSITIVE:
        _demand(model, name, leaves[name] > 0, leaves[name], "give positive numbers")
    for name in ROTATIONS:
        _demand(model, name, _rotates(leaves[name])[:, None, None], leaves[name], "give rotation matrices")
    _check_bodies(model, leaves)
    _check_shapes(model, leaves)
    _check_joints(model, leaves)
    check_slender(model)


def _check_bodies(model: Model, leaves: dict[str, np.ndarray]) -> None:
    facts, mass = model.topology, leaves["mass"]
    given = np.array(facts.mass_given)
    _demand(model, "mass", ~given | (mass > 0), mass, "give positive masses in kg")
    _demand(model, "mass", given | (mass == 0), mass, "its mass comes from densities: change these instead")
    weighs = {s.body for i, s in enumerate(facts.shapes) if leaves["density"][i] > 0}
    dense = np.array([b in weighs for b in range(len(mass))])
    _demand(model, "mass", given | dense, mass, "give one of its shapes a positive density")
    for b, name in enumerate(facts.bodies):
        if facts.inertia_given[b]:
            _check_inertia(name, leaves["inertia"][b])


def _check_inertia(body: str, I: np.ndarray) -> None:
    who = f'model.inertia of body "{body}"'
    if np.abs(I - I.T).max() > ROUNDING * np.abs(I).max():
        fail(who, "it is not symmetric", "give a symmetric matrix")
    a, b, c = np.linalg.eigvalsh(I)
    if a <= 0 or a + b < c * (1 - ROUNDING):
        fail(who, f"principal values {a:.3g}, {b:.3g}, {c:.3g}", "no mass distribution has these")


def _check_shapes(model: Model, leaves: dict[str, np.ndarray]) -> None:
    lengths = [s.kind.measures if _has_lengths(s.kind) else 0 for s in model.topology.shapes]
    used = np.arange(3) < np.array(lengths, int)[:, None]
    _demand(model, "size", ~used | (leaves["size"] > 0), leaves["size"], "give positive lengths in metres")
    e = leaves["restitution"]
    _demand(model, "restitution", (e >= 0) & (e <= 1 + ROUNDING), e, "give numbers from 0 to 1")


def _has_lengths(kind: type[Shape]) -> bool:
    """Whether all its numbers are lengths; those of a shape that has its own check may be anything finite."""
    return kind in KINDS or kind.check is Shape.check


def _check_joints(model: Model, leaves: dict[str, np.ndarray]) -> None:
    lower, frequency = leaves["lower"], leaves["frequency"]
    _demand(model, "lower", lower <= leaves["upper"], lower, "it is above upper: swap them")
    soft = np.array([j.role == "soft" for j in model.topology.joints], bool)
    _demand(model, "frequency", ~soft | (frequency > 0), frequency, "give a positive one in Hz")


def _rotates(R: np.ndarray) -> np.ndarray:
    """Which of the matrices (k, 3, 3) are rotations."""
    off = np.abs(np.swapaxes(R, 1, 2) @ R - np.eye(3)).max((1, 2), initial=0)
    return (off < ROUNDING) & (np.linalg.det(R) > 0)


def _demand(model: Model, field: str, good: np.ndarray, leaf: np.ndarray, remedy: str) -> None:
    """Name the first entry of a leaf that is not good."""
    bad = ~np.broadcast_to(good, leaf.shape)
    if not bad.any():
        return
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    fail("check", f"model.{field}{_owner(model, field, first[0])} is {leaf[first]:.6g}", remedy)


def _owner(model: Model, field: str, i: int) -> str:
    """Whose entry it is."""
    facts = model.topology
    names: dict[str, Callable[[], str]] = {
        "body": lambda: f'body "{facts.bodies[i]}"',
        "shape": lambda: f'shape "{facts.shapes[i].name}"',
        "joint": lambda: f'joint "{facts.joints[i].name}"',
        "coordinate": lambda: f'joint "{facts.joints[facts.coordinates[i][0]].name}"',
        "servo": lambda: f'servo "{facts.actuators[facts.of_kind("servo")[i]].name}"',
    }
    of = FIELDS[field].of
    return f" of {names[of]()}" if of in names else f"[{i}]"
