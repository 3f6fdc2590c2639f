"""Whether a State belongs to a Model: asked before anything is computed, so shapes only."""

import numpy as np

from backflip.model.fields import STATE_FIELDS, a_kind, expect_model, expect_precision
from backflip.model.model import Model, State


def expect_state(who: str, model: Model, state: State) -> None:
    """Refuse what is no State, and one that is batched or of another model; `model` likewise."""
    expect_model(who, model)
    if not isinstance(state, State):
        raise TypeError(f"{who}: {a_kind(state)} was given where a State belongs; mind the order")
    n = len(model.topology.bodies)
    wanted = {name: (n, *field.each) for name, field in STATE_FIELDS.items()}
    for name, want in (wanted | {"force": (model.topology.layout.rows,)}).items():
        have = np.shape(getattr(state, name))
        if have != want:
            raise ValueError(
                f"{who}: state.{name} has shape {have} but this model needs {want}; "
                "make states with rest(model), and for a batch wrap the call in jax.vmap"
            )
    expect_precision(who, "state", state)
    own, theirs = state.p_WB.dtype, model.gravity.dtype
    if own != theirs:
        raise ValueError(f"{who}: the state is in {own} but the model in {theirs}; make both anew")
