"""A body that settles keeps a tame gradient: its last small bounces must not multiply it."""

import equinox as eqx
import jax
import jax.numpy as jnp

import backflip as bf


def test_a_cube_that_settles_with_restitution_keeps_a_tame_gradient():
    b = bf.Builder()
    b.add_ground(friction=0.3, restitution=0.5)
    b.add_body("cube", bf.Box((0.2, 0.2, 0.2)), mass=1.0, position=(0, 0, 0.165), rotation=(0.3, 0.5, 0))
    model = b.build()
    start = bf.rest(model)
    scheme = bf.Scheme(dt=1e-3)

    def end(height):
        state = eqx.tree_at(lambda s: s.p_WB, start, start.p_WB.at[0, 2].set(height))
        last = bf.rollout(scheme, model, state, steps=200).last
        return jnp.concatenate([last.p_WB[0], last.v_WB[0]])

    slopes = jax.jit(jax.vmap(jax.jacfwd(end)))(jnp.linspace(0.165, 0.166, 16))
    assert float(jnp.abs(slopes).max()) < 1e3
