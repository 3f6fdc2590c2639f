"""Model and State: two frozen pytrees that carry everything a step reads."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry import Form, Polytope
from backflip.model.facts import Topology


class Model(eqx.Module):
    """What exists. Every array is differentiable; everything discrete is in `topology`.

    n bodies, s shapes, j joints, c coordinates, f servos, m body forces and torques, z sensors.
    A body's frame B has its origin where its `position` was given, and every point on a body is counted from
    there, in B: shapes, joints, forces, sensors. Where the centre of mass is, Bodies says.
    """

    gravity: Array
    """(3,) [m/s²], in W"""
    mass: Array
    """(n,) [kg] given mass; 0 where the mass comes from densities"""
    inertia: Array
    """(n, 3, 3) [kg m²] given inertia about the centre of mass, in B; 0 where it comes from shapes"""
    position: Array
    """(n, 3) [m] where the body frame starts, in W"""
    rotation: Array
    """(n, 3, 3) how the body frame starts, R_WB"""
    velocity: Array
    """(n, 3) [m/s] of the centre of mass at the start, in W"""
    spin: Array
    """(n, 3) [rad/s] angular velocity at the start, in W"""

    size: Array
    """(s, 3) [m] sphere: radius; capsule, cylinder: radius, length; box: edges; 0 for planes and hulls"""
    vertices: Array
    """(v, 3) [m] corners of all hulls, one after the other, in the shapes' frames"""
    p_BS: Array
    """(s, 3) [m] shape centre, in B"""
    R_BS: Array
    """(s, 3, 3) shape orientation"""
    density: Array
    """(s,) [kg/m³]; 0 on bodies whose mass is given"""
    friction: Array
    """(s,) Coulomb's μ"""
    restitution: Array
    """(s,) Newton's e"""

    p_AJ: Array
    """(j, 3) [m] joint frame on the parent"""
    R_AJ: Array
    """(j, 3, 3) z is the axis of a hinge or slider and the first axis of a universal joint"""
    p_BJ: Array
    """(j, 3) [m] joint frame on the child"""
    R_BJ: Array
    """(j, 3, 3) x is the second axis of a universal joint"""
    stiffness: Array
    """(c,) [N m/rad] or [N/m]"""
    damping: Array
    """(c,) [N m s/rad] or [N s/m]"""
    neutral: Array
    """(c,) [rad] or [m] where the spring is at ease"""
    lower: Array
    """(c,) [rad] or [m]; 0 where there is no limit"""
    upper: Array
    """(c,) [rad] or [m]; 0 where there is no limit"""
    ball_damping: Array
    """(j,) [N m s/rad] of ball joints"""
    frequency: Array
    """(j,) [Hz] of soft joints; 0 elsewhere"""
    damping_ratio: Array
    """(j,) of soft joints"""

    gain: Array
    """(f,) [1/s] of servos"""
    max_velocity: Array
    """(f,) [rad/s] or [m/s] of servos"""
    max_torque: Array
    """(f,) [N m] or [N] of servos"""
    direction: Array
    """(m, 3) what one unit of u gives, in B: [N] or [N m]"""
    point: Array
    """(m, 3) [m] where a body force acts, in B"""
    sensors: tuple[dict[str, Array], ...]
    """(z) what each sensor is differentiable by: `position` of an IMU, `target` of a Distance"""

    topology: Topology = eqx.field(static=True)

    @property
    def controls(self) -> int:
        """How many numbers `u` has."""
        return len(self.topology.actuators)

    @property
    def observation_size(self) -> int:
        """How many numbers observe() gives."""
        facts = self.topology
        return sum(s.size(facts) for s in facts.sensors) if facts.sensors else 18 * len(facts.bodies)

    def body(self, name: str) -> int:
        """Index of a body, in arrays of the Model and of a State; an unknown name says which exist."""
        return self.topology.body(name)

    def joint(self, name: str) -> int:
        """Index of a joint."""
        return self.topology.joint(name)

    def shape(self, name: str) -> int:
        """Index of a shape."""
        return self.topology.shape(name)

    def actuator(self, name: str) -> int:
        """Place of an actuator in `u`."""
        return self.topology.actuator(name)

    def sensor(self, name: str) -> int:
        """Index of a sensor, `JointAngle(knee)` for one without a name of its own."""
        return self.topology.sensor(name)

    def form(self, shape: int) -> Form:
        """What a shape's geometry follows from: its size (3,) [m], or a Polytope if it has corners."""
        outline = self.topology.shapes[shape].outline
        if outline is None:
            return self.size[shape]
        return Polytope(self.vertices[self.topology.corners(shape)], outline)

    def forms(self, shapes: Sequence[int] | np.ndarray) -> Form:
        """The forms of shapes of one kind and outline, with a leading axis."""
        if self.topology.shapes[shapes[0]].outline is None:
            return self.size[np.asarray(shapes)]
        return jax.tree.map(lambda *x: jnp.stack(x), *(self.form(s) for s in shapes))


class State(eqx.Module):
    """Where everything is. The last three fields are what warm starts and sensors need of the last step.

    **Positions and velocities are those of the centres of mass**, not of the origins of the body frames.
    `point(model, state, body, p_B)` gives position and velocity of any point, the origin included.
    """

    p_WB: Array
    """(n, 3) [m] of the centres of mass, in W"""
    R_WB: Array
    """(n, 3, 3) orientations"""
    v_WB: Array
    """(n, 3) [m/s] of the centres of mass, in W"""
    w_WB: Array
    """(n, 3) [rad/s], in W"""
    a_WB: Array
    """(n, 3) [m/s²] mean acceleration of the centres of mass over the last step, in W"""
    dw_WB: Array
    """(n, 3) [rad/s²] mean angular acceleration over the last step, in W"""
    force: Array
    """(r,) [N] or [N m] row forces of the last step: limits, servos, loops, soft joints, contacts by three"""
