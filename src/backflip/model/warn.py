"""What is no mistake but seldom meant: warnings of build()."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip import lanes
from backflip.model.bodies import bodies_of, shape_poses
from backflip.model.facts import PairGroup
from backflip.model.model import Model, State
from backflip.model.rest import rest

DEEP = 0.05
"""Overlap at the start, as a part of the smaller shape, that is worth a warning."""


def warn_of_overlap(model: Model) -> None:
    """Warn of shapes that start deep inside each other: the first step would blast them apart."""
    facts = model.topology
    if not facts.pairs:
        return
    pairs = [pair for group in facts.pair_groups for pair in group.pairs]
    gaps = np.asarray(_smallest_gaps(model, rest(model)))
    model = jax.tree.map(np.asarray, model)  # JAX would compile every slice
    for (i, k), gap in zip(pairs, gaps, strict=True):
        a, b = facts.shapes[i], facts.shapes[k]
        smallest = min(_smallest(model, x) for x in (i, k))
        if -gap > DEEP * smallest:
            warnings.warn(
                f'shapes "{a.name}" and "{b.name}" start {-gap:.3g} m inside each other; '
                "move one of them, or let them pass with ignore_contact() or a common group",
                stacklevel=3,
            )


@jax.jit
@lanes.compile
def _smallest_gaps(model: Model, state: State) -> Array:
    """The smallest gap [m] of every pair of shapes, group by group."""
    facts = model.topology
    p_WS, R_WS = shape_poses(model, bodies_of(model), state.p_WB, state.R_WB)

    def smallest_gap(group: PairGroup) -> Array:
        i, k = (list(side) for side in zip(*group.pairs, strict=True))
        form_a, form_b = (model.forms(side) for side in (i, k))
        a, b = ((p_WS[np.array(x)], R_WS[np.array(x)]) for x in (i, k))
        return jnp.min(jax.vmap(group.pair.collide)(form_a, *a, form_b, *b).gap, -1)

    return jnp.concatenate([smallest_gap(group) for group in facts.pair_groups])


def _smallest(model: Model, shape: int) -> float:
    """The smallest length [m] of a shape; inf for a plane, which has none."""
    return model.topology.shapes[shape].kind.smallest(model.form(shape))
