"""A ball on the ground: the first experiment of Degrave et al."""

import backflip as bf


def ball(
    *,
    radius: float = 0.5,
    density: float = 1000.0,
    friction: float = 1.0,
    restitution: float = 0.5,
    height: float | None = None,
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> bf.Model:
    """A solid ball whose centre starts at `height` [m]; None: it lies on the ground."""
    b = bf.Builder()
    b.add_body(
        "ball",
        bf.Sphere(radius),
        density=density,
        position=(0.0, 0.0, radius if height is None else height),
        velocity=velocity,
    )
    b.add_ground(friction=friction, restitution=restitution)
    b.add_sensor(bf.Position("ball"), bf.Velocity("ball"))
    return b.build()
