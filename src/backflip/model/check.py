"""Everything a description can get wrong, said once and kindly: who is at fault and what to do."""

import warnings
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip import lanes
from backflip.geometry import Shape
from backflip.model.bodies import bodies_of, shape_poses
from backflip.model.builder import WORLD_NAME, BodyNote, Description, JointNote, ShapeNote
from backflip.model.facts import PairGroup
from backflip.model.joints import JointKind
from backflip.model.model import Model, State
from backflip.model.pack import rotation_matrix
from backflip.model.rest import rest
from backflip.model.sensors import ContactForce, JointAngle, JointRate, Sensor, ServoTorque

DEEP = 0.05
"""Overlap at the start, as a part of the smaller shape, that is worth a warning."""


def check(said: Description) -> None:
    """Raise ValueError for the first mistake in a description."""
    _check_vector("Builder", "gravity", said.gravity)
    _check_names("body", [b.name for b in said.bodies], reserved=(WORLD_NAME,))
    _check_names("shape", [s.name for s in said.shapes])
    _check_names("joint", [j.name for j in said.joints])
    _check_names("actuator", [a.name for a in said.actuators])
    if not said.bodies:
        _fail("Builder", "there is no body", "add one with add_body()")
    known = {WORLD_NAME} | {b.name for b in said.bodies}
    for shape in said.shapes:
        _check_known(f'shape "{shape.name}"', "body", shape.body, known)
        _check_shape(shape)
    for body in said.bodies:
        _check_body(body, [s for s in said.shapes if s.body == body.name])
    for joint in said.joints:
        _check_joint(joint, known)
        if mistake := joint.kind.mistake([np.asarray(axis, float) for axis in joint.axes], said.planar):
            _fail(f'joint "{joint.name}"', *mistake)
    _check_loops(said)
    if said.planar:
        _check_planar(said)
    for actuator in said.actuators:
        _check_actuator(said, actuator, known)
    for sensor in said.sensors:
        _check_sensor(said, sensor, known)
    for pair in said.apart:
        for name in pair:
            _check_known("ignore_contact", "body", name, known)


def warn_of_overlap(model: Model) -> None:
    """Warn of shapes that start deep inside each other: the first step would blast them apart."""
    facts = model.topology
    if not facts.pairs:
        return
    pairs = [pair for group in facts.pair_groups for pair in group.pairs]
    gaps = np.asarray(_least_gaps(model, rest(model)))
    model = jax.tree.map(np.asarray, model)  # JAX would compile every slice
    for (i, k), gap in zip(pairs, gaps, strict=True):
        a, b = facts.shapes[i], facts.shapes[k]
        smallest = min(_smallest(model, x) for x in (i, k))
        if -gap > DEEP * smallest:
            warnings.warn(
                f'shapes "{a.name}" and "{b.name}" start {-gap:.3g} m inside each other; '
                "move one of them, or let them pass with ignore_contact() or a common group",
                stacklevel=3,
            )


@jax.jit
@lanes.compile
def _least_gaps(model: Model, state: State) -> Array:
    """The least gap [m] of every pair of shapes, group by group."""
    facts = model.topology
    p_WS, R_WS = shape_poses(model, bodies_of(model), state.p_WB, state.R_WB)

    def least(group: PairGroup) -> Array:
        i, k = (list(side) for side in zip(*group.pairs, strict=True))
        form_a, form_b = (model.forms(side) for side in (i, k))
        a, b = ((p_WS[np.array(x)], R_WS[np.array(x)]) for x in (i, k))
        return jnp.min(jax.vmap(group.pair.collide)(form_a, *a, form_b, *b).gap, -1)

    return jnp.concatenate([least(group) for group in facts.pair_groups])


def _smallest(model: Model, shape: int) -> float:
    """The smallest length [m] of a shape; inf for a plane, which has none."""
    return model.topology.shapes[shape].kind.smallest(model.form(shape))


def _fail(who: str, what: str, remedy: str) -> None:
    raise ValueError(f"{who}: {what}; {remedy}")


def _check_names(kind: str, names: list[str], reserved: Iterable[str] = ()) -> None:
    for name in names:
        if not isinstance(name, str) or not name:
            _fail(f"{kind} {name!r}", "a name must be a non-empty string", 'give one such as "knee"')
        if name in reserved:
            _fail(f'{kind} "{name}"', "this name is taken by the surroundings", "choose another name")
        if names.count(name) > 1:
            _fail(f'{kind} "{name}"', "the name is used twice", "give every one its own name")


def _check_known(who: str, what: str, name: str, known: Iterable[str]) -> None:
    if not isinstance(name, str) or name not in known:
        shown = f'"{name}"' if isinstance(name, str) else repr(name)
        _fail(who, f"unknown {what} {shown}", f"known are: {', '.join(sorted(known)) or 'none'}")


def _numbers(value: object) -> np.ndarray:
    """Floats; nan, which no check lets pass, for what is not a number: strings and booleans too."""
    try:
        plain = np.asarray(value)
        return np.asarray(np.nan) if plain.dtype.kind in "bUS" else plain.astype(float)
    except (TypeError, ValueError):
        return np.asarray(np.nan)


def _check_vector(who: str, what: str, value, length: int = 3) -> np.ndarray:
    v = _numbers(value)
    if v.shape != (length,) or not np.all(np.isfinite(v)):
        _fail(who, f"{what} is {value!r}", f"give {length} finite numbers")
    return v


def _check_number(who: str, what: str, value: object, remedy: str = "give a finite number") -> float:
    v = _numbers(value)
    if v.shape != () or not np.isfinite(v):
        _fail(who, f"{what} is {value!r}", remedy)
    return float(v)


def _check_rotation(who: str, rotation) -> None:
    if rotation is None:
        return
    r = _numbers(rotation)
    if r.shape not in ((3,), (3, 3)) or not np.all(np.isfinite(r)):
        _fail(who, f"rotation is {rotation!r}", "give a matrix (3, 3) or a rotation vector (3,) in rad")
    R = rotation_matrix(r)
    if np.abs(R.T @ R - np.eye(3)).max() > 1e-5 or np.linalg.det(R) < 0:
        _fail(who, "rotation is not a rotation matrix", "make its columns orthonormal and right-handed")


def _check_positive(who: str, what: str, value, remedy: str) -> None:
    if not _check_number(who, what, value, remedy) > 0:
        _fail(who, f"{what} is {value}", remedy)


def _check_not_negative(who: str, what: str, value) -> None:
    remedy = "give a finite number that is not negative"
    if not _check_number(who, what, value, remedy) >= 0:
        _fail(who, f"{what} is {value}", remedy)


def _check_shape(note: ShapeNote) -> None:
    who = f'shape "{note.name}"'
    if not isinstance(note.shape, Shape):
        _fail(who, f"{note.shape!r} is not a shape", "give one such as Sphere(radius=0.1)")
    _check_vector(who, "position", note.position)
    _check_rotation(who, note.rotation)
    _check_form(who, note.shape)
    for what in ("density", "friction", "restitution"):
        value = getattr(note, what)
        if value is not None:
            _check_not_negative(who, what, value)
    if note.restitution is not None and note.restitution > 1:
        _fail(who, f"restitution is {note.restitution}", "give a number from 0 to 1: more would make energy")
    if note.shape.endless and note.body != WORLD_NAME:
        what = f'a {note.shape.kind()} is endless and cannot ride on body "{note.body}"'
        _fail(who, what, "put it on the world")


def _check_form(who: str, shape: Shape) -> None:
    """The numbers of a shape, by its own check."""
    try:
        shape.check()
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None


def _check_body(note: BodyNote, shapes: list[ShapeNote]) -> None:
    who = f'body "{note.name}"'
    for what in ("position", "velocity", "spin"):
        _check_vector(who, what, getattr(note, what))
    _check_rotation(who, note.rotation)
    if note.mass is not None and any(d is not None for d in (note.density, *(s.density for s in shapes))):
        _fail(who, "both mass and density are given", "give one of them")
    if note.mass is not None:
        _check_positive(who, "mass", note.mass, "give a positive mass in kg")
    if note.density is not None:
        _check_positive(who, "density", note.density, "give a positive density in kg/m³")
    if note.inertia is not None:
        if note.mass is None:
            _fail(who, "inertia is given without mass", "give the mass too")
        _check_inertia(who, note.inertia)
    elif not shapes:
        _fail(who, "it has no shape to take inertia from", "give a shape, or mass and inertia")
    if note.mass is None and all(s.density == 0 for s in shapes):
        _fail(who, "its shapes weigh nothing", "give a mass or a positive density")


def _check_inertia(who: str, inertia) -> None:
    I = _numbers(inertia)
    if I.shape not in ((3,), (3, 3)) or not np.all(np.isfinite(I)):
        _fail(who, f"inertia is {inertia!r}", "give (3,) or (3, 3) numbers in kg m²")
    I = np.diag(I) if I.ndim == 1 else I
    if np.abs(I - I.T).max() > 1e-9 * np.abs(I).max():
        _fail(who, "inertia is not symmetric", "give a symmetric matrix")
    a, b, c = np.linalg.eigvalsh(I)
    if a <= 0:
        _fail(who, f"inertia has the principal value {a:.3g}", "all three must be positive")
    if a + b < c * (1 - 1e-6):
        _fail(
            who,
            f"inertia breaks the triangle inequality: {a:.3g} + {b:.3g} < {c:.3g}",
            "no mass distribution has it; make the two smaller values add up to the largest at least",
        )


def _check_kind(who: str, kind: JointKind) -> None:
    if not isinstance(kind, JointKind):
        _fail(who, f"{kind!r} is not a kind of joint", "give one such as Hinge(), or your own JointKind")
    if len(kind.units) not in (0, kind.freedoms):
        _fail(
            who,
            f"a {kind.name} joint has {kind.freedoms} freedoms but {len(kind.units)} coordinates",
            "give its JointKind a unit for each freedom, or none",
        )


def _check_joint(note: JointNote, known: set[str]) -> None:
    who = f'joint "{note.name}"'
    for name in (note.parent, note.child):
        _check_known(who, "body", name, known)
    if note.parent == note.child:
        _fail(who, f'it joins body "{note.parent}" with itself', "name two different bodies")
    if note.child == WORLD_NAME:
        _fail(who, "the world cannot be the child", "make the world the parent")
    if note.position is not None:
        _check_vector(who, "position", note.position)
    _check_kind(who, note.kind)
    if len(note.axes) != note.kind.axes:
        _fail(who, f"{len(note.axes)} axes are given", f"a {note.kind.name} joint has {note.kind.axes}")
    axes = [_check_vector(who, "axis", axis) for axis in note.axes]
    for axis in axes:
        if np.linalg.norm(axis) < 1e-9:
            _fail(who, "axis has zero length", "give a non-zero axis")
    if len(axes) == 2 and abs(axes[0] @ axes[1]) > 1e-6 * np.linalg.norm(axes[0]) * np.linalg.norm(axes[1]):
        _fail(who, "its two axes are not at right angles", "give perpendicular axes")
    for what in ("limits", "stiffness", "damping", "neutral"):
        given, count = getattr(note, what), len(note.kind.units)
        if len(given) != count:
            _fail(who, f"{what} is {given!r}", f"give {count}, one for each axis")
    for value in (*note.stiffness, *note.damping):
        _check_not_negative(who, "stiffness or damping", value)
    for value in note.neutral:
        _check_number(who, "neutral", value)
    _check_not_negative(who, "damping", note.ball_damping)
    _check_limits(who, note)
    if note.frequency is not None:
        _check_positive(who, "frequency", note.frequency, "give a positive one in Hz, or None for rigid")
        _check_not_negative(who, "damping_ratio", note.damping_ratio)


def _check_limits(who: str, note: JointNote) -> None:
    for limit, unit in zip(note.limits, note.kind.units, strict=True):
        if limit is None:
            continue
        lo, hi = _check_vector(who, "limits", limit, length=2)
        if lo > hi:
            _fail(who, f"limits have lo {lo} > hi {hi}", "swap them")
        if unit == "rad" and (lo < -np.pi or hi > np.pi):
            _fail(who, f"limits ({lo}, {hi}) reach beyond ±π", "angles are read from -π to π; narrow them")


def _check_loops(said: Description) -> None:
    from backflip.model.pack import _roles

    for note, role in zip(said.joints, _roles(said), strict=True):
        sprung = any(note.stiffness) or any(note.damping) or note.ball_damping
        if role != "tree" and sprung:
            why = "closes a loop" if role == "loop" else "is soft"
            _fail(
                f'joint "{note.name}"',
                f"it {why} and cannot carry a spring or damper",
                "put the spring on another joint, or add the joints in another order",
            )


def _check_planar(said: Description) -> None:
    """In a planar model everything moves in the x-z plane and turns about y."""
    for body in said.bodies:
        (_, vy, _), (wx, _, wz) = np.asarray(body.velocity, float), np.asarray(body.spin, float)
        who = f'body "{body.name}"'
        if vy:
            _fail(who, f"velocity {body.velocity!r} leaves the plane of a planar model", "give (vx, 0, vz)")
        if wx or wz:
            _fail(who, f"spin {body.spin!r} turns out of the plane of a planar model", "give (0, wy, 0)")


def _check_actuator(said: Description, note, known: set[str]) -> None:
    who = f'{note.kind} "{note.name}"'
    if note.kind in ("force", "torque"):
        _check_known(who, "body", note.target, known - {WORLD_NAME})
        _check_vector(who, "position", note.point)
        if np.linalg.norm(_check_vector(who, "direction", note.direction)) == 0:
            _fail(who, "direction has zero length", "give a non-zero direction")
        return
    _check_known(who, "joint", note.target, {j.name for j in said.joints})
    joint = next(j for j in said.joints if j.name == note.target)
    count = len(joint.kind.units)
    if count == 0:
        _fail(
            who,
            f'joint "{joint.name}" is {joint.kind.name} and has no axis to drive',
            "use a hinge, slider or universal joint",
        )
    if note.axis not in range(count):
        _fail(who, f'axis {note.axis} of joint "{joint.name}"', f"it has {count}; count from 0")
    if note.kind == "servo":
        for what in ("gain", "max_velocity", "max_torque"):
            _check_positive(who, what, getattr(note, what), "give a positive number")


def _check_sensor(said: Description, sensor, known: set[str]) -> None:
    if not isinstance(sensor, Sensor):
        _fail("add_sensor", f"{sensor!r} is not a sensor", 'give one such as JointAngle("knee")')
    who = f"sensor {type(sensor).__name__}"
    if isinstance(sensor, JointAngle | JointRate):
        _check_known(who, "joint", sensor.joint, {j.name for j in said.joints})
        joint = next(j for j in said.joints if j.name == sensor.joint)
        if not joint.kind.units:
            _fail(
                who, f'joint "{joint.name}" is {joint.kind.name} and has no angle', "sense its bodies instead"
            )
    elif isinstance(sensor, ContactForce):
        _check_known(who, "shape", sensor.shape, {s.name for s in said.shapes})
    elif isinstance(sensor, ServoTorque):
        _check_known(who, "servo", sensor.servo, {a.name for a in said.actuators if a.kind == "servo"})
    else:
        _check_known(who, "body", sensor.body, known - {WORLD_NAME})
        other = getattr(sensor, "relative_to", None)
        if other is not None:
            _check_known(who, "body", other, known - {WORLD_NAME})
        for what in ("position", "target"):
            if hasattr(sensor, what):
                _check_vector(who, what, getattr(sensor, what))
