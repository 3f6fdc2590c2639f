"""The quadruped of Degrave et al., Table 1: seventeen bodies, eight servos, a hundred constraints.

It is the lean quadruped with every link cut in two halves that a fixed joint holds together. As the paper
counts: 8 hinges x 5 + 8 fixed joints x 6 + 4 feet x 3 = 100; the torso's bumpers, which touch nothing while
it walks, are not among them.
"""

import backflip as bf
from backflip.robots.quadruped import LEGS, Piece, add_servos, standing

HALF = 0.075
"""[m] length of half a link"""
HALF_MASS = 0.4484375
HALF_INERTIA = (0.00026999674, 0.00026999674, 0.00011958333)
"""[kg] and [kg m²] of a solid half"""
HALVES = (Piece("", HALF, HALF_MASS, HALF_INERTIA), Piece(" end", HALF, HALF_MASS, HALF_INERTIA))


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
    b = standing(height=height, friction=friction, damping=damping, pieces=HALVES)
    add_servos(b, gain=gain, max_velocity=max_velocity, max_torque=max_torque)
    _add_senses(b, "torso", None)
    for leg in LEGS:
        _add_senses(b, f"{leg} lower", "torso")
        _add_senses(b, f"{leg} upper", f"{leg} lower")
    return b.build()


def _add_senses(b: bf.Builder, body: str, seen_by: str | None) -> None:
    b.add_sensor(bf.Position(body, seen_by), bf.Velocity(body, seen_by), bf.Orientation(body, seen_by))
