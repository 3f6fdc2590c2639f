"""Disturbed starts of a quadruped, and what its walk is judged by."""

import dataclasses
from typing import Any, NamedTuple

TILT, LOW = 0.7, 0.2
"""a robot fell where its spine's tilt has a lower cosine, or its centre is below so many [m]"""
DISTURBANCE = 0.1, 0.2, 0.5, 0.05
"""[rad] turn, [m/s] push, [rad/s] spin: standard deviations; [m] how far the robot falls at first"""


class Walk(NamedTuple):
    """A quadruped's walk, step by step."""

    ahead: Any
    """(steps,) [m/s] of the spine, along the way it faces"""
    upright: Any
    """(steps,) cosine of the spine's tilt"""
    height: Any
    """(steps,) [m] of the spine"""
    power: Any
    """(steps,) [W] that the servos give; what they take back when braking is lost"""
    place: Any
    """(steps, 2) [m] over the ground"""
    weight: Any
    """[N]"""

    @property
    def speed(self):
        """[m/s] mean."""
        return self.ahead.mean()

    @property
    def cost_of_transport(self):
        """Work per weight and way."""
        return self.power.mean() / (self.weight * abs(self.speed) + 1e-6)

    @property
    def fell(self):
        """Whether it fell at any time."""
        return (self.upright.min() < TILT) | (self.height.min() < LOW)


def walk_of(model, start, path) -> Walk:
    """What a trajectory that began in `start` is worth."""
    import jax
    import jax.numpy as jnp

    import backflip as bf

    after = path.state
    before = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b[:-1]]), start, after)
    power = jax.vmap(lambda a, b: bf.servo_power(model, a, b))(before, after)
    spine, velocity = after.R_WB[:, 0], after.v_WB[:, 0]
    return Walk(
        ahead=(spine[:, :, 0] * velocity).sum(-1),
        upright=spine[:, 2, 2],
        height=after.p_WB[:, 0, 2],
        power=jnp.maximum(power, 0).sum(-1),
        place=after.p_WB[:, 0, :2],
        weight=bf.total_mass(model) * jnp.linalg.norm(model.gravity),
    )


def disturbed(state, key, disturbance: tuple[float, float, float, float] = DISTURBANCE):
    """The state turned, lifted, pushed and spun as a whole, at random."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.spatial.transform import Rotation

    *sizes, drop = disturbance
    turn, push, spin = (
        size * jax.random.normal(k, (3,)) for size, k in zip(sizes, jax.random.split(key, 3), strict=True)
    )
    R = Rotation.from_rotvec(turn).as_matrix()
    centre = state.p_WB[0]
    arm = (state.p_WB - centre) @ R.T
    lift = jnp.array([0.0, 0.0, drop])
    return dataclasses.replace(
        state,
        p_WB=centre + lift + arm,
        R_WB=jnp.einsum("ij,njk->nik", R, state.R_WB),
        v_WB=push + jnp.cross(spin, arm),
        w_WB=jnp.broadcast_to(spin, arm.shape),
    )
