"""What all tests of the dynamics need: playing a model for a while."""

from functools import partial

import jax
import pytest

import backflip as bf


@partial(jax.jit, static_argnames=("steps",))
def _play(scheme, model, state, u=None, *, steps):
    """All states after each of `steps` steps, every array with a leading axis (steps,)."""

    def advance(now, _):
        after = bf.step(scheme, model, now, u)
        return after, after

    return jax.lax.scan(advance, state, None, length=steps)[1]


@pytest.fixture(scope="session")
def play():
    return _play
