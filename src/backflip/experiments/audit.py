"""Whether a motion obeys physics: joints closed, no overlap, no energy from nothing, at every step."""

from typing import Any, NamedTuple

import numpy as np

JOINT, DEPTH = 1e-3, 5e-3
"""[m] most that a joint may open, and that shapes may overlap"""
CREATED = 0.02
"""most energy that may appear from nothing, as a part of the work that the servos did"""
FINER = 4
"""how many times smaller the time step of the second look is"""


class Audit(NamedTuple):
    """What is small in a motion that obeys physics."""

    joint_error: float
    """[m] largest distance between the two anchors of a joint"""
    penetration: float
    """[m] deepest overlap of two shapes"""
    created: float
    """[J] largest rise of energy over what the servos put in; losses only make it fall"""
    work: float
    """[J] that the servos did, braking counted too"""

    @property
    def ok(self) -> bool:
        """Whether this is a motion that counts."""
        closed, outside = self.joint_error <= JOINT, self.penetration <= DEPTH
        return closed and outside and self.created <= CREATED * self.work + 1e-3

    def text(self) -> str:
        """In words."""
        return (
            f"joints open {1e3 * self.joint_error:.2f} mm, overlap {1e3 * self.penetration:.2f} mm, "
            f"{self.created:.2g} of {self.work:.3g} J from nothing"
        )


BARS = f"joints {1e3 * JOINT:g} mm, overlap {1e3 * DEPTH:g} mm, {100 * CREATED:g} % of the work from nothing"


def audit(model: Any, start: Any, trajectory: Any) -> Audit:
    """Go through every state of a trajectory that began in `start`."""
    import jax
    import jax.numpy as jnp

    import backflip as bf

    @jax.jit
    def look(model, states):
        before = jax.tree.map(lambda x: x[:-1], states)
        after = jax.tree.map(lambda x: x[1:], states)
        return (
            jax.vmap(lambda s: jnp.max(bf.joint_error(model, s), initial=0))(after),
            jax.vmap(lambda s: bf.penetration(model, s))(after),
            jax.vmap(lambda s: bf.energy(model, s))(states),
            jax.vmap(lambda a, b: bf.servo_power(model, a, b))(before, after),
        )

    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, trajectory.state)
    error, depth, energy, power = (np.asarray(x, float) for x in look(model, states))
    done = trajectory.dt * np.concatenate([[0.0], np.cumsum(power.sum(-1))])
    surplus = energy - done
    rise = float(np.max(surplus - np.minimum.accumulate(surplus)))
    return Audit(float(error.max()), float(depth.max()), rise, float(trajectory.dt * np.abs(power).sum()))


def finer(scheme: Any) -> Any:
    """The same solver with steps a quarter as long."""
    import backflip as bf

    return bf.Scheme(scheme.dt / FINER, scheme.solver)
