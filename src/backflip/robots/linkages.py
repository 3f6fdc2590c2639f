"""Links and hinges that swing from the world in the x-z plane."""

import math

import backflip as bf

Y = (0.0, 1.0, 0.0)
TURN_DOWN = (0.0, math.pi / 2, 0.0)
"""[rad] lays a capsule, which is long along z, along x"""


def pendulum(
    *, length: float = 1.0, mass: float = 1.0, radius: float = 0.05, motor: bool = False
) -> bf.Model:
    """A ball of `mass` [kg] that hangs `length` [m] below its hinge; u is the torque of its motor, if any."""
    b = bf.Builder()
    b.add_body("bob", bf.Sphere(radius), mass=mass, position=(0.0, 0.0, -length))
    b.add_hinge("pivot", "world", "bob", position=(0.0, 0.0, 0.0), axis=Y)
    if motor:
        b.add_motor("pivot")
    b.add_sensor(bf.JointAngle("pivot"), bf.JointRate("pivot"))
    return b.build()


def chain(
    links: int = 5,
    *,
    length: float = 0.2,
    radius: float = 0.02,
    mass: float = 0.1,
    load: float | None = None,
) -> bf.Model:
    """Links of `length` [m] and `mass` [kg] laid out along x from the world; `load` [kg]: the last one's."""
    b = bf.Builder()
    for i in range(links):
        weight = load if load is not None and i == links - 1 else mass
        name, above = f"link {i}", "world" if i == 0 else f"link {i - 1}"
        b.add_body(name, mass=weight, position=((i + 0.5) * length, 0.0, 0.0), group="chain")
        b.add_shape(name, bf.Capsule(radius, length), rotation=TURN_DOWN)
        b.add_hinge(f"hinge {i}", above, name, position=(i * length, 0.0, 0.0), axis=Y)
    return b.build()


def four_bar(
    *,
    crank: float = 0.3,
    coupler: float = 0.8,
    rocker: float = 0.6,
    ground: float = 0.7,
    radius: float = 0.02,
) -> bf.Model:
    """Crank, coupler and rocker [m] between two hinges `ground` [m] apart; u is the crank's torque.

    The crank starts upright; the rocker's hinge closes the loop.
    """
    tip, far = (0.0, crank), (ground, 0.0)
    elbow = _meet(tip, coupler, far, rocker)
    b = bf.Builder()
    for name, start, end in (("crank", (0.0, 0.0), tip), ("coupler", tip, elbow), ("rocker", elbow, far)):
        _add_link(b, name, start, end, radius)
    b.add_hinge("motor", "world", "crank", position=_at(0.0, 0.0), axis=Y)
    b.add_hinge("tip", "crank", "coupler", position=_at(*tip), axis=Y)
    b.add_hinge("elbow", "coupler", "rocker", position=_at(*elbow), axis=Y)
    b.add_hinge("far", "world", "rocker", position=_at(*far), axis=Y)
    b.add_motor("motor")
    b.add_sensor(bf.JointAngle("motor"), bf.JointAngle("far"))
    return b.build()


def _at(x: float, z: float) -> tuple[float, float, float]:
    return (x, 0.0, z)


def _add_link(b: bf.Builder, name: str, start: tuple, end: tuple, radius: float) -> None:
    """A capsule from `start` to `end`, both (x, z)."""
    dx, dz = end[0] - start[0], end[1] - start[1]
    middle = _at((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    b.add_body(name, position=middle, rotation=(0.0, math.atan2(dx, dz), 0.0), group="four-bar")
    b.add_shape(name, bf.Capsule(radius, math.hypot(dx, dz)))


def _meet(p: tuple, r: float, q: tuple, s: float) -> tuple[float, float]:
    """The upper point (x, z) that is r from p and s from q."""
    dx, dz = q[0] - p[0], q[1] - p[1]
    d = math.hypot(dx, dz)
    if d > r + s or d < abs(r - s):
        raise ValueError(f"four_bar: coupler {r} and rocker {s} cannot bridge {d:.3g} m; change a length")
    along = (d * d + r * r - s * s) / (2 * d)
    up = math.sqrt(r * r - along * along)
    return p[0] + (along * dx - up * dz) / d, p[1] + (along * dz + up * dx) / d
