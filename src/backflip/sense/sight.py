"""What sensors look at."""

from functools import cached_property

import jax.numpy as jnp
from jax import Array

from backflip.dynamics.contacts import contact_forces
from backflip.dynamics.joints import joint_coordinates
from backflip.dynamics.motion import Motion
from backflip.math import cross, matvec
from backflip.model import Bodies, Model, Point, State, bodies_of


class Sight:
    """A Model in a State, and what follows from the two; each is worked out when a sensor first asks."""

    def __init__(self, model: Model, state: State):
        self.model, self.state = model, state

    @cached_property
    def bodies(self) -> Bodies:
        """Masses and centres of mass."""
        return bodies_of(self.model)

    @cached_property
    def motion(self) -> Motion:
        """Poses and velocities of the centres of mass."""
        s = self.state
        return Motion(s.p_WB, s.R_WB, s.v_WB, s.w_WB)

    @cached_property
    def coordinates(self) -> tuple[Array, Array]:
        """Positions (c,) [rad] or [m] and velocities (c,) of all joint coordinates."""
        return joint_coordinates(self.model, self.bodies, self.motion)

    def coordinates_of(self, joint: str) -> slice:
        """Where those of one joint are."""
        return self.model.topology.coordinates_of(self.model.joint(joint))

    @cached_property
    def contact_forces(self) -> Array:
        """(s, 3) [N] mean contact force on every shape over the last step, in W."""
        return contact_forces(self.model, self.bodies, self.motion, self.state.force)

    def arm(self, body: int, p_B: Array) -> Array:
        """(3,) [m] from the centre of mass of a body to its point p_B, in W."""
        return matvec(self.state.R_WB[body], jnp.asarray(p_B) - self.bodies.com[body])

    def point(self, body: str, p_B: Array) -> Point:
        """Position and velocity (3,) in W of a point of a body, which is given in B from its origin."""
        b = self.model.body(body)
        arm = self.arm(b, p_B)
        return Point(self.state.p_WB[b] + arm, self.state.v_WB[b] + cross(self.state.w_WB[b], arm))
