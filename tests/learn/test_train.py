"""Training descends, survives whatever is not finite, and ends the same however often it is stopped."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import backflip as bf

training = importlib.import_module(bf.train.__module__)
KEY = jax.random.key(4)
QUIET = bf.Progress(quiet=True)
SCHEME = bf.Scheme(0.1, bf.PGS(sweeps=1))
UPDATES = 12


def make_puck() -> bf.Model:
    """A free body with a push along x, 1 m from home."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0, position=(1, 0, 0))
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    return b.build()


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    return make_puck()


def journey(model, key):
    """A cost: how far from home a puck of random mass is."""
    heavier = eqx.tree_at(lambda m: m.mass, model, model.mass * jax.random.uniform(key, minval=0.5, maxval=2))

    def cost(policy, steps=10):
        x = bf.rollout(SCHEME, heavier, bf.rest(heavier), policy, steps=steps).state.p_WB[:, 0, 0]
        return jnp.mean(x**2), {"end": x[-1]}

    return cost


def network() -> bf.MLP:
    return bf.MLP(3, 1, (4,), key=jax.random.key(0))


def train(cost, policy, **options):
    usual = {"optimizer": optax.sgd(0.1), "updates": 1, "key": KEY, "progress": QUIET}
    return bf.train(cost, policy, **(usual | options))


def run(model, folder, **options):
    """The training that is stopped and resumed below."""
    return train(
        lambda policy, key: journey(model, key)(policy),
        network(),
        **({"optimizer": optax.adam(0.02), "updates": UPDATES, "folder": folder, "robots": 2} | options),
    )


def keys_of(update: int, robots: int):
    """What robots draw from."""
    return jax.random.split(jax.random.fold_in(KEY, update), robots)


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.fixture(scope="module")
def whole(puck, tmp_path_factory):
    """An uninterrupted run: folder, policy, log."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, *run(puck, folder)


def bowl(w, key):
    """The plainest cost."""
    return jnp.sum(w**2)


def test_an_update_is_the_mean_over_robots_that_differ(puck):
    before = network()
    value = lambda policy, key: journey(puck, key)(policy)[0]  # noqa: E731
    each = [eqx.filter_jit(eqx.filter_grad(value))(before, key) for key in keys_of(0, 3)]
    assert abs(each[0].top.bias - each[1].top.bias).max() > 1e-3
    after, _ = train(value, before, optimizer=optax.sgd(1.0), robots=3)
    expected = jax.tree.map(lambda w, *g: w - sum(g) / 3, eqx.filter(before, eqx.is_array), *each)
    for x, y in zip(jax.tree.leaves(eqx.filter(after, eqx.is_array)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9)


def test_an_update_is_compiled_once():
    traced = []
    train(lambda w, key: traced.append(0) or w**2, jnp.array(1.0), optimizer=optax.adam(0.1), updates=4)
    assert len(traced) == 3  # once to count steps, once to validate


def test_training_descends_and_keeps_the_best(whole):
    _, _, log = whole
    assert log.cost.shape == (UPDATES,) and log.cost[-1] < log.cost[0]
    assert log.best_cost < log.validation[0] and log.best_update in (10, UPDATES)
    assert not log.skipped and not log.interrupted


def test_the_log_is_json_lines(whole):
    folder, _, log = whole
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert rows == log.rows
    assert [row["update"] for row in rows] == list(range(UPDATES))
    assert set(rows[0]) == {"update", "simulations", "cost", "end", "norm", "seconds", "validation"}
    assert set(rows[1]) == set(rows[0]) - {"validation"}
    np.testing.assert_array_equal(log.column("end"), [row["end"] for row in rows])


def test_tensorboard_has_the_same_figures(whole):
    folder, _, log = whole
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = events.EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    np.testing.assert_allclose([e.value for e in board.Scalars("cost")], log.cost, rtol=1e-6)
    assert [e.step for e in board.Scalars("norm")] == list(range(UPDATES))


def test_the_bar_shows_cost_norm_and_speed(puck, capsys):
    progress = bf.Progress()
    train(
        lambda policy, key: journey(puck, key)(policy), network(), robots=2, progress=progress, label="pucks"
    )
    assert set(progress.figures) == {"cost", "end", "norm", "robot-steps/s"}
    shown = capsys.readouterr().err
    assert all(part in shown for part in ("pucks", "1/1", "left", "cost", "norm", "robot-steps/s"))


def kill_after(folder: Path, rows: int) -> None:
    """Run in a process of its own, and kill it as soon as its log has that many rows."""
    log = folder / "log.jsonl"
    path = os.pathsep.join([str(Path(training.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"JAX_ENABLE_X64": "1", "PYTHONPATH": path}
    child = subprocess.Popen([sys.executable, __file__, str(folder)], env=env)
    try:
        while child.poll() is None and not (log.exists() and log.read_text().count("\n") >= rows):
            time.sleep(0.01)
    finally:
        child.kill()
    assert child.wait() == -9


def test_a_run_that_is_killed_twice_ends_bitwise_the_same(puck, whole, tmp_path):
    kill_after(tmp_path, 3)
    kill_after(tmp_path, 6)
    policy, log = run(puck, tmp_path, resume=True)
    assert_same(policy, whole[1])
    assert_same(log.best, whole[2].best)
    np.testing.assert_array_equal(log.cost, whole[2].cost)
    assert log.best_update == whole[2].best_update


def press_ctrl_c(row):
    if row["update"] == 4:
        raise KeyboardInterrupt


def test_ctrl_c_leaves_a_run_that_can_go_on(puck, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after 5 updates; .* go on with resume=True"):
        run(puck, tmp_path, until=press_ctrl_c)
    policy, log = run(puck, tmp_path, resume=True)
    assert_same(policy, whole[1])
    np.testing.assert_array_equal(log.cost, whole[2].cost)


def test_ctrl_c_without_a_folder_returns_what_there_is():
    with pytest.warns(UserWarning, match="interrupted after 5 updates; returning what there is"):
        policy, log = train(bowl, jnp.ones(2), updates=9, until=press_ctrl_c)
    assert log.interrupted and len(log.rows) == 5
    assert_same(policy, train(bowl, jnp.ones(2), updates=5)[0])


def test_ctrl_c_while_an_update_computes_loses_no_row(tmp_path, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training._Training, "_show", press)
        train(bowl, jnp.ones(2), updates=3, folder=tmp_path)
    _, log = train(bowl, jnp.ones(2), updates=3, folder=tmp_path, resume=True)
    assert [row["update"] for row in log.rows] == [0, 1, 2]


def test_until_ends_a_run_that_can_go_on(tmp_path):
    _, log = train(bowl, jnp.ones(2), updates=9, until=lambda row: row["cost"] < 1, folder=tmp_path)
    assert log.cost[-1] < 1 <= log.cost[-2]
    policy, log = train(bowl, jnp.ones(2), updates=9, folder=tmp_path, resume=True)
    assert_same(policy, train(bowl, jnp.ones(2), updates=9)[0])
    assert len(log.rows) == 9


def test_a_new_run_in_the_folder_of_another_is_refused_and_loses_nothing(tmp_path):
    policy, log = train(bowl, jnp.ones(2), updates=3, folder=tmp_path)
    with pytest.raises(ValueError, match=r"holds an earlier run \(updates: 3\).*resume=True, .*delete"):
        train(bowl, jnp.ones(2), updates=3, folder=tmp_path)
    again, same = train(bowl, jnp.ones(2), updates=3, folder=tmp_path, resume=True)
    assert_same(again, policy)
    assert same.rows == log.rows


def test_a_run_that_failed_before_its_first_update_is_begun_anew(tmp_path):
    optimizer = optax.chain(bf.scale_by_error(name="mis"), optax.sgd(0.1))
    with pytest.raises(ValueError, match="no figure 'mis'"):
        train(bowl, jnp.ones(2), folder=tmp_path, optimizer=optimizer)
    policy, _ = train(bowl, jnp.ones(3), updates=2, folder=tmp_path)
    assert_same(policy, train(bowl, jnp.ones(3), updates=2)[0])


def test_another_key_is_refused(tmp_path):
    train(bowl, jnp.ones(2), folder=tmp_path)
    with pytest.raises(ValueError, match="another key"):
        train(bowl, jnp.ones(2), folder=tmp_path, resume=True, key=jax.random.key(99))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"policy": jnp.ones(3)}, r"another policy; .*shape \(2,\); \(3,\) is wanted"),
        ({"policy": {"w": jnp.ones(2)}}, "another policy; .*names do not fit"),
        ({"optimizer": optax.adam(0.1)}, "another optimizer; .*names do not fit"),
    ],
)
def test_another_network_or_optimizer_is_refused(tmp_path, other, message):
    train(bowl, jnp.ones(2), folder=tmp_path)
    with pytest.raises(ValueError, match=message):
        train(
            lambda w, key: sum(jnp.sum(x**2) for x in jax.tree.leaves(w)),
            **({"policy": jnp.ones(2)} | other),
            folder=tmp_path,
            resume=True,
        )


def test_resuming_needs_a_folder():
    with pytest.raises(ValueError, match="resume needs the folder"):
        train(bowl, jnp.ones(2), resume=True)


def test_resuming_what_never_began_is_a_beginning_and_is_reported(tmp_path, capsys):
    place = tmp_path / "new"
    _, log = train(bowl, jnp.ones(2), folder=place, resume=True, progress=bf.Progress())
    assert len(log.rows) == 1
    assert "has no updates to resume from; starting anew" in " ".join(capsys.readouterr().err.split())
    train(bowl, jnp.ones(2), folder=place, resume=True, updates=2, progress=bf.Progress())
    assert "anew" not in capsys.readouterr().err


def test_a_state_that_is_not_finite_never_reaches_the_weights(puck):
    luck = np.array([jax.random.uniform(key) for key in keys_of(0, 4)])
    unlucky = luck.max()

    @jax.jit
    def cost(w, key):
        broken = jax.random.uniform(key) == unlucky
        us = jnp.full((9, 1), w).at[5].mul(jnp.where(broken, jnp.nan, 1.0))
        return jnp.mean(bf.rollout(SCHEME, puck, bf.rest(puck), us).state.p_WB[:, 0, 0] ** 2)

    w = jnp.array(0.5)
    after, log = train(cost, w, robots=4, optimizer=optax.adam(0.1), updates=2)
    assert log.skipped == [(0, int(luck.argmax()), 5, "state")]
    assert str(log.skipped[0]) == f"state of robot {luck.argmax()} is not finite at step 5"
    assert np.isnan(log.cost[0]) and np.isfinite(log.cost[1])
    # the first update left no trace: the second is Adam's first, of length 0.1
    np.testing.assert_allclose(abs(after - w), 0.1, rtol=1e-6)
    assert log.best_update in (0, 2)


def test_a_gradient_that_is_not_finite_is_traced_to_its_step(puck, tmp_path, capsys):
    def cost(w, key):
        x = bf.rollout(SCHEME, puck, bf.rest(puck), jnp.full((9, 1), w)).state.p_WB[:, 0, 0]
        return jnp.sqrt((x[4] - 1) ** 2)  # no slope where the puck still is

    w = jnp.array(0.0)
    after, log = train(cost, w, folder=tmp_path, updates=2, progress=bf.Progress())
    assert after == w
    assert [tuple(trouble) for trouble in log.skipped] == [(i, 0, 4, "gradient") for i in range(2)]
    assert "update 0 skipped: gradient of robot 0 is not finite at step 4" in capsys.readouterr().err
    _, again = train(cost, w, folder=tmp_path, updates=2, resume=True)
    assert again.skipped == log.skipped and np.isnan(again.column("norm")).all()


def test_a_cost_that_is_not_finite_is_traced_to_its_robot():
    luck = np.array([jax.random.uniform(key) for key in keys_of(0, 4)])
    unlucky = luck.max()

    def cost(w, key):
        return w**2 + jnp.where(jax.random.uniform(key) == unlucky, jnp.inf, 0.0)

    after, log = train(cost, jnp.array(1.0), robots=4)
    assert after == 1
    assert log.skipped == [(0, int(luck.argmax()), -1, "cost")]


def test_a_skipped_row_is_strict_json(tmp_path):
    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    train(lambda w, key: w * jnp.nan, jnp.array(1.0), folder=tmp_path)
    json.loads((tmp_path / "log.jsonl").read_text(), parse_constant=refuse)


def test_the_norm_of_the_gradient_is_clipped_by_optax():
    optimizer = optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(1.0))
    after, log = train(bowl, jnp.array([3.0, 4.0]), optimizer=optimizer)
    np.testing.assert_allclose(after, [3 - 0.06, 4 - 0.08], rtol=1e-6)
    np.testing.assert_allclose(log.column("norm"), [10], rtol=1e-6)


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(0.1, momentum=0.9),
        optax.adamw(optax.cosine_decay_schedule(0.1, 10)),
        optax.polyak_sgd(),
        optax.chain(optax.adam(0.1), optax.contrib.reduce_on_plateau()),
        optax.lbfgs(),
    ],
    ids=["momentum", "schedule", "polyak", "plateau", "lbfgs"],
)
def test_any_optax_optimizer_descends(optimizer):
    _, log = train(bowl, jnp.ones(2), optimizer=optimizer, updates=3)
    assert log.cost[-1] < log.cost[0]


@pytest.mark.parametrize(("every", "errors"), [(1, [4.0, None, None]), (2, [4.0, 4.0, None])])
def test_updates_are_scaled_by_the_last_error(every, errors):
    optimizer = optax.chain(bf.scale_by_error(every), optax.sgd(0.02))
    after, _ = train(bowl, jnp.array(2.0), optimizer=optimizer, updates=3)
    w = 2.0
    for error in errors:
        w -= 0.02 * (w * w if error is None else error) * 2 * w
    np.testing.assert_allclose(after, w, rtol=1e-6)


def test_updates_are_scaled_by_a_figure_of_the_cost():
    optimizer = optax.chain(bf.scale_by_error(name="miss"), optax.sgd(0.1))
    after, _ = train(lambda w, key: (w**2, {"miss": abs(w) / 4}), jnp.array(2.0), optimizer=optimizer)
    np.testing.assert_allclose(after, 2 - 0.1 * 0.5 * 4, rtol=1e-6)


def test_an_unknown_figure_is_named():
    with pytest.raises(ValueError, match="no figure 'mis'; known: cost, miss"):
        train(
            lambda w, key: (w**2, {"miss": w}),
            jnp.array(2.0),
            optimizer=optax.chain(bf.scale_by_error(name="mis"), optax.sgd(0.1)),
        )


def shaped(w, key):
    return w**2


WRONG = {
    "shape": (shaped, r"cost has shape \(2,\); return one number, such as its mean"),
    "none": (lambda w, key: None, "cost returned None; return a number"),
    "text": (lambda w, key: "0", "cost returned a str; return a number"),
    "pair": (lambda w, key: (w[0], 1.0), "cost returned a float beside its number; .*dictionary of figures"),
    "triple": (lambda w, key: (w[0], {}, {}), "cost returned a tuple of 3"),
    "whole": (lambda w, key: jnp.argmax(w), "cost is of type int.*; return a float"),
    "no key": (lambda w: w[0], r"cost takes \(w\); give a function cost\(policy, key\)"),
    "compiled, no key": (jax.jit(lambda w: w[0]), r"cost takes \(w\)"),
    "figure": (lambda w, key: (w[0], {"all": w}), r"figure 'all' has shape \(2,\); give one number"),
    "no figure": (lambda w, key: (w[0], {"all": None}), "figure 'all' is None; give one number"),
    "own": (lambda w, key: (w[0], {"norm": w[0]}), "figure 'norm': the log has its own"),
    "no policy": (lambda w, key: jax.random.uniform(key), "does not depend on the policy"),
    "constant": (lambda w, key: 1.0, "does not depend on the policy"),
}


@pytest.mark.parametrize("robots", [1, 3])
@pytest.mark.parametrize("what", WRONG)
def test_a_cost_function_of_the_wrong_kind_is_named(what, robots):
    cost, message = WRONG[what]
    with pytest.raises(ValueError, match=f"train: .*{message}"):
        train(cost, jnp.ones(2), robots=robots)


def test_a_column_that_is_not_there_is_named():
    def cost(w, key):
        return w**2, {"miss": w}

    _, log = train(cost, jnp.array(2.0), updates=2)
    with pytest.raises(ValueError, match=r"no column 'mis'; there are .*, miss"):
        log.column("mis")
    np.testing.assert_array_equal(np.isnan(log.column("validation")), [False, True])


def out_of_reach(w, key):
    """A cost that is flat below 5."""
    return jnp.sum(jnp.maximum(w - 5, 0))


def test_a_gradient_that_stays_zero_is_reported_once():
    with pytest.warns(UserWarning, match="exactly 0 in 10 updates in a row.*smoothness") as caught:
        train(out_of_reach, jnp.ones(2), updates=25)
    assert len([w for w in caught if "exactly 0" in str(w.message)]) == 1


def test_a_gradient_that_is_zero_for_a_while_is_not_reported(recwarn):
    train(out_of_reach, jnp.ones(2), updates=9)
    assert not [w for w in recwarn if "exactly 0" in str(w.message)]


if __name__ == "__main__":
    importlib.import_module("backflip.learn.loop").PAUSE = 0.15
    run(make_puck(), sys.argv[1], resume=True, until=lambda row: time.sleep(0.1))
