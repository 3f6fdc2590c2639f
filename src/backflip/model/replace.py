"""Reading and changing the leaves of a Model or a State by name."""

import dataclasses
from collections.abc import Mapping
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.model.check_model import check
from backflip.model.expect import expect_state
from backflip.model.facts import Topology
from backflip.model.fields import FIELDS, STATE_FIELDS, Field, expect_model, field_of, leaf_shapes, place_of
from backflip.model.model import Model, State
from backflip.model.names import index_of


@overload
def replace(model: Model, /, **changes: Any) -> Model: ...
@overload
def replace(model: Model, state: State, /, **changes: Any) -> State: ...
def replace(model: Model, state: State | None = None, /, **changes: Any) -> Model | State:
    """A Model, or a State of it, with some numbers changed: `replace(model, mass={"pole": m})`.

    A field is changed for the names given, `replace(model, state, v_WB={"pole": (1.0, 0.0, 0.0)})`, or
    whole, `replace(model, gravity=g)`. Names are those of bodies for `mass`, of shapes for `friction`, `size`
    and `vertices` (corners of a hull), of joints for `stiffness`, `lower` and `upper` (limits), of servos for
    `gain`, of body forces for `direction`; `sensors={"IMU(torso)": {"position": p}}` for sensors. It works
    under jit, vmap and grad. A name for which a field has no effect is refused, such as the friction of a
    shape that was described without.
    """
    if state is not None:
        expect_state("replace", model, state)
        of_state = {name: _state_leaf(model, state, name, value) for name, value in changes.items()}
        if model.topology.planar:
            _check_planar(of_state)
        return dataclasses.replace(state, **of_state)
    expect_model("replace", model)
    leaves: dict[str, Any] = {
        name: _sensor_leaves(model, value) if name == "sensors" else _model_leaf(model, name, value)
        for name, value in changes.items()
    }
    changed = dataclasses.replace(model, **leaves)
    check(changed)
    return changed


def get(model: Model, field: str, name: str) -> Array:
    """The part of a leaf that belongs to a name, as replace() sets it: `get(model, "mass", "pole")`."""
    expect_model("get", model)
    of = field_of("get", FIELDS, field).of
    try:
        at = place_of(model.topology, name, field, of)
    except ValueError as error:
        raise ValueError(f"get: {error}") from None
    value = getattr(model, field)[at]
    return _measured(model.topology, field, name, value)


def _measured(facts: Topology, field: str, name: str, value: Array) -> Array:
    """Of a size, the numbers the shape uses: () of a sphere, (2,) of a capsule."""
    if field != "size":
        return value
    count = facts.shapes[facts.shape(name)].kind.measures
    return value[0] if count == 1 else value[:count]


def _model_leaf(model: Model, name: str, value: Any) -> Array:
    entry, leaf = field_of("replace", FIELDS, name), getattr(model, name)
    if not isinstance(value, Mapping):
        return _fitted(name, value, leaf_shapes(model.topology)[name], leaf.dtype)
    for key in value:
        try:
            place_of(model.topology, key, name, entry.of)
            _refuse_what_has_no_effect(model.topology, name, key)
        except ValueError as error:
            raise ValueError(f"replace: {name}: {error}") from None
    if name == "size":
        value = {key: _padded(model.topology, key, part, leaf.dtype) for key, part in value.items()}
    return _put(model.topology, name, entry, leaf, value)


def _state_leaf(model: Model, state: State, name: str, value: Any) -> Array:
    entry, leaf = field_of("replace", STATE_FIELDS | {"force": Field("row")}, name), getattr(state, name)
    if not isinstance(value, Mapping):
        return _fitted(name, value, leaf.shape, leaf.dtype)
    return _put(model.topology, name, entry, leaf, value)


def _check_planar(changes: Mapping[str, Array]) -> None:
    """Refuse velocities, where they are known, that leave the plane of a planar model."""
    for name, out in (("v_WB", [1]), ("w_WB", [0, 2])):
        value = changes.get(name)
        if value is not None and not isinstance(value, jax.core.Tracer) and np.any(np.asarray(value)[:, out]):
            remedy = "give (vx, 0, vz)" if name == "v_WB" else "give (0, wy, 0)"
            raise ValueError(f"replace: {name} leaves the plane of a planar model; {remedy}")


def _put(facts: Topology, name: str, entry: Field, leaf: Array, values: Mapping[str, Any]) -> Array:
    """The leaf with the entries of these names set, all at once."""
    index, parts = [], []
    for key, value in values.items():
        try:
            at = place_of(facts, key, name, entry.of)
        except ValueError as error:
            raise ValueError(f"replace: {name}: {error}") from None
        rows = np.arange(leaf.shape[0])[at]
        part = _fitted(f'{name} of "{key}"', value, (*rows.shape, *entry.each), leaf.dtype)
        index.append(np.atleast_1d(rows))
        parts.append(part.reshape(-1, *entry.each))
    return leaf.at[np.concatenate(index)].set(jnp.concatenate(parts)) if parts else leaf


def _padded(facts: Topology, shape: str, value: Any, dtype: Any) -> Array:
    """The three numbers of a size from those that the shape uses: () for a sphere, (2,) for a capsule."""
    count = facts.shapes[facts.shape(shape)].kind.measures
    own = _fitted(f'size of "{shape}"', value, () if count == 1 else (count,), dtype)
    return jnp.pad(jnp.atleast_1d(own), (0, 3 - count))


def _sensor_leaves(model: Model, changes: Any) -> tuple[dict[str, Array], ...]:
    if not isinstance(changes, Mapping) or not all(isinstance(x, Mapping) for x in changes.values()):
        raise ValueError(
            'replace: sensors: give them by name, such as {"IMU(torso)": {"position": (0, 0, 0.1)}}'
        )
    leaves = [dict(one) for one in model.sensors]
    for key, parts in changes.items():
        own = leaves[index_of("sensor", key, model.topology.sensor_names)]
        for name, value in parts.items():
            index_of(f"leaf of sensor {key}", name, list(own))
            own[name] = _fitted(f"{name} of sensor {key}", value, own[name].shape, own[name].dtype)
    return tuple(leaves)


def _fitted(who: str, value: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """The value as an array of this shape, or an error with both shapes."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError):
        raise ValueError(f"replace: {who} is {value!r}; give {shape or 'one'} numbers") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"replace: {who} is {value!r}; give real numbers")
    if array.shape != shape:
        raise ValueError(
            f"replace: {who} has shape {array.shape} but needs {shape}; for a batch wrap the call in jax.vmap"
        )
    return array.astype(dtype)


def _refuse_what_has_no_effect(facts: Topology, field: str, name: str) -> None:
    """Leaves that nothing reads for this name."""
    refuse = {
        "mass": _own_mass, "inertia": _own_mass, "density": _weighing,
        "position": _root, "rotation": _root,
        "friction": _material, "restitution": _material,
        "stiffness": _sprung, "damping": _sprung, "neutral": _sprung, "ball_damping": _turning,
        "lower": _limited, "upper": _limited, "frequency": _soft, "damping_ratio": _soft,
        "point": _pushing,
    }.get(field)  # fmt: skip
    if refuse is not None:
        refuse(facts, field, name)


def _own_mass(facts: Topology, field: str, name: str) -> None:
    given = facts.mass_given if field == "mass" else facts.inertia_given
    if not given[facts.body(name)]:
        source = "the density of its shapes" if field == "mass" else "its shapes"
        raise ValueError(
            f'body "{name}" has its {field} from {source}; change these, or give add_body({field}=...)'
        )


def _weighing(facts: Topology, field: str, name: str) -> None:
    body = facts.shapes[facts.shape(name)].body
    if body < 0 or facts.mass_given[body]:
        owner = "the world" if body < 0 else f'body "{facts.bodies[body]}", whose mass is given'
        raise ValueError(f'shape "{name}" is on {owner}: its density counts for nothing')


def _root(facts: Topology, field: str, name: str) -> None:
    body = facts.body(name)
    hung = {
        b: j for group in facts.groups if group.kind for b, j in zip(group.bodies, group.joints, strict=True)
    }
    if body in hung:
        joint = facts.joints[hung[body]].name
        raise ValueError(
            f'body "{name}" is placed by its joint "{joint}"; change p_AJ, p_BJ, R_AJ or R_BJ of that, '
            "or give rest() other positions"
        )


def _material(facts: Topology, field: str, name: str) -> None:
    if not getattr(facts.shapes[facts.shape(name)], f"{field}_given"):
        raise ValueError(
            f'shape "{name}" was described without {field}, so that of what it touches counts; '
            f"give it {field}=... when it is added"
        )


def _sprung(facts: Topology, field: str, name: str) -> None:
    joint = facts.joints[facts.joint(name)]
    if joint.role != "tree":
        raise ValueError(
            f'joint "{name}" {"is soft" if joint.role == "soft" else "closes a loop"} and has no springs'
        )


def _turning(facts: Topology, field: str, name: str) -> None:
    kind = facts.joints[facts.joint(name)].kind
    if kind.units:
        raise ValueError(f'joint "{name}" is a {kind.name}; change its damping')
    if not kind.freedoms:
        raise ValueError(f'joint "{name}" is {kind.name} and does not turn')
    _sprung(facts, field, name)


def _limited(facts: Topology, field: str, name: str) -> None:
    if not any(facts.joints[facts.joint(name)].limited):
        raise ValueError(f'joint "{name}" has no limits to change; give limits=... when it is added')


def _soft(facts: Topology, field: str, name: str) -> None:
    if facts.joints[facts.joint(name)].role != "soft":
        raise ValueError(f'joint "{name}" is rigid; give frequency=... when it is added')


def _pushing(facts: Topology, field: str, name: str) -> None:
    if facts.actuators[facts.actuator(name)].kind == "torque":
        raise ValueError(f'torque "{name}" acts on all of its body; it has no point')
