"""Describing a robot: the Builder writes everything down; build() checks it once and packs it."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from backflip.geometry import Plane, Shape
from backflip.model.check import check_description, check_sensors
from backflip.model.ground import warn_of_ignored_ground
from backflip.model.holds import holding
from backflip.model.joints import Ball, Fixed, Hinge, JointKind, Slider, Universal
from backflip.model.model import Model
from backflip.model.notes import (
    ORIGIN,
    WORLD_NAME,
    ActuatorNote,
    BodyNote,
    Description,
    JointNote,
    Numbers,
    ShapeNote,
)
from backflip.model.pack import pack, topology_of
from backflip.model.sensor import Sensor
from backflip.model.slender import check_slender
from backflip.model.warn import warn_of_overlap


class Softness(TypedDict, total=False):
    """Options of every joint; see Builder.add_joint."""

    frequency: float | None
    damping_ratio: float
    collide: bool


class Spring(Softness, total=False):
    """Options of joints with coordinates; see Builder.add_joint."""

    stiffness: Numbers | float
    damping: Numbers | float
    neutral: Numbers | float


class Builder:
    """Describe a robot and its surroundings, then build() a Model. SI units, z up, poses in W.

    `planar` allows motion in the x-z plane only. Bodies are named; "world" is the unmoving surroundings.
    """

    def __init__(self, *, gravity: Numbers = (0.0, 0.0, -9.81), planar: bool = False):
        self._description = Description(gravity, planar)

    def add_body(
        self,
        name: str,
        shape: Shape | None = None,
        *,
        mass: float | None = None,
        density: float | None = None,
        inertia: Numbers | None = None,
        position: Numbers = ORIGIN,
        rotation: Numbers | None = None,
        velocity: Numbers = ORIGIN,
        spin: Numbers = ORIGIN,
        friction: float | None = None,
        restitution: float | None = None,
        group: str | None = None,
        collide: bool = True,
    ) -> str:
        """Add a body with its first shape and return its name.

        Give `mass` [kg] or `density` [kg/m³, default 1000]; `inertia` [kg m²], (3,) or (3, 3) about the
        centre of mass, which then is the body's origin, or leave it to the shapes. `rotation` is a matrix
        (3, 3) or a rotation vector (3,) [rad]; `velocity` is that of the centre of mass.
        Bodies of one `group` never touch each other.
        """
        self._description.bodies.append(
            BodyNote(name, mass, density, inertia, position, rotation, velocity, spin, group)
        )
        if shape is not None:
            self.add_shape(
                name, shape, name=name, friction=friction, restitution=restitution, collide=collide
            )
        return name

    def add_shape(
        self,
        body: str,
        shape: Shape,
        *,
        name: str | None = None,
        position: Numbers = ORIGIN,
        rotation: Numbers | None = None,
        density: float | None = None,
        friction: float | None = None,
        restitution: float | None = None,
        collide: bool = True,
    ) -> str:
        """Add a shape to a body or to "world", posed in the body's frame, and return its name.

        Two shapes that touch use the mean of their `friction` and `restitution`; where one of the two
        gives none the other's counts, and where neither does it is 1 and 0.
        """
        if name is None:
            # by repr: what is no name is for build() to refuse
            name = f"{body}/{sum(repr(s.body) == repr(body) for s in self._description.shapes)}"
        self._description.shapes.append(
            ShapeNote(name, body, shape, position, rotation, density, friction, restitution, collide)
        )
        return name

    def add_ground(
        self,
        *,
        friction: float | None = None,
        restitution: float | None = None,
        position: Numbers = ORIGIN,
        rotation: Numbers | None = None,
        name: str = "ground",
    ) -> str:
        """Add an endless plane: through `position`, its normal z turned by `rotation`."""
        return self.add_shape(
            WORLD_NAME,
            Plane(),
            name=name,
            position=position,
            rotation=rotation,
            friction=friction,
            restitution=restitution,
        )

    def add_joint(
        self,
        name: str,
        parent: str,
        child: str,
        kind: JointKind,
        *,
        position: Numbers | None = None,
        axes: Sequence[Numbers] = (),
        limits: Sequence[tuple[float, float] | None] | None = None,
        stiffness: Numbers | float = 0.0,
        damping: Numbers | float = 0.0,
        neutral: Numbers | float = 0.0,
        frequency: float | None = None,
        damping_ratio: float = 1.0,
        collide: bool = False,
    ) -> str:
        """Join two bodies by a joint of any kind and return its name; add_hinge() and the like call this.

        `position` and `axes` are in W; no position: the child's origin. Coordinates are 0 as described.
        `limits`, `stiffness`, `damping` and `neutral` hold an entry per coordinate; a joint without any may
        have a `damping` of its spin. `frequency` [Hz] makes the joint a stiff spring of that `damping_ratio`.
        The two bodies touch each other only if they `collide`.
        """
        count = len(getattr(kind, "units", ()))
        self._description.joints.append(
            JointNote(
                name,
                kind,
                parent,
                child,
                position,
                axes=_each(axes, 0),
                limits=_each(limits, count),
                stiffness=_each(stiffness, count),
                damping=_each(damping, count) if count else (),
                neutral=_each(neutral, count),
                ball_damping=0.0 if count else damping,  # type: ignore[arg-type]
                frequency=frequency,
                damping_ratio=damping_ratio,
                collide=collide,
            )
        )
        return name

    def add_fixed(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        position: Numbers | None = None,
        **options: Unpack[Softness],
    ) -> str:
        """Weld two bodies; with `frequency` [Hz] the weld is a stiff spring."""
        return self.add_joint(name, parent, child, Fixed(), position=position, **options)

    def add_hinge(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        position: Numbers,
        axis: Numbers,
        limits: tuple[float, float] | None = None,
        **options: Unpack[Spring],
    ) -> str:
        """Let the child turn about `axis` through `position`, both in W; the angle is 0 as described.

        `limits` (lo, hi) [rad]; options are those of add_joint.
        """
        return self.add_joint(
            name, parent, child, Hinge(), position=position, axes=(axis,), limits=(limits,), **options
        )

    def add_slider(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        axis: Numbers,
        position: Numbers | None = None,
        limits: tuple[float, float] | None = None,
        **options: Unpack[Spring],
    ) -> str:
        """Let the child slide along `axis` [W]; the position is 0 as described.

        `limits` (lo, hi) [m]; options are those of add_joint.
        """
        return self.add_joint(
            name, parent, child, Slider(), position=position, axes=(axis,), limits=(limits,), **options
        )

    def add_universal(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        position: Numbers,
        axes: tuple[Numbers, Numbers],
        limits: tuple[tuple[float, float] | None, tuple[float, float] | None] = (None, None),
        **options: Unpack[Spring],
    ) -> str:
        """Two crossed hinges: the first axis rides on the parent, the second, perpendicular, on the child.

        `limits` and the options of add_joint hold two entries, one for each axis.
        """
        return self.add_joint(
            name, parent, child, Universal(), position=position, axes=axes, limits=limits, **options
        )

    def add_ball_joint(
        self,
        name: str,
        parent: str,
        child: str,
        *,
        position: Numbers,
        damping: float = 0.0,
        **options: Unpack[Softness],
    ) -> str:
        """Let the child turn freely about `position`, against `damping` [N m s/rad]."""
        return self.add_joint(name, parent, child, Ball(), position=position, damping=damping, **options)

    def add_hold(
        self, body: str, *what: str, position: Numbers | None = None, name: str | None = None
    ) -> str:
        """Hold "x", "z" or "rotation" of a body of a planar scene, or two of them, or all three.

        What is held of x and z is the point of the body at `position` [W]; None: its origin. Two at once make
        a hinge or a slider, all three a fixed joint, and may be read and driven as such.
        """
        kind, axes = holding(body, what)
        return self.add_joint(
            f"{body} held" if name is None else name, WORLD_NAME, body, kind, position=position, axes=axes
        )

    def add_servo(
        self,
        joint: str,
        *,
        gain: float,
        max_velocity: float,
        max_torque: float,
        axis: int = 0,
        name: str | None = None,
    ) -> str:
        """Drive a joint to the angle in `u`: velocity gain·(u − angle), at most `max_velocity`,
        reached with at most `max_torque`. `gain` [1/s]; `axis` picks one of a universal joint's two."""
        name = joint if name is None else name
        return self._add_actuator(ActuatorNote(name, "servo", joint, axis, gain, max_velocity, max_torque))

    def add_motor(self, joint: str, *, axis: int = 0, name: str | None = None) -> str:
        """Apply the torque [N m] (hinge, universal) or force [N] (slider) in `u` across a joint."""
        name = joint if name is None else name
        return self._add_actuator(ActuatorNote(name, "motor", joint, axis))

    def add_force(
        self, body: str, *, direction: Numbers, position: Numbers = ORIGIN, name: str | None = None
    ) -> str:
        """Push a body with u·`direction` [N] at `position`, both fixed in its frame."""
        name = f"{body} force" if name is None else name
        return self._add_actuator(ActuatorNote(name, "force", body, direction=direction, point=position))

    def add_torque(self, body: str, *, direction: Numbers, name: str | None = None) -> str:
        """Twist a body with u·`direction` [N m], fixed in its frame."""
        name = f"{body} torque" if name is None else name
        return self._add_actuator(ActuatorNote(name, "torque", body, direction=direction))

    def add_sensor(self, *sensors: Sensor) -> None:
        """Append sensors; observe() returns their readings in this order."""
        self._description.sensors.extend(sensors)

    def ignore_contact(self, body: str, other: str) -> None:
        """Let two bodies pass through each other; "world" stands for the shapes put on the world."""
        self._description.apart.append((body, other))

    def build(self) -> Model:
        """Check everything once and pack it into a Model; a mistake is a ValueError that names it."""
        check_description(self._description)
        topology = topology_of(self._description)
        check_sensors(topology)
        model = pack(self._description, topology)
        check_slender(model)
        warn_of_overlap(model)
        warn_of_ignored_ground(self._description)
        return model

    def _add_actuator(self, note: ActuatorNote) -> str:
        self._description.actuators.append(note)
        return note.name


def _each(values: object, count: int) -> tuple:
    """One entry per coordinate; a lone 0 or None stands for all, any other lone value is refused later."""
    try:
        return tuple(values)  # type: ignore[arg-type]
    except TypeError:
        return (values,) * (count if values in (0, None) else 1)
