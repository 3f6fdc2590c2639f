"""Everything a description can get wrong: a ValueError says who is at fault and what to do."""

from dataclasses import fields, is_dataclass

import numpy as np

from backflip.model.check_bodies import check_body, check_shape
from backflip.model.facts import Topology
from backflip.model.joints import JointKind
from backflip.model.notes import WORLD_NAME, Description, JointNote
from backflip.model.pack import joint_roles
from backflip.model.sensor import Sensor
from backflip.model.values import (
    check_choice,
    check_known,
    check_names,
    check_not_negative,
    check_number,
    check_positive,
    check_vector,
    fail,
)


def check_description(description: Description) -> None:
    """Raise ValueError for the first mistake in a description."""
    check_vector("Builder", "gravity", description.gravity)
    check_choice("Builder", "planar", description.planar)
    check_names("body", [b.name for b in description.bodies], reserved=(WORLD_NAME,))
    check_names("shape", [s.name for s in description.shapes])
    check_names("joint", [j.name for j in description.joints])
    check_names("actuator", [a.name for a in description.actuators])
    if not description.bodies:
        fail("Builder", "there is no body", "add one with add_body()")
    known = {WORLD_NAME} | {b.name for b in description.bodies}
    for shape in description.shapes:
        check_known(f'shape "{shape.name}"', "body", shape.body, known)
        check_shape(shape)
    for body in description.bodies:
        check_body(body, [s for s in description.shapes if s.body == body.name])
    for joint in description.joints:
        _check_joint(joint, known)
        axes = [np.asarray(axis, float) for axis in joint.axes]
        if mistake := joint.kind.mistake(axes, description.planar):
            fail(f'joint "{joint.name}"', *mistake)
    _check_loops(description)
    if description.planar:
        _check_planar(description)
    for actuator in description.actuators:
        _check_actuator(description, actuator, known)
    for sensor in description.sensors:
        if not isinstance(sensor, Sensor):
            fail("add_sensor", f"{sensor!r} is not a sensor", 'give one such as JointAngle("knee")')
    check_names("sensor", [s.name for s in description.sensors if s.name is not None])
    for pair in description.apart:
        for name in pair:
            check_known("ignore_contact", "body", name, known)


def check_sensors(facts: Topology) -> None:
    """Let every sensor say what it cannot read in this model."""
    for sensor, label in zip(facts.sensors, facts.sensor_names, strict=True):
        try:
            sensor.check(facts)
        except ValueError as error:
            raise ValueError(f"sensor {label}: {error}") from None
        if set(vars(sensor)) != {f.name for f in fields(sensor)} or not _hashable(sensor):
            remedy = "make its class a frozen dataclass of names, numbers and vectors"
            fail(f"sensor {label}", "it cannot be told from others", remedy)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _check_kind(who: str, kind: JointKind) -> None:
    if not isinstance(kind, JointKind):
        fail(who, f"{kind!r} is not a kind of joint", "give one such as bf.joints.Hinge()")
    if not is_dataclass(kind) or not _hashable(kind):
        remedy = "make its JointKind a frozen dataclass of plain values"
        fail(who, f"{kind!r} cannot be told from others", remedy)
    if kind.freedoms not in range(7):
        fail(who, f"a {kind.name} joint has {kind.freedoms} freedoms", "give its JointKind 0 to 6")
    if len(kind.units) not in (0, kind.freedoms):
        fail(
            who,
            f"a {kind.name} joint has {kind.freedoms} freedoms but {len(kind.units)} coordinates",
            "give its JointKind a unit for each freedom, or none",
        )


def _check_joint(note: JointNote, known: set[str]) -> None:
    who = f'joint "{note.name}"'
    for name in (note.parent, note.child):
        check_known(who, "body", name, known)
    if note.parent == note.child:
        fail(who, f'it joins body "{note.parent}" with itself', "name two different bodies")
    if note.child == WORLD_NAME:
        fail(who, "the world cannot be the child", "make the world the parent")
    if note.position is not None:
        check_vector(who, "position", note.position)
    _check_kind(who, note.kind)
    if len(note.axes) != note.kind.axes:
        fail(who, f"{len(note.axes)} axes are given", f"a {note.kind.name} joint has {note.kind.axes}")
    axes = [check_vector(who, "axis", axis) for axis in note.axes]
    for axis in axes:
        if np.linalg.norm(axis) < 1e-9:
            fail(who, "axis has zero length", "give a non-zero axis")
    if len(axes) == 2 and abs(axes[0] @ axes[1]) > 1e-6 * np.linalg.norm(axes[0]) * np.linalg.norm(axes[1]):
        fail(who, "its two axes are not at right angles", "give perpendicular axes")
    for what in ("limits", "stiffness", "damping", "neutral"):
        given, count = getattr(note, what), len(note.kind.units)
        if len(given) != count:
            fail(who, f"{what} is {given!r}", f"give {count}, one for each axis")
    for value in (*note.stiffness, *note.damping):
        check_not_negative(who, "stiffness or damping", value)
    for value in note.neutral:
        check_number(who, "neutral", value)
    check_not_negative(who, "damping", note.ball_damping)
    if note.ball_damping and (note.kind.slides or not note.kind.freedoms):
        fail(who, f"a {note.kind.name} joint has no damping", "leave it out")
    _check_limits(who, note)
    if note.frequency is not None:
        check_positive(who, "frequency", note.frequency, "give a positive one in Hz, or None for rigid")
    check_not_negative(who, "damping_ratio", note.damping_ratio)
    check_choice(who, "collide", note.collide)


def _check_limits(who: str, note: JointNote) -> None:
    for limit, unit in zip(note.limits, note.kind.units, strict=True):
        if limit is None:
            continue
        lo, hi = check_vector(who, "limits", limit, length=2)
        if lo > hi:
            fail(who, f"limits have lo {lo} > hi {hi}", "swap them")
        if unit == "rad" and note.kind.wraps and (lo < -np.pi or hi > np.pi):
            fail(who, f"limits ({lo}, {hi}) reach beyond ±π", "give radians, and narrow them")


def _check_loops(description: Description) -> None:
    for note, role in zip(description.joints, joint_roles(description), strict=True):
        sprung = any(note.stiffness) or any(note.damping) or note.ball_damping
        if role != "tree" and sprung:
            why = "closes a loop" if role == "loop" else "is soft"
            fail(
                f'joint "{note.name}"',
                f"it {why} and cannot carry a spring or damper",
                "put the spring on another joint, or add the joints in another order",
            )


def _check_planar(description: Description) -> None:
    """In a planar model everything moves in the x-z plane and turns about y."""
    for body in description.bodies:
        (_, vy, _), (wx, _, wz) = np.asarray(body.velocity, float), np.asarray(body.spin, float)
        who = f'body "{body.name}"'
        if vy:
            fail(who, f"velocity {body.velocity!r} leaves the plane of a planar model", "give (vx, 0, vz)")
        if wx or wz:
            fail(who, f"spin {body.spin!r} turns out of the plane of a planar model", "give (0, wy, 0)")


def _check_actuator(description: Description, note, known: set[str]) -> None:
    who = f'{note.kind} "{note.name}"'
    if note.kind in ("force", "torque"):
        check_known(who, "body", note.target, known - {WORLD_NAME})
        check_vector(who, "position", note.point)
        if np.linalg.norm(check_vector(who, "direction", note.direction)) == 0:
            fail(who, "direction has zero length", "give a non-zero direction")
        return
    check_known(who, "joint", note.target, {j.name for j in description.joints})
    joint = next(j for j in description.joints if j.name == note.target)
    count = len(joint.kind.units)
    if count == 0:
        fail(
            who,
            f'joint "{joint.name}" is {joint.kind.name} and has no axis to drive',
            "use a hinge, slider or universal joint",
        )
    if not isinstance(note.axis, int | np.integer) or note.axis not in range(count):
        fail(who, f'axis {note.axis} of joint "{joint.name}"', f"it has {count}; count from 0")
    if note.kind == "servo":
        for what in ("gain", "max_velocity", "max_torque"):
            check_positive(who, what, getattr(note, what), "give a positive number")
