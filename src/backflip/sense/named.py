"""Joints and contacts by name."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip import lanes
from backflip.dynamics.contacts import contact_shapes, force_of_contacts
from backflip.model import Model, State, expect_state
from backflip.sense.sight import Sight


def joint_positions(model: Model, state: State) -> dict[str, Array]:
    """Angle [rad] or place [m] of every joint that has one, by name: (), or (2,) of a universal joint."""
    expect_state("joint_positions", model, state)
    return _by_joint(model, _coordinates(model, state)[0])


def joint_velocities(model: Model, state: State) -> dict[str, Array]:
    """Rate [rad/s] or [m/s] of every joint that has one, by name: (), or (2,) of a universal joint."""
    expect_state("joint_velocities", model, state)
    return _by_joint(model, _coordinates(model, state)[1])


@jax.jit
@lanes.compile
def _coordinates(model: Model, state: State) -> tuple[Array, Array]:
    return Sight(model, state).coordinates


def _by_joint(model: Model, values: Array) -> dict[str, Array]:
    facts = model.topology
    places = {fact.name: facts.coordinates_of(j) for j, fact in enumerate(facts.joints)}
    sizes = {name: at.stop - at.start for name, at in places.items()}
    return {
        name: values[at.start] if sizes[name] == 1 else values[at]
        for name, at in places.items()
        if sizes[name]
    }


def contact_force(model: Model, state: State, shape: str, other: str) -> Array:
    """Mean contact force (3,) [N] on a shape from another over the last step, in W."""
    expect_state("contact_force", model, state)
    facts = model.topology
    pair = facts.shape(shape), facts.shape(other)
    if not {pair, pair[::-1]} & set(facts.pairs):
        raise ValueError(
            f'contact_force: shapes "{shape}" and "{other}" never touch in this model: they are on one body, '
            "joined, of one group, or let pass; see add_body(group=...), collide=... and ignore_contact()"
        )
    return _force_between(model, state, *pair)


@partial(jax.jit, static_argnums=(2, 3))
def _force_between(model: Model, state: State, i: int, k: int) -> Array:
    sight = Sight(model, state)
    first, second = contact_shapes(model)
    sign = np.where((first == k) & (second == i), 1.0, np.where((first == i) & (second == k), -1.0, 0.0))
    on_second = force_of_contacts(model, sight.bodies, sight.motion, state.force)
    chosen = np.flatnonzero(sign)
    return jnp.sum(jnp.asarray(sign[chosen, None], on_second.dtype) * on_second[chosen], 0)
