"""Identification: right in spite of noise, gaps and outliers; what data cannot tell is named."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import backflip as bf
from backflip.learn.certainty import Certainty, certainty
from backflip.learn.parameters import lay_out
from backflip.learn.starts import spread_starts

SCHEME = bf.Scheme(dt=0.02)
NOISE = jnp.array([0.02, 0.1])
QUIET = bf.Progress(quiet=True)


def pendulum():
    """A driven rod on a damped pivot, 2 kg and 0.3 N m s."""
    b = bf.Builder(planar=True)
    b.add_body("rod", bf.Capsule(0.05, 0.6), mass=2.0, position=(0.3, 0, 0), rotation=(0, np.pi / 2, 0))
    b.add_hinge("pivot", "world", "rod", position=(0, 0, 0), axis=(0, 1, 0), damping=0.3)
    b.add_motor("pivot")
    b.add_sensor(bf.JointAngle("pivot"), bf.JointRate("pivot"))
    return b.build()


MODEL = pendulum()
U = jnp.sin(jnp.arange(100) * 0.1)[:, None]


def to_model(theta):
    return eqx.tree_at(lambda m: (m.mass, m.damping), MODEL, (theta["mass"][None], theta["damping"][None]))


def tangled(theta):
    return to_model({"mass": theta["part"] * theta["factor"], "damping": theta["damping"]})


@pytest.fixture(scope="module")
def seen():
    """States and exact readings."""
    path = jax.jit(lambda: bf.rollout(SCHEME, MODEL, bf.rest(MODEL), U).state)()
    return path, np.asarray(jax.vmap(bf.observe, (None, 0))(MODEL, path))


def noisy(readings, outliers=0.0):
    """With noise, a fifth of the samples missing, and some readings that are far off."""
    rng = np.random.default_rng(0)
    spoilt = readings + rng.normal(0, NOISE, readings.shape)
    spoilt = np.where(rng.random(spoilt.shape) < outliers, spoilt + 5.0, spoilt)
    return bf.Recording(jnp.asarray(np.where(rng.random(spoilt.shape) < 0.2, np.nan, spoilt)), U)


def guess(mass=0.3, damping=1.0):
    return {"mass": bf.bounds.positive(mass), "damping": bf.bounds.positive(damping)}


def fit(recorded, theta0=None, model=to_model, **how):
    return bf.identify(SCHEME, model, theta0 or guess(), recorded, progress=QUIET, **how)


def off(theta):
    return max(abs(float(theta["mass"]) / 2 - 1), abs(float(theta["damping"]) / 0.3 - 1))


def test_exact_readings_give_exact_parameters_in_few_updates(seen):
    theta, log = fit(bf.Recording(jnp.asarray(seen[1]), U), updates=12)
    assert off(theta) < 1e-6 and log.cost[-1] < 1e-12
    assert set(log.rows[0]) == {"update", "cost", "seconds", "mass", "damping"}
    assert log.column("mass")[0] == pytest.approx(0.3) and (np.diff(log.cost) <= 0).all()


def test_noise_and_missing_samples_leave_it_right_within_its_standard_errors(seen):
    _, log = fit(noisy(seen[1]), noise=NOISE)
    sure = log.certainty
    assert sure.names == ("damping", "mass") and log.converged
    assert (np.abs(sure.value - [0.3, 2.0]) < 3 * sure.error).all()
    assert (sure.error < [0.02, 0.2]).all() and log.cost[-1] == pytest.approx(1, abs=0.3)
    assert sure.hidden == () and "mass" in log.report()


def test_outliers_do_not_matter_to_a_robust_loss(seen):
    theta, _ = fit(noisy(seen[1], outliers=0.1), noise=NOISE, cost=bf.Huber())
    assert off(theta) < 0.06


def test_outliers_ruin_least_squares(seen):
    theta, _ = fit(noisy(seen[1], outliers=0.1), noise=NOISE)
    assert off(theta) > 0.2


def test_parameters_that_cannot_be_identified_are_named(seen):
    theta0 = {
        "part": bf.bounds.positive(1.0),
        "factor": bf.bounds.positive(1.5),
        "damping": bf.bounds.positive(0.5),
        "idle": 1.0,
    }
    theta, log = fit(bf.Recording(jnp.asarray(seen[1]), U), theta0, tangled)
    assert float(theta["part"] * theta["factor"]) == pytest.approx(2, rel=1e-4)
    text = " ".join(log.certainty.findings)
    assert '"idle" cannot be identified' in text
    assert '"factor", "part" cannot be told apart' in text and "damping" not in text
    assert text in log.report().replace("\n", " ")
    assert np.isinf(log.certainty.condition) and np.isinf(log.certainty.error[[1, 2, 3]]).all()


def test_windows_from_recorded_states_find_the_same(seen):
    path, readings = seen
    whole = bf.Recording(jnp.asarray(readings), U, bf.rest(MODEL))
    cut = whole.windows(path, 25)
    assert cut.observed.shape == (4, 25, 2) and cut.controls.shape == (4, 25, 1)
    assert np.array_equal(cut.start.p_WB[1], path.p_WB[24])
    theta, _ = fit(cut, updates=12)
    assert off(theta) < 1e-6


def test_channels_may_be_means_since_the_last_sample(seen):
    pairs = seen[1].reshape(50, 2, 2)
    observed = jnp.asarray(np.stack([pairs[:, -1, 0], pairs[..., 1].mean(1)], -1))
    theta, _ = fit(bf.Recording(observed, U, every=2, averaged=(1,)), updates=12)
    assert off(theta) < 1e-6


def test_a_start_that_is_unknown_can_be_found_too(seen):
    def with_start(theta):
        start = bf.rest(MODEL)
        start = eqx.tree_at(lambda s: s.w_WB, start, start.w_WB.at[0, 1].set(theta["spin"]))
        return to_model(theta), jax.tree.map(lambda x: x[None], start)

    theta0 = guess(1.0, 0.6) | {"spin": 0.5}
    theta, _ = fit(bf.Recording(jnp.asarray(seen[1][1::2]), U, every=2), theta0, with_start)
    assert off(theta) < 1e-4 and abs(float(theta["spin"])) < 1e-4


def test_first_order_methods_are_values_too(seen):
    recorded = bf.Recording(jnp.asarray(seen[1]), U)
    theta, log = fit(recorded, optimizer=optax.adam(0.2), updates=60)
    assert off(theta) < 0.05 and len(log.rows) == 60 and (np.diff(log.cost) <= 0).all()


def test_a_search_that_was_stopped_goes_on_where_it_was(seen, tmp_path):
    recorded = noisy(seen[1])
    straight, log = fit(recorded, noise=NOISE, updates=6)
    fit(recorded, noise=NOISE, updates=3, folder=tmp_path)
    again, resumed = fit(recorded, noise=NOISE, updates=6, folder=tmp_path, resume=True)
    assert all(np.array_equal(straight[k], again[k]) for k in straight)
    assert [r["cost"] for r in resumed.rows] == [r["cost"] for r in log.rows]
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 6


def test_jacobian_and_gradient_agree_with_differences(seen):
    from backflip.learn.least_squares import with_jacobian
    from backflip.learn.problem import make_problem
    from backflip.learn.recording import as_runs

    layout, free = lay_out(guess(1.5, 0.4))
    runs = as_runs(noisy(seen[1], outliers=0.1))
    problem = make_problem(SCHEME, to_model, layout, free, runs, bf.observe, NOISE, bf.Cauchy())
    for at in (free, free + jnp.array([0.5, -0.3])):
        r, J = jax.jit(with_jacobian)(problem, at)
        value = jax.jit(lambda x: problem.residuals(x))
        for k in range(2):
            by = 1e-6 * jnp.eye(2)[k]
            wanted = (value(at + by) - value(at - by)) / 2e-6
            assert float(jnp.abs(J[:, k] - wanted).max()) < 1e-6 * float(jnp.abs(J).max())
        assert np.allclose(jax.jit(jax.grad(lambda x: problem.cost(x)))(at), 2 * r @ J, rtol=1e-6)


def test_losses_bend_smoothly_and_keep_small_residuals():
    r = jnp.concatenate([jnp.linspace(-20, 20, 81) + 0.013, jnp.array([0.0, 1e-9])])
    for loss in (bf.Huber(1.5), bf.Cauchy(3.0)):
        slope = jax.vmap(jax.grad(lambda x, loss=loss: loss.signed_root(x)))(r)
        wanted = (loss.signed_root(r + 1e-5) - loss.signed_root(r - 1e-5)) / 2e-5
        assert np.allclose(slope, wanted, atol=1e-5) and float(loss.signed_root(r[-1])) == pytest.approx(1e-9)
        assert (np.diff(loss.signed_root(r)[:81]) > 0).all() and float(loss.signed_root(20.0)) < 8


def test_bounds_hold_whatever_is_tried():
    theta0 = {
        "a": bf.bounds.positive([1.0, 2.0]),
        "e": bf.bounds.interval(0.25, 0, 1),
        "x": jnp.array([[-3.0]]),
    }
    layout, free = lay_out(theta0)
    assert layout.names == ("a[0]", "a[1]", "e", "x[0,0]")
    assert np.allclose(layout.flat(layout.theta(free)), [1, 2, 0.25, -3])
    wild = layout.theta(free + jnp.array([-30.0, 5.0, 30.0, 1.0]))
    assert (wild["a"] > 0).all() and 0 < wild["e"] <= 1 and float(wild["x"][0, 0]) == 0


def test_certainty_is_that_of_linear_regression():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(500, 2)) @ np.array([[1.0, 0.9], [0.0, 0.4]])
    r = rng.normal(0, 0.1, 500)
    sure = certainty(("a", "b"), [1.0, 2.0], [1.0, 1.0], A, float(r @ r) / 498)
    C = r @ r / 498 * np.linalg.inv(A.T @ A)
    assert np.allclose(sure.error, np.sqrt(np.diag(C)))
    assert sure.correlation[0, 1] == pytest.approx(C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]))
    assert sure.hidden == ()
    assert certainty(("a", "b"), [1.0, 2.0], [1.0, 1.0], A, 1e6 * float(r @ r) / 498).hidden == (
        ("a",),
        ("b",),
    )


def test_what_takes_part_in_a_direction_that_cannot_be_seen_is_uncertain():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 50))
    sure = certainty(("a", "b", "c"), np.ones(3), np.ones(3), np.stack([a, b, a + 0.2 * b], 1), 1e-6)
    assert (sure.error > 1).all() and sure.condition == np.inf and sure.hidden


def test_fewer_readings_than_parameters_cannot_tell_them_all():
    sure = certainty(
        ("a", "b", "c"), np.ones(3), np.ones(3), np.random.default_rng(3).normal(size=(2, 3)), 1.0
    )
    assert sure.condition == np.inf and sure.hidden


def test_a_derivative_that_is_not_finite_is_not_taken_for_a_parameter_that_shows_nothing():
    J = np.where(np.arange(20)[:, None] == 3, np.nan, np.ones((20, 2)))
    sure = certainty(("a", "b"), np.ones(2), np.ones(2), J, 1.0)
    assert np.isnan(sure.error).all() and sure.hidden == ()
    assert sure.findings == [
        "no standard errors: the derivative of the readings at the solution is not finite; record shorter "
        "runs, or another motion"
    ]
    assert sure.findings[0] in sure.report()


@pytest.mark.parametrize("loss", [bf.Huber(), bf.Cauchy()])
def test_outliers_do_not_widen_the_standard_errors_of_a_robust_loss(loss):
    noise = np.random.default_rng(4).normal(size=400)
    spoilt = np.where(np.arange(400) % 10 == 0, 1000.0, noise)
    assert loss.variance(np.asarray(loss.signed_root(jnp.asarray(spoilt))), 1) == pytest.approx(1.0, rel=0.4)


GOOD = jnp.zeros((10, 2))
MISTAKES = {
    "nothing to find": (lambda: fit(GOOD, {"a": ()}), "theta0 is empty"),
    "negative mass": (lambda: guess(-1.0), "positive: the first guess is -1"),
    "guess outside": (lambda: bf.bounds.interval(2, 0, 1), "between 0 and 1"),
    "bounds swapped": (lambda: bf.bounds.interval(0.5, 1, 0), "the lower first"),
    "guess not finite": (lambda: fit(GOOD, guess() | {"x": jnp.nan}), 'parameter "x".*finite'),
    "flat readings": (lambda: fit(jnp.zeros(10)), r"shape \(10,\).*\(samples, channels\)"),
    "infinite reading": (lambda: fit(GOOD.at[0, 0].set(jnp.inf)), "infinite.*NaN"),
    "nothing recorded": (lambda: fit(GOOD * jnp.nan), "every reading is missing"),
    "other channels": (lambda: fit(jnp.zeros((10, 3))), r"3 channels.*\(2,\)"),
    "a string": (lambda: fit(GOOD, "1.0"), r"parameter \"theta\".*'1.0', a str; give numbers"),
    "a string in theta0": (lambda: fit(GOOD, guess() | {"x": "2"}), 'parameter "x".*a str; give numbers'),
    "a positive string": (lambda: bf.bounds.positive("1.0"), "bounds.positive: .*a str; give numbers"),
    "a trajectory": (
        lambda: fit(bf.Trajectory(bf.rest(MODEL), U, None, 0.02)),
        r"a Trajectory was given where readings belong; give .*bf.observe.*path.u, path.start",
    ),
    "a trajectory inside": (
        lambda: bf.Recording(bf.Trajectory(bf.rest(MODEL), U, None, 0.02)), "a Trajectory was given",
    ),
    "a state": (lambda: fit(bf.rest(MODEL)), "a State was given where readings belong"),
    "every other reading": (
        lambda: fit(bf.Recording(jnp.zeros((50, 2)), U)), r"give every=2 .*readings\[1::2\]",
    ),
    "every other of an odd number": (lambda: fit(bf.Recording(jnp.zeros((50, 2)), U[:99])), "every=2"),
    "spread of zero": (lambda: fit(GOOD, spread=0.0), "spread is 0.0; give a positive number"),
    "short controls": (lambda: fit(bf.Recording(GOOD, U[:5])), r"\(5, 1\).*10 steps"),
    "no model": (lambda: fit(GOOD, model=lambda theta: theta["mass"]), "return a Model"),
    "nothing matters": (lambda: fit(GOOD, model=lambda theta: MODEL), "nothing in theta0 changes"),
    "noise of zero": (lambda: fit(GOOD, noise=0.0), "noise is 0.0"),
    "robust without noise": (lambda: fit(GOOD, cost=bf.Huber()), "robust.*noise"),
    "cost by name": (lambda: fit(GOOD, cost="huber"), "give Square"),
    "optimizer by name": (lambda: fit(GOOD, optimizer="lm"), "levenberg_marquardt"),
    "no ease": (lambda: bf.levenberg_marquardt(ease=1.0), "ease is 1.0"),
    "prior of zero": (lambda: fit(GOOD, prior=0.0), "prior is 0.0"),
    "no updates": (lambda: fit(GOOD, updates=0), "at least 1"),
    "half an update": (lambda: fit(GOOD, updates=2.5), "updates is 2.5; give a whole number"),
    "starts by name": (lambda: fit(GOOD, starts="8"), "starts is '8'; give a whole number"),
    "one horizon": (lambda: fit(GOOD, horizons=5), "horizons are 5; give growing whole numbers of up to 10"),
    "half a horizon": (lambda: fit(GOOD, horizons=(2.5,)), "growing whole numbers"),
    "horizon too far": (lambda: fit(GOOD, horizons=(5, 11)), "growing whole numbers of up to 10"),
    "nothing in a horizon": (
        lambda: fit(GOOD.at[:3].set(jnp.nan), horizons=(3,)), "first 3 samples are all missing",
    ),
    "one start for two runs": (
        lambda: fit(bf.Recording(jnp.stack([GOOD, GOOD]), start=bf.rest(MODEL))),
        r"start.*shape \(1, 3\).*2 runs.*one state for every run",
    ),
    "start of something else": (lambda: fit(bf.Recording(GOOD, start=(1, 2))), "start is a tuple.*a State"),
    "resume nowhere": (lambda: fit(GOOD, resume=True), "resume needs the folder"),
    "name of a figure": (
        lambda: fit(GOOD, {"cost": 1.0}, lambda t: MODEL), 'figure "cost".*another name',
    ),
    "half a step": (lambda: bf.Recording(GOOD, every=0.5), "every is 0.5"),
    "mean of nothing": (lambda: bf.Recording(GOOD, averaged=(2,)), "no channel 2"),
    "windows of nothing": (
        lambda: bf.Recording(GOOD, None, bf.rest(MODEL)).windows(bf.rest(MODEL), 11), "1 to 10",
    ),
    "width of a loss": (lambda: bf.Cauchy(0.0), "Cauchy: width"),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told_kindly(what):
    do, message = MISTAKES[what]
    with pytest.raises(ValueError, match=message):
        do()


def test_swapped_arguments_are_named():
    with pytest.raises(TypeError, match="a function was given where a Scheme belongs"):
        bf.identify(to_model, SCHEME, guess(), GOOD)
    with pytest.raises(TypeError, match="a dict was given where theta_to_model belongs"):
        bf.identify(SCHEME, guess(), to_model, GOOD)


def test_all_that_could_be_scaled_together_are_named_however_little_some_show():
    u, v, w = np.random.default_rng(0).normal(size=(3, 50))
    J = np.stack([10 * u, -10 * u + 0.1 * v, -0.1 * v, w], -1).astype(np.float32)
    names = ("mass", "torque", "inertia", "length")
    sure = certainty(names, np.ones(4), np.ones(4), J, 1e-6)
    assert sure.hidden == (("mass", "torque", "inertia"),)
    np.testing.assert_array_equal(np.isinf(sure.error), [True, True, True, False])


def test_the_table_lines_up_and_shows_no_more_digits_than_the_errors_warrant():
    names = ("m", "inertia of the rod", "gain", "load", "tiny", "idle", "hazy")
    value = np.array([2.01342, 0.123456789, 19.98765, 123456.0, 1.23456e-7, 1.23456, 7.65432])
    error = np.array([0.0123, 1.2e-5, np.nan, 1234.0, 2.2e-9, np.inf, 50.0])
    correlation = np.where(np.eye(7) > 0, 1, np.full((7, 7), 0.9))
    lines = Certainty(names, value, error, correlation, 3.0, (("idle",), ("hazy",))).report().splitlines()
    rows = [line.split("  ") for line in lines[1:8]]
    assert [[cell.strip() for cell in row if cell][:3] for row in rows] == [
        ["m", "2.013", "0.012"],
        ["inertia of the rod", "0.123457", "0.000012"],
        ["gain", "19.99", "-"],
        ["load", "123500", "1200"],
        ["tiny", "1.235e-07", "2.2e-09"],
        ["idle", "1.23", "unknown"],
        ["hazy", "7.65", "unknown"],
    ]
    end = lines[0].index("std. error") + len("std. error")
    assert all(line[end - 1] != " " and line[end : end + 2].strip() == "" for line in lines[:8])
    assert all(line[lines[0].index("entangled")] != " " for line in lines[1:6])
    assert not any("entangled" in line or "0.90" in line for line in lines[6:8])


def test_a_short_name_leaves_the_header_in_line():
    header, row = Certainty(("m",), np.ones(1), np.full(1, 0.1), np.eye(1), 1.0, ()).report().splitlines()[:2]
    assert row == "m           1.00        0.10" and len(row) == header.index("  entangled")


def test_what_a_recording_leaves_open_is_named(seen):
    _, log = fit(jnp.asarray(seen[1][:20]), updates=1)
    assert "assumed: every run starts at rest(model), as Recording has no start" in log.report()
    assert "assumed: all 1 controls are 0, as Recording has no controls" in log.report()
    _, log = fit(bf.Recording(jnp.asarray(seen[1][:20]), U[:20], bf.rest(MODEL)), updates=1)
    assert log.assumed == () and "assumed" not in log.report()


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_starts_are_spread_as_wide_as_asked(spread):
    layout, free = lay_out({"m": bf.bounds.positive(3.0), "e": bf.bounds.interval(0.5, 0, 1), "x": 2.0})
    starts = np.array(spread_starts(layout, free, 301, spread))
    assert layout.names == ("e", "m", "x") and np.array_equal(starts[0], free)
    assert np.allclose(starts[1:, 1:].std(0), spread, rtol=0.1)
    assert np.allclose(starts[1:, 1:].mean(0), free[1:], atol=0.1)
    evenly = np.sort(jax.nn.sigmoid(starts[1:, 0]))
    assert np.allclose(evenly, np.linspace(0, 1, 300), atol=0.02)
