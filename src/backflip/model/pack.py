"""From a checked description to arrays: joint frames, materials, the spanning tree, contact pairs."""

from dataclasses import fields, replace
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from backflip.geometry import kind_order
from backflip.model.facts import WORLD, ActuatorFact, JointFact, ShapeFact, Topology
from backflip.model.model import Model
from backflip.model.notes import WORLD_NAME, Description, JointNote, rotation_matrix
from backflip.model.sensor import Sensor

DEFAULT_DENSITY = 1000.0
"""[kg/m³] water: about what people, wood and robots average"""
DEFAULT_FRICTION = 1.0
DEFAULT_RESTITUTION = 0.0


def pack(description: Description, topology: Topology) -> Model:
    """The Model of a description that passed its checks."""
    leaves = (
        {"gravity": description.gravity}
        | _body_leaves(description)
        | _shape_leaves(description)
        | _joint_leaves(description)
        | _actuator_leaves(description)
    )
    dtype = jnp.result_type(float)
    # jnp.asarray would compile a copy for every shape, device_put may keep the very array it is given
    arrays = jax.device_put({name: np.array(value, dtype) for name, value in leaves.items()})
    sensors = tuple({k: np.array(x, dtype) for k, x in s.leaves().items()} for s in topology.sensors)
    return Model(**arrays, sensors=jax.device_put(sensors), topology=topology)


def _body_index(description: Description) -> dict[str, int]:
    return {WORLD_NAME: WORLD} | {b.name: i for i, b in enumerate(description.bodies)}


def _rows(items, width: int) -> np.ndarray:
    return np.array([np.asarray(i, float) for i in items]).reshape(-1, width)


def _given(value, default):
    return default if value is None else value


def _body_leaves(description: Description) -> dict:
    def inertia(given) -> np.ndarray:
        I = np.zeros(3) if given is None else np.asarray(given, float)
        return np.diag(I) if I.ndim == 1 else I

    return {
        "mass": np.array([_given(b.mass, 0.0) for b in description.bodies]),
        "inertia": _rows([inertia(b.inertia) for b in description.bodies], 9).reshape(-1, 3, 3),
        "position": _rows([b.position for b in description.bodies], 3),
        "rotation": _rows([rotation_matrix(b.rotation) for b in description.bodies], 9).reshape(-1, 3, 3),
        "velocity": _rows([b.velocity for b in description.bodies], 3),
        "spin": _rows([b.spin for b in description.bodies], 3),
    }


def _shape_leaves(description: Description) -> dict:
    bodies = {b.name: b for b in description.bodies}

    def density(note) -> float:
        body = bodies.get(note.body)
        if body is None or body.mass is not None:
            return 0.0
        return _given(_given(note.density, body.density), DEFAULT_DENSITY)

    return {
        "size": _rows([s.shape.pack() for s in description.shapes], 3),
        "vertices": _rows([v for s in description.shapes for v in s.shape.vertices], 3),
        "p_BS": _rows([s.position for s in description.shapes], 3),
        "R_BS": _rows([rotation_matrix(s.rotation) for s in description.shapes], 9).reshape(-1, 3, 3),
        "density": np.array([density(s) for s in description.shapes]),
        "friction": np.array([_given(s.friction, DEFAULT_FRICTION) for s in description.shapes]),
        "restitution": np.array([_given(s.restitution, DEFAULT_RESTITUTION) for s in description.shapes]),
    }


def _joint_leaves(description: Description) -> dict:
    pose = {WORLD_NAME: (np.zeros(3), np.eye(3))} | {
        b.name: (np.asarray(b.position, float), rotation_matrix(b.rotation)) for b in description.bodies
    }

    def on(body: str, p_WJ: np.ndarray, R_WJ: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, R = pose[body]
        return R.T @ (p_WJ - p), R.T @ R_WJ

    frames = []
    for note in description.joints:
        p_WJ = np.asarray(pose[note.child][0] if note.position is None else note.position, float)
        R_WJ = joint_frame(note)
        frames.append((*on(note.parent, p_WJ, R_WJ), *on(note.child, p_WJ, R_WJ)))
    p_AJ, R_AJ, p_BJ, R_BJ = zip(*frames, strict=True) if frames else ((), (), (), ())
    limits = [_given(limit, (0.0, 0.0)) for note in description.joints for limit in note.limits]
    return {
        "p_AJ": _rows(p_AJ, 3),
        "R_AJ": _rows(R_AJ, 9).reshape(-1, 3, 3),
        "p_BJ": _rows(p_BJ, 3),
        "R_BJ": _rows(R_BJ, 9).reshape(-1, 3, 3),
        "stiffness": np.array([k for note in description.joints for k in note.stiffness]),
        "damping": np.array([k for note in description.joints for k in note.damping]),
        "neutral": np.array([k for note in description.joints for k in note.neutral]),
        "lower": np.array([lo for lo, _ in limits]),
        "upper": np.array([hi for _, hi in limits]),
        "ball_damping": np.array([note.ball_damping for note in description.joints]),
        "frequency": np.array([_given(note.frequency, 0.0) for note in description.joints]),
        "damping_ratio": np.array([note.damping_ratio for note in description.joints]),
    }


def joint_frame(note: JointNote) -> np.ndarray:
    """R_WJ with z along the first axis and x along the second, or any x at right angles to z."""
    if not note.axes:
        return np.eye(3)
    z = np.asarray(note.axes[0], float)
    z = z / np.linalg.norm(z)
    x = np.asarray(note.axes[1], float) if len(note.axes) > 1 else np.eye(3)[np.argmin(np.abs(z))]
    x = x - z * (z @ x)
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], 1)


def _actuator_leaves(description: Description) -> dict:
    servos = [a for a in description.actuators if a.kind == "servo"]
    on_body = [a for a in description.actuators if a.kind in ("force", "torque")]
    return {
        "gain": np.array([a.gain for a in servos]),
        "max_velocity": np.array([a.max_velocity for a in servos]),
        "max_torque": np.array([a.max_torque for a in servos]),
        "direction": _rows([a.direction for a in on_body], 3),
        "point": _rows([a.point for a in on_body], 3),
    }


def topology_of(description: Description) -> Topology:
    """Names, kinds, the tree and the pairs that may touch."""
    index = _body_index(description)
    roles = joint_roles(description)
    joints = tuple(
        JointFact(
            note.name,
            note.kind,
            index[note.parent],
            index[note.child],
            role,
            tuple(limit is not None for limit in note.limits),
        )
        for note, role in zip(description.joints, roles, strict=True)
    )
    shapes = tuple(
        ShapeFact(
            s.name,
            type(s.shape),
            index[s.body],
            s.friction is not None,
            s.restitution is not None,
            s.shape.outline,
        )
        for s in description.shapes
    )
    return Topology(
        bodies=tuple(b.name for b in description.bodies),
        joints=joints,
        shapes=shapes,
        pairs=_pairs(description, joints, shapes),
        actuators=tuple(
            ActuatorFact(a.name, a.kind, _driven(description, joints, a)) for a in description.actuators
        ),
        sensors=tuple(_hashable(s) for s in description.sensors),
        planar=description.planar,
        mass_given=tuple(b.mass is not None for b in description.bodies),
        inertia_given=tuple(b.inertia is not None for b in description.bodies),
    )


def _hashable(sensor: Sensor) -> Sensor:
    """The same sensor with its vectors as tuples."""
    vectors = {f.name: _as_tuple(getattr(sensor, f.name)) for f in fields(sensor)}
    changed = {name: value for name, value in vectors.items() if value is not getattr(sensor, name)}
    return replace(sensor, **changed) if changed else sensor


def _as_tuple(value: Any) -> Any:
    plain = value.tolist() if isinstance(value, np.ndarray | jax.Array) else value
    return tuple(map(_as_tuple, plain)) if isinstance(plain, list | tuple) else plain


def _driven(description: Description, joints: tuple[JointFact, ...], note) -> int:
    """Index of what an actuator acts on: a body, or a coordinate of a joint."""
    if note.kind in ("force", "torque"):
        return _body_index(description)[note.target]
    place = [j.name for j in joints].index(note.target)
    return sum(len(j.kind.units) for j in joints[:place]) + note.axis


def joint_roles(description: Description) -> list[str]:
    """Which joints form the tree: rigid ones that do not close a loop, in the order they were added."""
    island = {name: name for name in _body_index(description)}

    def root(name: str) -> str:
        return name if island[name] == name else root(island[name])

    roles = []
    for note in description.joints:
        a, b = root(note.parent), root(note.child)
        if note.frequency is not None:
            roles.append("soft")
        elif a == b:
            roles.append("loop")
        else:
            island[a] = b
            roles.append("tree")
    return roles


def _pairs(description: Description, joints, shapes: tuple[ShapeFact, ...]) -> tuple[tuple[int, int], ...]:
    """Shapes that may touch, ordered by kind so that equal kinds are worked on together."""
    index = _body_index(description)
    collide = {j.name: j.collide for j in description.joints}
    apart = {frozenset((j.a, j.b)) for j in joints if not collide[j.name]}
    apart |= {frozenset((index[a], index[b])) for a, b in description.apart}
    group = {index[b.name]: b.group for b in description.bodies}
    still = _still(joints)

    def may_touch(i: int, k: int) -> bool:
        a, b = shapes[i].body, shapes[k].body
        same_group = group.get(a) is not None and group.get(a) == group.get(b)
        return not (
            a == b
            or frozenset((a, b)) in apart
            or same_group
            or (a in still and b in still)
            or not (description.shapes[i].collide and description.shapes[k].collide)
        )

    def rank(i: int) -> tuple[bool, int, str]:
        return kind_order(shapes[i].kind)

    pairs = [
        (i, k) if rank(i) <= rank(k) else (k, i)
        for i, k in combinations(range(len(shapes)), 2)
        if may_touch(i, k)
    ]
    return tuple(sorted(pairs, key=lambda pair: (rank(pair[0]), rank(pair[1]), pair)))


def _still(joints: tuple[JointFact, ...]) -> set[int]:
    """The world and whatever is welded to it."""
    still = {WORLD}
    welds = [{j.a, j.b} for j in joints if not j.kind.freedoms and j.role == "tree"]
    while any(w & still and not w <= still for w in welds):
        still |= set().union(*(w for w in welds if w & still))
    return still
