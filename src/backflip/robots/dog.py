"""The quadruped of Degrave et al., section 3.3: a heavy spine, four legs of two links, eight servos."""

import math

import backflip as bf

DENSITY = 1000.0
"""[kg/m³] so 28.7 kg in all, 21 kg of them the spine's box"""
SPINE = (0.7, 0.3, 0.1)
"""[m] edges"""
BALL = 0.05
"""[m] radius of the feet, and of the balls inside the spine with which it touches the ground"""
WIDTH, THIGH, SHANK = 0.05, 0.2, 0.15
"""[m] legs are square bars; a shank reaches from the knee to the centre of the foot"""
HIP = (0.3, 0.2)
"""[m] hips from the spine's centre along x and y"""
CORNER = (0.3, 0.1)
"""[m] the balls inside the spine"""
HEIGHT = THIGH + SHANK + BALL
"""[m] of the spine's centre while it stands on straight legs"""
RANGE = math.radians(45)
"""[rad] hinges stop at ± this"""
SPEED = math.radians(1440)
"""[rad/s] of the servos"""
TORQUE = 40.0
"""[N m] of the servos, as walking machines of 30 kg have. The paper prints 4: that does not hold it up on
bent legs, and the engine it used gave its servos their torque anew in every solver iteration."""
LEGS = {"fl": (1, 1), "fr": (1, -1), "bl": (-1, 1), "br": (-1, -1)}
"""front or back, left or right: signs of x and y"""
HINGES = tuple(f"{leg} {hinge}" for leg in LEGS for hinge in ("hip", "knee"))
Y = (0.0, 1.0, 0.0)


def dog(
    *, max_torque: float = TORQUE, gain: float = 50.0, friction: float = 0.5, restitution: float = 0.01
) -> bf.Model:
    """Standing on straight legs; u (8,) are the angles of hip and knee, leg by leg.

    Feet and the four balls inside the spine touch the ground; legs and spine pass through each other, as
    in the paper. Observed are 81 numbers: angle, rate and torque of every hinge (24), the spine's IMU (6),
    orientation (9), velocity (3) and spin (3), the force on every foot and ball (24), and where the shanks
    are as the spine sees them (12).
    """
    b = bf.Builder()
    b.add_body("spine", density=DENSITY, position=(0.0, 0.0, HEIGHT), group="dog")
    b.add_shape("spine", bf.Box(SPINE), collide=False)
    for leg, (x, y) in LEGS.items():
        place = (x * CORNER[0], y * CORNER[1], 0.0)
        b.add_shape("spine", bf.Sphere(BALL), name=f"{leg} ball", position=place)
        _add_leg(b, leg, (x * HIP[0], y * HIP[1]))
    b.add_ground(friction=friction, restitution=restitution)
    for hinge in HINGES:
        b.add_servo(hinge, gain=gain, max_velocity=SPEED, max_torque=max_torque)
    _add_senses(b)
    return b.build()


def _add_leg(b: bf.Builder, leg: str, hip: tuple[float, float]) -> None:
    """Thigh and shank straight down from the hip; the foot is a ball at the end."""
    above, top = "spine", HEIGHT
    for link, hinge, length in (("thigh", "hip", THIGH), ("shank", "knee", SHANK)):
        name = f"{leg} {link}"
        b.add_body(name, density=DENSITY, position=(*hip, top - length / 2), group="dog")
        b.add_shape(name, bf.Box((WIDTH, WIDTH, length)), collide=False)
        b.add_hinge(f"{leg} {hinge}", above, name, position=(*hip, top), axis=Y, limits=(-RANGE, RANGE))
        above, top = name, top - length
    b.add_shape(above, bf.Sphere(BALL), name=f"{leg} foot", position=(0.0, 0.0, -SHANK / 2))


def _add_senses(b: bf.Builder) -> None:
    b.add_sensor(*map(bf.JointAngle, HINGES), *map(bf.JointRate, HINGES), *map(bf.ServoTorque, HINGES))
    b.add_sensor(bf.IMU("spine"), bf.Orientation("spine"), bf.Velocity("spine"), bf.AngularVelocity("spine"))
    b.add_sensor(*(bf.ContactForce(f"{leg} {part}") for part in ("foot", "ball") for leg in LEGS))
    b.add_sensor(*(bf.Position(f"{leg} shank", "spine") for leg in LEGS))
