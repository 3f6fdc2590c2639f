"""A lean quadruped: a torso and four legs of two links, nine bodies and eight servos."""

from typing import NamedTuple

import backflip as bf

TORSO_MASS = 21.525
TORSO_INERTIA = (0.179375, 0.6636875, 0.8071875)
LINK_MASS = 0.896875
LINK_INERTIA = (0.001801224, 0.001801224, 0.00023916667)
"""[kg] and [kg m²] of a solid torso 0.6 x 0.3 x 0.1 m, and of links 0.15 m long"""
LINK = 0.15
"""[m] from hinge to hinge, and from hinge to foot"""
HIP = (0.25, 0.18)
"""[m] hips from the torso's centre along x and y"""
CORNER = (0.25, 0.1)
"""[m] bumpers of the torso"""
BUMPER, FOOT = 0.05, 0.03
"""[m] radii of the contact spheres"""
LEGS = {"fl": (1, 1), "fr": (1, -1), "bl": (-1, 1), "br": (-1, -1)}
"""front or back, left or right: signs of x and y"""
HINGES = tuple(f"{leg} {hinge}" for leg in LEGS for hinge in ("shoulder", "elbow"))
AXIS = (0.0, 1.0, 0.0)


class Piece(NamedTuple):
    """A piece of a link."""

    suffix: str
    """of its name"""
    length: float
    """[m]"""
    mass: float
    """[kg]"""
    inertia: tuple[float, float, float]
    """[kg m²]"""


WHOLE = Piece("", LINK, LINK_MASS, LINK_INERTIA)


def quadruped(
    *,
    height: float = 0.34,
    friction: float = 1.0,
    gain: float = 20.0,
    max_velocity: float = 10.0,
    max_torque: float = 4.0,
    damping: float = 0.1,
) -> bf.Model:
    """The torso's centre starts at `height` [m]; u (8,) are the angles of shoulder and elbow, leg by leg.

    Only the feet and the torso's four bumpers touch the ground. Observed: angles, rates, the torso's IMU.
    """
    b = standing(height=height, friction=friction, damping=damping)
    add_servos(b, gain=gain, max_velocity=max_velocity, max_torque=max_torque)
    b.add_sensor(*map(bf.JointAngle, HINGES), *map(bf.JointRate, HINGES), bf.IMU("torso"))
    return b.build()


def standing(
    *, height: float, friction: float, damping: float, pieces: tuple[Piece, ...] = (WHOLE,)
) -> bf.Builder:
    """Torso, legs and ground; every link is made of `pieces`, welded together."""
    b = bf.Builder()
    b.add_body(
        "torso", mass=TORSO_MASS, inertia=TORSO_INERTIA, position=(0.0, 0.0, height), group="quadruped"
    )
    for leg, (x, y) in LEGS.items():
        place = (x * CORNER[0], y * CORNER[1], 0.0)
        b.add_shape("torso", bf.Sphere(BUMPER), name=f"{leg} bumper", position=place)
        _add_leg(b, leg, (x * HIP[0], y * HIP[1], height), damping, pieces)
    b.add_ground(friction=friction)
    return b


def add_servos(b: bf.Builder, *, gain: float, max_velocity: float, max_torque: float) -> None:
    """One servo for every hinge."""
    for hinge in HINGES:
        b.add_servo(hinge, gain=gain, max_velocity=max_velocity, max_torque=max_torque)


def _add_leg(
    b: bf.Builder, leg: str, hip: tuple[float, float, float], damping: float, pieces: tuple[Piece, ...]
) -> None:
    """Upper and lower link straight down from the hip; the foot is a sphere at the end."""
    x, y, z = hip
    above = "torso"
    for link, hinge in (("upper", "shoulder"), ("lower", "elbow")):
        for piece in pieces:
            name = f"{leg} {link}{piece.suffix}"
            center = (x, y, z - piece.length / 2)
            b.add_body(name, mass=piece.mass, inertia=piece.inertia, position=center, group="quadruped")
            if piece is pieces[0]:
                b.add_hinge(f"{leg} {hinge}", above, name, position=(x, y, z), axis=AXIS, damping=damping)
            else:
                b.add_fixed(f"{leg} {link} weld", above, name, position=(x, y, z))
            above, z = name, z - piece.length
    b.add_shape(above, bf.Sphere(FOOT), name=f"{leg} foot", position=(0.0, 0.0, -pieces[-1].length / 2))
