"""Which leaf of a Model belongs to what: its shape, and where the part of one name is."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from backflip.model.facts import Topology
from backflip.model.model import Model
from backflip.model.names import unknown


class Field(NamedTuple):
    """A leaf: one entry of shape `each` for every body, shape, joint, coordinate, ... of the model."""

    of: str
    each: tuple[int, ...] = ()


FIELDS: dict[str, Field] = {
    **dict.fromkeys(("mass",), Field("body")),
    **dict.fromkeys(("position", "velocity", "spin"), Field("body", (3,))),
    **dict.fromkeys(("inertia", "rotation"), Field("body", (3, 3))),
    **dict.fromkeys(("density", "friction", "restitution"), Field("shape")),
    **dict.fromkeys(("size", "p_BS"), Field("shape", (3,))),
    "R_BS": Field("shape", (3, 3)),
    "vertices": Field("corner", (3,)),
    **dict.fromkeys(("ball_damping", "frequency", "damping_ratio"), Field("joint")),
    **dict.fromkeys(("p_AJ", "p_BJ"), Field("joint", (3,))),
    **dict.fromkeys(("R_AJ", "R_BJ"), Field("joint", (3, 3))),
    **dict.fromkeys(("stiffness", "damping", "neutral", "lower", "upper"), Field("coordinate")),
    **dict.fromkeys(("gain", "max_velocity", "max_torque"), Field("servo")),
    **dict.fromkeys(("direction", "point"), Field("body force", (3,))),
    "gravity": Field("world", (3,)),
}
"""Every leaf of a Model but those of its sensors."""

STATE_FIELDS: dict[str, Field] = {
    **dict.fromkeys(("p_WB", "v_WB", "w_WB", "a_WB", "dw_WB"), Field("body", (3,))),
    "R_WB": Field("body", (3, 3)),
}
"""Leaves of a State that have an entry for every body."""


def counts(facts: Topology) -> dict[str, int]:
    """How many there are of each."""
    return {
        "body": len(facts.bodies),
        "shape": len(facts.shapes),
        "corner": facts.corners(len(facts.shapes)).start,
        "joint": len(facts.joints),
        "coordinate": len(facts.coordinates),
        "servo": len(facts.of_kind("servo")),
        "body force": len(facts.of_kind("force")) + len(facts.of_kind("torque")),
    }


def leaf_shapes(facts: Topology) -> dict[str, tuple[int, ...]]:
    """The shape of every leaf of a Model but those of its sensors."""
    count = counts(facts)
    return {name: (count[f.of], *f.each) if f.of in count else f.each for name, f in FIELDS.items()}


def place_of(facts: Topology, name: str, field: str, of: str) -> int | slice:
    """Where the part of a leaf is that belongs to a name."""
    if of == "corner":
        return facts.corners(facts.shape(name))
    if of == "coordinate":
        at = facts.coordinates_of(facts.joint(name))
        if at.start == at.stop:
            other = "; change its ball_damping" if field == "damping" else ""
            raise ValueError(f'joint "{name}" has no coordinates and so no {field}{other}')
        return at.start if at.stop == at.start + 1 else at
    find = {
        "body": facts.body, "shape": facts.shape, "joint": facts.joint,
        "servo": facts.servo, "body force": facts.body_force,
    }  # fmt: skip
    if of not in find:
        raise ValueError(f"{field} belongs to no name; give it whole")
    return find[of](name)


def a_kind(thing: object) -> str:
    """What something is, in words."""
    is_array = isinstance(thing, jax.Array | np.ndarray)
    return "an array" if is_array else f"a {type(thing).__name__}"


def expect_model(who: str, model: Model) -> None:
    """Refuse what is no Model, and one whose leaves have other shapes than its topology says."""
    if not isinstance(model, Model):
        remedy = "call its build()" if hasattr(model, "build") else "mind the order"
        raise TypeError(f"{who}: {a_kind(model)} was given where a Model belongs; {remedy}")
    for name, shape in leaf_shapes(model.topology).items():
        leaf = getattr(model, name)
        if np.shape(leaf) != shape:
            raise ValueError(
                f"{who}: model.{name} has shape {np.shape(leaf)} but this model needs {shape}; "
                "change leaves with replace(), and for a batch wrap the call in jax.vmap"
            )
        if not hasattr(leaf, "dtype") or not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(f"{who}: model.{name} is {_dtype_of(leaf)}; give an array of floats")
    expect_precision(who, "model", model)


def _dtype_of(leaf: object) -> str:
    return f"of dtype {leaf.dtype}" if hasattr(leaf, "dtype") else a_kind(leaf)


def expect_precision(who: str, what: str, tree: object) -> None:
    """Refuse float64 where JAX works in float32: it would make programs that do not run."""
    if jnp.result_type(float) != jnp.float64 and any(
        getattr(x, "dtype", None) == jnp.float64 and isinstance(x, jax.Array) for x in jax.tree.leaves(tree)
    ):
        raise ValueError(
            f"{who}: the {what} is in float64 but JAX now works in float32; "
            'switch jax.config.update("jax_enable_x64", True) on again, or build the model anew'
        )


def field_of(who: str, table: dict[str, Field], name: str) -> Field:
    """The entry of a table, or an error with the nearest name."""
    if name not in table:
        raise ValueError(f"{who}: {unknown('field', name, table)}")
    return table[name]
