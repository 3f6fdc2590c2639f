"""A robot that lands: more rows hold it than it has freedoms, and its gradient is that of differences."""

import jax
import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip.robots import quadruped

STEPS = 10
"""The feet land in the fifth"""


def test_a_robot_that_lands_on_four_feet_has_the_gradient_of_its_differences():
    model, scheme = quadruped(), bf.Scheme(0.01)
    targets = np.tile([0.1, -0.2], 4) + 0.01 * np.random.default_rng(0).normal(size=8)

    @jax.jit
    @jax.vmap
    def heights(u):
        states = bf.rollout(scheme, model, bf.rest(model), jnp.broadcast_to(u, (STEPS, 8))).state
        return states.p_WB[:, 0].sum(-1), states.force

    def along(part):
        return heights((targets + part)[None])[0][0]

    direction = jnp.eye(8)[0]
    slope = jax.jit(lambda x: jax.jvp(along, (x,), (direction,))[1])(jnp.zeros(8))
    h = 1e-5
    ends, forces = heights(targets + h * np.stack([direction, -direction]))
    assert (forces[0, :, 8::3] > 0).sum(-1).max() == 4
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-5)
