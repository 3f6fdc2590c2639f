"""From a checked description to arrays: joint frames, materials, the spanning tree, contact pairs."""

from dataclasses import replace
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np

from backflip.geometry import kind_order
from backflip.model.builder import WORLD_NAME, Description, JointNote, Numbers
from backflip.model.facts import WORLD, ActuatorFact, JointFact, ShapeFact, Topology
from backflip.model.model import Model
from backflip.model.sensors import IMU, Distance, Sensor

DEFAULT_DENSITY = 1000.0
"""[kg/m³] water: about what people, wood and robots average"""
DEFAULT_FRICTION = 1.0
DEFAULT_RESTITUTION = 0.0


def pack(said: Description) -> Model:
    """The Model of a description that passed check()."""
    topology = _topology(said)
    leaves = (
        _world_leaves(said)
        | _body_leaves(said)
        | _shape_leaves(said)
        | _joint_leaves(said)
        | _actuator_leaves(said)
    )
    dtype = jnp.result_type(float)
    # jnp.asarray would compile a copy for every shape, device_put may keep the very array it is given
    arrays = jax.device_put({name: np.array(value, dtype) for name, value in leaves.items()})
    return Model(**arrays, topology=topology)


def rotation_matrix(rotation: Numbers | None) -> np.ndarray:
    """R (3, 3) from None, a matrix, or a rotation vector (3,) [rad] by Rodrigues' formula."""
    if rotation is None:
        return np.eye(3)
    r = np.asarray(rotation, float)
    if r.shape == (3, 3):
        return r
    angle = np.linalg.norm(r)
    x, y, z = r / angle if angle > 0 else r
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def _body_index(said: Description) -> dict[str, int]:
    return {WORLD_NAME: WORLD} | {b.name: i for i, b in enumerate(said.bodies)}


def _rows(items, width: int) -> np.ndarray:
    return np.array([np.asarray(i, float) for i in items]).reshape(-1, width)


def _world_leaves(said: Description) -> dict:
    places = [(s.position if isinstance(s, IMU | Distance) else np.zeros(3)) for s in said.sensors]
    targets = [(s.target if isinstance(s, Distance) else np.zeros(3)) for s in said.sensors]
    return {
        "gravity": said.gravity,
        "sensor_point": _rows(places, 3),
        "sensor_target": _rows(targets, 3),
    }


def _body_leaves(said: Description) -> dict:
    def inertia(given) -> np.ndarray:
        I = np.zeros(3) if given is None else np.asarray(given, float)
        return np.diag(I) if I.ndim == 1 else I

    return {
        "mass": np.array([b.mass or 0.0 for b in said.bodies]),
        "inertia": _rows([inertia(b.inertia) for b in said.bodies], 9).reshape(-1, 3, 3),
        "position": _rows([b.position for b in said.bodies], 3),
        "rotation": _rows([rotation_matrix(b.rotation) for b in said.bodies], 9).reshape(-1, 3, 3),
        "velocity": _rows([b.velocity for b in said.bodies], 3),
        "spin": _rows([b.spin for b in said.bodies], 3),
    }


def _shape_leaves(said: Description) -> dict:
    bodies = {b.name: b for b in said.bodies}

    def density(note) -> float:
        body = bodies.get(note.body)
        if body is None or body.mass is not None:
            return 0.0
        given = note.density if note.density is not None else body.density
        return DEFAULT_DENSITY if given is None else given

    def given(value, default):
        return default if value is None else value

    return {
        "size": _rows([s.shape.pack() for s in said.shapes], 3),
        "vertices": _rows([v for s in said.shapes for v in s.shape.vertices], 3),
        "p_BS": _rows([s.position for s in said.shapes], 3),
        "R_BS": _rows([rotation_matrix(s.rotation) for s in said.shapes], 9).reshape(-1, 3, 3),
        "density": np.array([density(s) for s in said.shapes]),
        "friction": np.array([given(s.friction, DEFAULT_FRICTION) for s in said.shapes]),
        "restitution": np.array([given(s.restitution, DEFAULT_RESTITUTION) for s in said.shapes]),
    }


def _joint_leaves(said: Description) -> dict:
    pose = {WORLD_NAME: (np.zeros(3), np.eye(3))} | {
        b.name: (np.asarray(b.position, float), rotation_matrix(b.rotation)) for b in said.bodies
    }

    def on(body: str, p_WJ: np.ndarray, R_WJ: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, R = pose[body]
        return R.T @ (p_WJ - p), R.T @ R_WJ

    frames = []
    for note in said.joints:
        p_WJ = np.asarray(pose[note.child][0] if note.position is None else note.position, float)
        R_WJ = _joint_frame(note)
        frames.append((*on(note.parent, p_WJ, R_WJ), *on(note.child, p_WJ, R_WJ)))
    p_AJ, R_AJ, p_BJ, R_BJ = zip(*frames, strict=True) if frames else ((), (), (), ())
    limits = [limit or (0.0, 0.0) for note in said.joints for limit in note.limits]
    return {
        "p_AJ": _rows(p_AJ, 3),
        "R_AJ": _rows(R_AJ, 9).reshape(-1, 3, 3),
        "p_BJ": _rows(p_BJ, 3),
        "R_BJ": _rows(R_BJ, 9).reshape(-1, 3, 3),
        "stiffness": np.array([k for note in said.joints for k in note.stiffness]),
        "damping": np.array([k for note in said.joints for k in note.damping]),
        "neutral": np.array([k for note in said.joints for k in note.neutral]),
        "lower": np.array([lo for lo, _ in limits]),
        "upper": np.array([hi for _, hi in limits]),
        "ball_damping": np.array([note.ball_damping for note in said.joints]),
        "frequency": np.array([note.frequency or 0.0 for note in said.joints]),
        "damping_ratio": np.array([note.damping_ratio for note in said.joints]),
    }


def _joint_frame(note: JointNote) -> np.ndarray:
    """R_WJ with z along the first axis and x along the second, or any x at right angles to z."""
    if not note.axes:
        return np.eye(3)
    z = np.asarray(note.axes[0], float)
    z = z / np.linalg.norm(z)
    x = np.asarray(note.axes[1], float) if len(note.axes) > 1 else np.eye(3)[np.argmin(np.abs(z))]
    x = x - z * (z @ x)
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], 1)


def _actuator_leaves(said: Description) -> dict:
    servos = [a for a in said.actuators if a.kind == "servo"]
    on_body = [a for a in said.actuators if a.kind in ("force", "torque")]
    return {
        "gain": np.array([a.gain for a in servos]),
        "max_velocity": np.array([a.max_velocity for a in servos]),
        "max_torque": np.array([a.max_torque for a in servos]),
        "direction": _rows([a.direction for a in on_body], 3),
        "point": _rows([a.point for a in on_body], 3),
    }


def _topology(said: Description) -> Topology:
    index = _body_index(said)
    roles = _roles(said)
    joints = tuple(
        JointFact(
            note.name,
            note.kind,
            index[note.parent],
            index[note.child],
            role,
            tuple(limit is not None for limit in note.limits),
        )
        for note, role in zip(said.joints, roles, strict=True)
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
        for s in said.shapes
    )
    return Topology(
        bodies=tuple(b.name for b in said.bodies),
        joints=joints,
        shapes=shapes,
        pairs=_pairs(said, joints, shapes),
        actuators=tuple(ActuatorFact(a.name, a.kind, _driven(said, joints, a)) for a in said.actuators),
        sensors=tuple(_hashable(s) for s in said.sensors),
        planar=said.planar,
        inertia_given=tuple(b.inertia is not None for b in said.bodies),
    )


def _hashable(sensor: Sensor) -> Sensor:
    """The same sensor with its vectors as tuples."""
    vectors = {k: tuple(map(float, v)) for k, v in vars(sensor).items() if k in ("position", "target")}
    return replace(sensor, **vectors)  # type: ignore[arg-type]


def _driven(said: Description, joints: tuple[JointFact, ...], note) -> int:
    """Index of what an actuator acts on: a body, or a coordinate of a joint."""
    if note.kind in ("force", "torque"):
        return _body_index(said)[note.target]
    place = [j.name for j in joints].index(note.target)
    return sum(len(j.kind.units) for j in joints[:place]) + note.axis


def _roles(said: Description) -> list[str]:
    """Which joints form the tree: rigid ones that do not close a loop, in the order they were added."""
    island = {name: name for name in _body_index(said)}

    def root(name: str) -> str:
        return name if island[name] == name else root(island[name])

    roles = []
    for note in said.joints:
        a, b = root(note.parent), root(note.child)
        if note.frequency is not None:
            roles.append("soft")
        elif a == b:
            roles.append("loop")
        else:
            island[a] = b
            roles.append("tree")
    return roles


def _pairs(said: Description, joints, shapes: tuple[ShapeFact, ...]) -> tuple[tuple[int, int], ...]:
    """Shapes that may touch, ordered by kind so that equal kinds are worked on together."""
    index = _body_index(said)
    collide = {j.name: j.collide for j in said.joints}
    apart = {frozenset((j.a, j.b)) for j in joints if not collide[j.name]}
    apart |= {frozenset((index[a], index[b])) for a, b in said.apart}
    group = {index[b.name]: b.group for b in said.bodies}
    still = _still(joints)

    def may_touch(i: int, k: int) -> bool:
        a, b = shapes[i].body, shapes[k].body
        same_group = group.get(a) is not None and group.get(a) == group.get(b)
        return not (
            a == b
            or frozenset((a, b)) in apart
            or same_group
            or (a in still and b in still)
            or not (said.shapes[i].collide and said.shapes[k].collide)
        )

    def rank(i: int) -> tuple[int, str]:
        return kind_order(shapes[i].kind)

    found = [
        (i, k) if rank(i) <= rank(k) else (k, i)
        for i, k in combinations(range(len(shapes)), 2)
        if may_touch(i, k)
    ]
    return tuple(sorted(found, key=lambda pair: (rank(pair[0]), rank(pair[1]), pair)))


def _still(joints: tuple[JointFact, ...]) -> set[int]:
    """The world and whatever is welded to it."""
    still = {WORLD}
    welds = [{j.a, j.b} for j in joints if not j.kind.freedoms and j.role == "tree"]
    while any(w & still and not w <= still for w in welds):
        still |= set().union(*(w for w in welds if w & still))
    return still
