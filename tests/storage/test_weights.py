"""Weights come back as they went, or are refused by name."""

import jax.numpy as jnp
import numpy as np
import pytest

from backflip.storage import load_weights, save_weights


def test_weights_come_back_as_they_went(tmp_path) -> None:
    tree = {"layers": [{"w": jnp.arange(6.0).reshape(2, 3), "act": jnp.tanh}], "b": jnp.ones(2)}
    empty = {"layers": [{"w": jnp.zeros((2, 3)), "act": jnp.tanh}], "b": jnp.zeros(2)}
    back = load_weights(save_weights(tmp_path / "w.npz", tree), empty)
    assert (back["layers"][0]["w"] == tree["layers"][0]["w"]).all() and (back["b"] == 1).all()
    assert back["layers"][0]["act"] is jnp.tanh


def test_weights_that_do_not_fit_are_refused_by_name(tmp_path) -> None:
    path = save_weights(tmp_path / "w.npz", {"w": jnp.ones(2)})
    with pytest.raises(ValueError, match=r"\['w'\] has shape \(2,\); \(3,\) is wanted"):
        load_weights(path, {"w": jnp.ones(3)})
    with pytest.raises(ValueError, match="names do not fit"):
        load_weights(path, {"v": jnp.ones(2)})


def test_weights_that_would_run_code_are_refused(tmp_path) -> None:
    np.savez(tmp_path / "w.npz", **{"['w']": np.array([print], dtype=object)}, allow_pickle=True)
    with pytest.raises(ValueError, match="holds Python objects, which are never loaded"):
        load_weights(tmp_path / "w.npz", {"w": jnp.ones(1)})
