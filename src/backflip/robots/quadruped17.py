"""The quadruped of Degrave et al., Table 1: seventeen bodies, eight servos, a hundred constraints.

It is the lean quadruped with every link cut in two halves that a fixed joint holds together. As the paper
counts: 8 hinges x 5 + 8 fixed joints x 6 + 4 feet x 3 = 100; the torso's bumpers, which touch nothing while
it walks, are not among them.
"""

import backflip as bf
from backflip.robots.quadruped import BUMPER, CORNER, FOOT, HIP, LEGS, TORSO_INERTIA, TORSO_MASS

HALF = 0.075
"""[m] length of half a link"""
HALF_MASS = 0.4484375
HALF_INERTIA = (0.00026999674, 0.00026999674, 0.00011958333)
"""[kg] and [kg m²] of a solid half"""
AXIS = (0.0, 1.0, 0.0)


def quadruped17(
    *,
    height: float = 0.34,
    friction: float = 1.0,
    gain: float = 20.0,
    max_velocity: float = 10.0,
    max_torque: float = 4.0,
    damping: float = 0.1,
) -> bf.Model:
    """The torso's centre starts at `height` [m]; u (8,) are the angles of shoulder and elbow, leg by leg.

    Only the feet and the torso's four bumpers touch the ground. Observed: position, velocity and orientation
    of the torso, of the lower legs as the torso sees them, and of the upper legs as the lower ones do.
    """
    b = bf.Builder()
    b.add_body(
        "torso", mass=TORSO_MASS, inertia=TORSO_INERTIA, position=(0.0, 0.0, height), group="quadruped"
    )
    for leg, (x, y) in LEGS.items():
        place = (x * CORNER[0], y * CORNER[1], 0.0)
        b.add_shape("torso", bf.Sphere(BUMPER), name=f"{leg} bumper", position=place)
        _add_leg(b, leg, (x * HIP[0], y * HIP[1], height), damping)
    b.add_ground(friction=friction)
    for hinge in (f"{leg} {hinge}" for leg in LEGS for hinge in ("shoulder", "elbow")):
        b.add_servo(hinge, gain=gain, max_velocity=max_velocity, max_torque=max_torque)
    _add_senses(b, "torso", None)
    for leg in LEGS:
        _add_senses(b, f"{leg} lower", "torso")
        _add_senses(b, f"{leg} upper", f"{leg} lower")
    return b.build()


def _add_leg(b: bf.Builder, leg: str, hip: tuple[float, float, float], damping: float) -> None:
    """Halves straight down from the hip: hinged, fixed, hinged, fixed; the foot is a sphere at the end."""
    x, y, z = hip
    above = "torso"
    for link, hinge in (("upper", "shoulder"), ("lower", "elbow")):
        name, end = f"{leg} {link}", f"{leg} {link} end"
        for half in (name, end):
            b.add_body(
                half, mass=HALF_MASS, inertia=HALF_INERTIA, position=(x, y, z - HALF / 2), group="quadruped"
            )
            if half == name:
                b.add_hinge(f"{leg} {hinge}", above, name, position=(x, y, z), axis=AXIS, damping=damping)
            else:
                b.add_fixed(f"{leg} {link} weld", name, end, position=(x, y, z))
            z -= HALF
        above = end
    b.add_shape(above, bf.Sphere(FOOT), name=f"{leg} foot", position=(0.0, 0.0, -HALF / 2))


def _add_senses(b: bf.Builder, body: str, seen_by: str | None) -> None:
    b.add_sensor(bf.Position(body, seen_by), bf.Velocity(body, seen_by), bf.Orientation(body, seen_by))
