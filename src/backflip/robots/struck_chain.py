"""A ball rolls into a hanging chain: the scene of Belbute-Peres et al., section 4.1."""

import backflip as bf

LINK, RADIUS = 1.0, 0.05
"""[m] from pin to pin, and of the capsules between"""
BALL, BALL_MASS = 0.2, 50.0
"""[m] and [kg]: heavier than what it hits, so it rolls on and strikes once, whatever the chain weighs"""
SPEED = 4.0
"""[m/s]"""
AWAY = 2.0
"""[m] from the ball's centre to the chain, at the start"""
REACH = 2
"""links from below that the ball may touch; it rolls beneath the others"""
Y = (0.0, 1.0, 0.0)


def struck_chain(
    links: int = 10,
    *,
    mass: float = 7.0,
    ball_mass: float = BALL_MASS,
    friction: float = 0.2,
    restitution: float = 0.5,
    speed: float = SPEED,
) -> bf.Model:
    """Links of `mass` [kg] each hang from the world, pinned together, and end just above the ground.

    Bodies are the links from above, then the ball, which rolls at `speed` [m/s]. Motion is in the x-z plane.
    """
    b = bf.Builder(planar=True)
    b.add_ground(friction=friction)
    top = links * LINK + RADIUS
    for i in range(links):
        z = top - i * LINK
        name, above = f"link {i}", "world" if i == 0 else f"link {i - 1}"
        shape = bf.Capsule(RADIUS, LINK - 2 * RADIUS)
        b.add_body(
            name,
            shape,
            mass=mass,
            position=(0.0, 0.0, z - LINK / 2),
            group="chain",
            friction=friction,
            restitution=restitution,
        )
        b.add_hinge(f"pin {i}", above, name, position=(0.0, 0.0, z), axis=Y)
        b.ignore_contact("world", name)
    b.add_body(
        "ball",
        bf.Sphere(BALL),
        mass=ball_mass,
        position=(-AWAY, 0.0, BALL),
        velocity=(speed, 0.0, 0.0),
        spin=(0.0, speed / BALL, 0.0),
        friction=friction,
        restitution=restitution,
    )
    for i in range(links - REACH):
        b.ignore_contact("ball", f"link {i}")
    return b.build()
