"""Masses, inertias and centres of mass, recomputed from the Model so that their gradients are right."""

from functools import reduce
from operator import add
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.geometry import Bulk
from backflip.math import dot, inverse3, matmul, matvec, outer, turned
from backflip.model.model import Model


class Bodies(NamedTuple):
    """What a body weighs and where its parts are, counted from its centre of mass C along the axes of B."""

    mass: Array
    """(n,) [kg]"""
    inertia: Array
    """(n, 3, 3) [kg m²] about the centre of mass, in B"""
    inverse_inertia: Array
    """(n, 3, 3) [1/(kg m²)], in B"""
    com: Array
    """(n, 3) [m] centre of mass, in B"""
    p_CS: Array
    """(s, 3) [m] shapes, from the centre of mass C of their body, in B (in W for the world)"""
    p_CJ_A: Array
    """(j, 3) [m] joint on the parent A, from the centre of mass of A, in A (in W for the world)"""
    p_CJ_B: Array
    """(j, 3) [m] joint on the child B, from the centre of mass of B, in B"""
    p_CF: Array
    """(m, 3) [m] where body forces act, from the centre of mass, in B"""


def bodies_of(model: Model) -> Bodies:
    """Add up densities and shapes, then shift every frame to the centres of mass."""
    facts = model.topology
    mass, com, inertia = _add_up(model)
    # one more row for the world, whose frame is W itself: index −1 finds it
    shift = jnp.concatenate([com, jnp.zeros((1, 3), com.dtype)])
    driven = [facts.actuators[i].index for i in facts.on_body]
    return Bodies(
        mass=mass,
        inertia=inertia,
        inverse_inertia=inverse3(inertia),
        com=com,
        p_CS=model.p_BS - shift[_index(s.body for s in facts.shapes)],
        p_CJ_A=model.p_AJ - shift[_index(j.a for j in facts.joints)],
        p_CJ_B=model.p_BJ - shift[_index(j.b for j in facts.joints)],
        p_CF=model.point - shift[_index(driven)],
    )


def centre_of_mass(model: Model, body: int) -> Array:
    """(3,) [m] of one body, from its origin, in B."""
    return _one_body(model, body)[1]


def _index(numbers) -> np.ndarray:
    return np.array(list(numbers), int)


def _add_up(model: Model) -> tuple[Array, Array, Array]:
    """Mass (n,), centre of mass (n, 3) and inertia (n, 3, 3) body by body."""
    results = [_one_body(model, b) for b in range(len(model.topology.bodies))]
    return tuple(jnp.stack(column) for column in zip(*results, strict=True))  # type: ignore[return-value]


def _one_body(model: Model, b: int) -> tuple[Array, Array, Array]:
    facts = model.topology
    if facts.inertia_given[b]:
        return model.mass[b], jnp.zeros_like(model.gravity), model.inertia[b]
    parts = [i for i, s in enumerate(facts.shapes) if s.body == b and not s.kind.endless]
    bulks = [facts.shapes[i].kind.bulk(model.form(i)) for i in parts]
    whole = _sum([one.volume for one in bulks])
    # a given mass is spread over the shapes by volume; densities are then 0
    masses = [
        model.mass[b] * (one.volume / whole) + model.density[i] * one.volume
        for i, one in zip(parts, bulks, strict=True)
    ]
    mass = _sum(masses)
    centres = [model.p_BS[i] + matvec(model.R_BS[i], one.centre) for i, one in zip(parts, bulks, strict=True)]
    com = _sum([m * c for c, m in zip(centres, masses, strict=True)]) / mass
    inertias = [_about(model.R_BS[i], one, c - com) for i, one, c in zip(parts, bulks, centres, strict=True)]
    return mass, com, _sum([m * J for m, J in zip(masses, inertias, strict=True)])


def _sum(arrays: list[Array]) -> Array:
    return reduce(add, arrays)


def _about(R: Array, one: Bulk, d: Array) -> Array:
    """Inertia per mass of a shape about a point −d from its centre: R J Rᵀ + |d|² I − d dᵀ (Steiner)."""
    return turned(R, one.inertia) + dot(d, d) * jnp.eye(3, dtype=d.dtype) - outer(d, d)


def shape_poses(model: Model, bodies: Bodies, p_WB: Array, R_WB: Array) -> tuple[Array, Array]:
    """p_WS (s, 3) and R_WS (s, 3, 3) of every shape."""
    index = _index(s.body for s in model.topology.shapes)
    p, R = with_world(p_WB, R_WB)
    return p[index] + matvec(R[index], bodies.p_CS), matmul(R[index], model.R_BS)


def with_world(p_WB: Array, R_WB: Array) -> tuple[Array, Array]:
    """Poses with the world's appended, so that index −1 finds it."""
    p = jnp.concatenate([p_WB, jnp.zeros((1, 3), p_WB.dtype)])
    R = jnp.concatenate([R_WB, jnp.eye(3, dtype=R_WB.dtype)[None]])
    return p, R
