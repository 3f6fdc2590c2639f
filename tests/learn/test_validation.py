"""Training judges policies by robots that stay the same, and notices what is wrong before it begins."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import backflip as bf

training = importlib.import_module(bf.train.__module__)
loop = importlib.import_module("backflip.learn.loop")
KEY = jax.random.key(4)
QUIET = bf.Progress(quiet=True)


def train(cost, policy, **options):
    usual = {"optimizer": optax.sgd(0.1), "updates": 1, "key": KEY, "progress": QUIET}
    return bf.train(cost, policy, **(usual | options))


def bowl(w, key):
    """The plainest cost."""
    return jnp.sum(w**2)


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def noisy_bowl(w, key):
    """A bowl that lucky robots find shallow."""
    return jnp.sum(w**2) * jax.random.uniform(key)


def test_the_best_policy_is_chosen_by_robots_that_stay_the_same():
    _, log = train(noisy_bowl, jnp.ones(2), optimizer=optax.sgd(-0.05), updates=9, validation_every=3)
    assert log.cost.min() < log.cost[0], "a lucky batch"
    assert (np.flatnonzero(np.isfinite(log.validation)) == [0, 3, 6]).all()
    assert (np.diff(log.validation[::3]) > 0).all() and log.best_update == 0
    assert_same(log.best, jnp.ones(2))
    keys = jax.random.split(jax.random.fold_in(KEY, training.VALIDATION_KEY), 8)
    expected = np.mean([noisy_bowl(jnp.ones(2), key) for key in keys])
    assert log.best_cost == log.validation[0] == pytest.approx(expected, rel=1e-6)


def test_the_last_policy_is_judged_too_and_going_on_does_not_depend_on_it(tmp_path):
    _, short = train(noisy_bowl, jnp.ones(2), updates=5, validation_every=4, folder=tmp_path)
    assert short.best_update == 5
    options = {"updates": 7, "validation_every": 4}
    _, log = train(noisy_bowl, jnp.ones(2), folder=tmp_path, resume=True, **options)
    _, straight = train(noisy_bowl, jnp.ones(2), **options)
    assert_same(log.best, straight.best)
    assert (log.best_update, log.best_cost) == (
        straight.best_update,
        straight.best_cost,
    ) and log.best_cost > 0
    np.testing.assert_array_equal(log.validation, straight.validation)


def test_two_trainings_in_one_folder_notice_each_other(tmp_path):
    def again(row):
        train(bowl, jnp.ones(2), folder=tmp_path)

    with pytest.raises(ValueError, match=r"process [0-9]+ is using this folder"):
        train(bowl, jnp.ones(2), folder=tmp_path, until=again)


def test_a_damaged_checkpoint_costs_some_updates_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    train(bowl, jnp.ones(2), updates=5, folder=tmp_path)
    whole = (tmp_path / "checkpoint.npz").read_bytes()
    (tmp_path / "checkpoint.npz").write_bytes(whole[:-40])
    with pytest.warns(UserWarning, match="damaged.*older"):
        policy, log = train(bowl, jnp.ones(2), updates=5, folder=tmp_path, resume=True)
    assert_same(policy, train(bowl, jnp.ones(2), updates=5)[0])
    assert len(log.rows) == 5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cost": jnp.ones(2), "policy": bowl}, r"cost is .*; give a function"),
        ({"policy": jnp.tanh}, "no arrays of floats"),
        ({"optimizer": 0.1}, "optimizer is 0.1; give one of optax"),
        ({"key": 0}, r"key is 0; give one key, such as jax.random.key\(0\)"),
        ({"key": jax.random.split(KEY, 3)}, "give one key"),
        ({"updates": 0}, "updates is 0"),
        ({"robots": 0}, "robots is 0"),
        ({"robots": 2.5}, "robots is 2.5; give a whole number"),
        ({"validation_robots": "8"}, "validation_robots is '8'; give a whole number"),
        ({"validation_every": 0}, "validation_every is 0"),
    ],
)
def test_arguments_that_are_swapped_or_wrong_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        train(**({"cost": bowl, "policy": jnp.ones(2)} | wrong))
