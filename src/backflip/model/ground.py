"""A body that hangs from the world does not touch the world's shapes: worth a warning where it could."""

import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from backflip.geometry import Shape, form_of
from backflip.model.notes import WORLD_NAME, BodyNote, Description, JointNote, ShapeNote, rotation_matrix
from backflip.model.pack import joint_frame

DEEP = 0.05
"""How far into the ground is worth a warning, as a part of the shape's size."""
SAMPLES = 25
"""Positions of a coordinate that are tried."""
FAR = 1e3
"""[m] as far as a coordinate without limits is thought to go"""


def warn_of_ignored_ground(description: Description) -> None:
    """Warn of bodies that are jointed to the world and can reach a ground that they pass through."""
    meant = {frozenset(pair) for pair in description.apart}
    bodies = {b.name: b for b in description.bodies}
    for joint in description.joints:
        if joint.parent != WORLD_NAME or joint.collide or frozenset((WORLD_NAME, joint.child)) in meant:
            continue
        for ground, shape in _solid_pairs(description, joint.child):
            depth = _reach(joint, bodies[joint.child], shape, ground)
            if depth > DEEP * _size(shape.shape):
                warnings.warn(
                    f'body "{joint.child}" hangs from the world by joint "{joint.name}" and so passes '
                    f'through "{ground.name}", which its shape "{shape.name}" can reach; give the joint '
                    "collide=True to let them touch, or, if this is meant, say "
                    f'ignore_contact("world", "{joint.child}")',
                    stacklevel=3,
                )
                break


def _solid_pairs(description: Description, body: str) -> Iterator[tuple[ShapeNote, ShapeNote]]:
    """Every ground, with every shape of a body, that could touch."""
    solid = [s for s in description.shapes if s.collide]
    for ground in solid:
        if ground.body == WORLD_NAME and ground.shape.endless:
            yield from ((ground, s) for s in solid if s.body == body)


def _reach(joint: JointNote, body: BodyNote, shape: ShapeNote, ground: ShapeNote) -> float:
    """How deep [m] a shape comes into the ground wherever its joint lets it, at most."""
    points, radius = _points(shape.shape)
    points = np.asarray(shape.position, float) + points @ rotation_matrix(shape.rotation).T
    points = np.asarray(body.position, float) + points @ rotation_matrix(body.rotation).T
    pivot = np.asarray(body.position if joint.position is None else joint.position, float)
    normal = rotation_matrix(ground.rotation)[:, 2]
    height = (pivot - np.asarray(ground.position, float)) @ normal
    return radius - height - _lowest(joint, points - pivot, normal)


def _lowest(joint: JointNote, points: np.ndarray, normal: np.ndarray) -> float:
    """The least n · p of points (k, 3) about the pivot, over all that the joint allows."""
    kind = joint.kind
    if not kind.freedoms:
        return float(np.min(points @ normal))
    if not kind.units:
        return -np.inf if kind.slides else -float(np.max(np.linalg.norm(points, axis=1)))
    R_WJ = joint_frame(joint)
    p, R = (np.asarray(x) for x in jax.jit(jax.vmap(kind.motion))(jnp.asarray(_positions(joint))))
    moved = p[:, None] + np.einsum("qij,kj->qki", R, points @ R_WJ)
    return float(np.min(moved @ (R_WJ.T @ normal)))


def _positions(joint: JointNote) -> np.ndarray:
    """(m, c) coordinates all over what the limits allow."""
    ranges = []
    for limit, unit in zip(joint.limits, joint.kind.units, strict=True):
        far = np.pi if unit == "rad" else FAR
        ranges.append(np.linspace(*((-far, far) if limit is None else limit), SAMPLES))
    return np.stack(np.meshgrid(*ranges), -1).reshape(-1, len(ranges))


def _points(shape: Shape) -> tuple[np.ndarray, float]:
    """Points (k, 3) and a radius [m] about them that hold a shape."""
    return shape.frame(form_of(shape))


def _size(shape: Shape) -> float:
    """The largest length [m] of a shape about its origin."""
    points, radius = _points(shape)
    return float(np.linalg.norm(points, axis=1).max() + radius)
