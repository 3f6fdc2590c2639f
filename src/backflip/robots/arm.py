"""The arm of Degrave et al., section 3.2: two links, two universal joints, four servos."""

import math

import jax

import backflip as bf

LINK, WIDTH = 0.5, 0.14
"""[m] of a link, a box"""
BALL = 0.1
"""[m] radius of the balls at base, elbow and tip; the tip's centre is the end effector"""
DENSITY = 1000.0
"""[kg/m³] so 9.8 kg a link, 4.19 kg a ball, 32.2 kg in all"""
MARK = 0.04
"""[m] radius of the ball that shows the target"""
BASE = 0.1
"""[m] height of the base joint: its ball lies on the ground"""
SPEED = math.radians(45)
"""[rad/s]"""
HOLD = 160.0
"""[N m] torque of the servos. Stretched flat the arm pulls with 158 N m at its base. The paper prints 30, but
the engine it used gave its servos their torque anew in every solver iteration."""

TIP = (0.0, 0.0, LINK / 2)
"""[m] the tip's centre, in the frame of the lower link"""


def arm(
    *,
    target: tuple[float, float, float] = (0.5, 0.5, 0.5),
    max_torque: float = HOLD,
    gain: float = 30.0,
    max_velocity: float = SPEED,
) -> bf.Model:
    """The arm upright, its base joint 0.1 m up; u (4,) are yaw and pitch of the base, then of the elbow.

    Yaw turns about the link below; pitch, ± 90°, about y. Nothing collides: the ground is not part of the
    task, and pitch cannot fold a link onto the other. Observed: the distance from the tip to `target` [m].
    """
    b = bf.Builder()
    straight = (-math.pi / 2, math.pi / 2)
    below, base = "world", BASE
    for name in ("upper", "lower"):
        b.add_body(name, density=DENSITY, position=(0.0, 0.0, base + LINK / 2), group="arm")
        b.add_shape(name, bf.Box((WIDTH, WIDTH, LINK)), collide=False)
        ends = (-1, 1) if name == "upper" else (1,)
        for end in ends:
            b.add_shape(name, bf.Sphere(BALL), position=(0.0, 0.0, end * LINK / 2), collide=False)
        joint = "base" if name == "upper" else "elbow"
        b.add_universal(
            joint,
            below,
            name,
            position=(0.0, 0.0, base),
            axes=((0.0, 0.0, 1.0), (0.0, 1.0, 0.0)),
            limits=(None, straight),
        )
        for axis, turn in enumerate(("yaw", "pitch")):
            b.add_servo(
                joint,
                axis=axis,
                name=f"{joint} {turn}",
                gain=gain,
                max_velocity=max_velocity,
                max_torque=max_torque,
            )
        below, base = name, base + LINK
    b.add_shape("world", bf.Sphere(MARK), name="target", position=target, collide=False)
    b.add_sensor(bf.Distance("lower", target, TIP))
    return b.build()


def tip(model: bf.Model, state: bf.State) -> jax.Array:
    """Where the end effector is (..., 3) [m], in W; the state may have leading axes, such as time."""

    def where(state: bf.State) -> jax.Array:
        return bf.point(model, state, "lower", TIP).position

    for _ in state.p_WB.shape[:-2]:
        where = jax.vmap(where)
    return where(state)
