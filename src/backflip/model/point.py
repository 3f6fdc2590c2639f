"""Any point of a body, in the world."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from backflip.math import cross, matvec
from backflip.model.bodies import centre_of_mass
from backflip.model.expect import expect_state
from backflip.model.model import Model, State
from backflip.model.notes import Numbers


class Point(NamedTuple):
    """A point that moves."""

    position: Array
    """(..., 3) [m], in W"""
    velocity: Array
    """(..., 3) [m/s], in W"""


def point(model: Model, state: State, body: str, p_B: ArrayLike | Numbers = (0.0, 0.0, 0.0)) -> Point:
    """Position and velocity in W of a point of a body, given in its frame B from its origin (..., 3) [m].

    Differentiable by all of model, state and p_B. For states with leading axes wrap it in jax.vmap.
    """
    expect_state("point", model, state)
    place = jnp.asarray(p_B, state.p_WB.dtype)
    if place.shape[-1:] != (3,):
        raise ValueError(f"point: p_B has shape {place.shape}; give (3,) or (..., 3) numbers in metres")
    return _point(model, state, model.body(body), place)


@partial(jax.jit, static_argnums=2)
def _point(model: Model, state: State, b: int, p_B: Array) -> Point:
    # p_WP = p_WC + R_WB (p_BP − p_BC)
    arm = matvec(state.R_WB[b], p_B - centre_of_mass(model, b))
    return Point(state.p_WB[b] + arm, state.v_WB[b] + cross(state.w_WB[b], arm))
