"""A fit says how well it explains the readings, and is not confident where it is wrong."""

import dataclasses
import io
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip.learn.angles import angle_channels, made_continuous, nearest_turn
from backflip.learn.fit_quality import Attempt, fit_quality
from backflip.learn.recording import as_runs
from backflip.learn.search import shown_names, start_label

QUIET = bf.Progress(quiet=True)
NOISE, TRUE = 0.01, 0.35


@pytest.fixture(scope="module")
def box():
    """A tumbling box: its friction decides on which corner it lands, so the cost has several minima."""
    b = bf.Builder(planar=True)
    b.add_ground(friction=1.0, restitution=0.7)
    b.add_body(
        "box",
        bf.Box((0.3, 0.2, 0.2)),
        mass=1.0,
        position=(0, 0, 0.5),
        velocity=(2, 0, 0),
        rotation=(0, 0.3, 0),
    )
    return b.build()


def sense(model, state):
    return state.p_WB[0, ::2]


def fit_box(box, guess, **options):
    scheme = bf.Scheme(dt=0.01)

    def to_model(theta):
        return eqx.tree_at(lambda m: m.friction, box, jnp.ones_like(box.friction) * theta["friction"])

    true = to_model({"friction": TRUE})
    path = jax.jit(lambda: bf.rollout(scheme, true, bf.rest(true), steps=120))()
    exact = np.asarray(jax.vmap(sense, (None, 0))(true, path.state))
    seen = jnp.asarray(exact + np.random.default_rng(0).normal(0, NOISE, exact.shape))
    theta0 = {"friction": bf.bounds.positive(guess)}
    usual = {"sense": sense, "noise": NOISE, "progress": QUIET, "updates": 20}
    theta, log = bf.identify(scheme, to_model, theta0, seen, **(usual | options))
    return float(theta["friction"]), log


def test_a_local_minimum_is_admitted_and_quotes_no_errors(box):
    friction, log = fit_box(box, 0.55)
    assert abs(friction - TRUE) > 0.05
    assert log.quality.chi2 > 4 and not log.quality.explained
    assert np.isnan(log.certainty.error).all()
    report = log.report()
    assert "does not explain the readings" in report and "starts=8" in report and "±" not in report
    assert "stopped: " in report and log.stopped in report


def test_several_starts_find_the_truth_and_stop_when_it_is_found(box, tmp_path):
    friction, log = fit_box(box, 0.9, starts=8, folder=tmp_path)
    assert friction == pytest.approx(TRUE, abs=3 * float(log.certainty.error[0]))
    assert log.quality.chi2 == pytest.approx(1, abs=0.3) and log.certainty.error[0] < 0.01
    assert log.start_costs[0] > 500, "from 0.9 on hardly anything slides"
    assert 1 < len(log.start_costs) < 8 and log.cost[-1] == min(log.start_costs)
    again, resumed = fit_box(box, 0.9, starts=8, folder=tmp_path, resume=True)
    assert again == friction and resumed.start_costs == log.start_costs
    assert [row["cost"] for row in resumed.rows] == [row["cost"] for row in log.rows]


def test_growing_horizons_lead_past_a_local_minimum(box):
    friction, log = fit_box(box, 0.55, horizons=(40, 70))
    assert friction == pytest.approx(TRUE, abs=0.01) and log.quality.explained
    assert sorted(set(log.column("samples"))) == [40, 70, 120]
    assert list(log.column("update")) == list(range(len(log.rows)))


@pytest.fixture(scope="module")
def rotor():
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("rod", bf.Capsule(0.05, 0.5), mass=1.0, position=(0.3, 0, 0), rotation=(0, np.pi / 2, 0))
    b.add_hinge("pivot", "world", "rod", position=(0, 0, 0), axis=(0, 1, 0), damping=0.2)
    b.add_motor("pivot")
    b.add_sensor(bf.JointRate("pivot"), bf.JointAngle("pivot"))
    return b.build()


def test_an_angle_that_passes_pi_is_a_turn_that_goes_on(rotor):
    scheme, u = bf.Scheme(dt=0.02), jnp.full((120, 1), 1.0)

    def to_model(damping):
        return eqx.tree_at(lambda m: m.damping, rotor, damping[None])

    path = jax.jit(lambda: bf.rollout(scheme, rotor, bf.rest(rotor), u))()
    seen = jax.vmap(bf.observe, (None, 0))(rotor, path.state)[3::4]
    assert np.abs(np.diff(seen[:, 1])).max() > 5, "the sensor jumps"
    seen = seen.at[:, 0].set(jnp.nan)
    recorded = bf.Recording(seen, u, every=4)
    with pytest.warns(UserWarning, match="angle passes π: channel 1 of run 0 jumps at sample"):
        theta, log = bf.identify(scheme, to_model, bf.bounds.positive(0.6), recorded, progress=QUIET)
    assert float(theta) == pytest.approx(0.2, rel=1e-4) and log.quality.explained


@dataclass(frozen=True)
class Heading(bf.Sensor):
    """Which way a body's x axis points [rad], −π to π."""

    body: str
    count: int = 1

    def check(self, facts):
        facts.body(self.body)

    def size(self, facts):
        return 1

    def angles(self, facts):
        return (True,) * self.count

    def read(self, sight, leaves):
        x, y, _ = sight.state.R_WB[sight.model.body(self.body)][:, 0]
        return jnp.arctan2(y, x)


def boat(*sensors):
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("boat", bf.Box((2.0, 1.0, 0.5)), mass=800.0)
    b.add_body("mast", bf.Box((0.2, 0.1, 3.0)), mass=50.0, position=(0, 0, 1))
    b.add_slider("lift", "boat", "mast", axis=(0, 0, 1))
    b.add_sensor(*sensors)
    return b.build()


def test_a_sensor_of_ones_own_says_which_of_its_numbers_are_angles():
    model = boat(bf.JointAngle("lift"), bf.AngularVelocity("boat"), Heading("boat"))
    assert angle_channels(model) == (4,), "a place on a slider is no angle"
    scheme = bf.Scheme(dt=0.1)

    def to_model(spin):
        start = bf.replace(model, bf.rest(model), w_WB={"boat": jnp.array([0.0, 0.0, 1.0]) * spin})
        start = bf.replace(model, start, w_WB={"mast": jnp.array([0.0, 0.0, 1.0]) * spin})
        return model, jax.tree.map(lambda x: x[None], start)

    start = jax.tree.map(lambda x: x[0], to_model(jnp.asarray(1.0))[1])
    path = jax.jit(lambda: bf.rollout(scheme, model, start, steps=40))()
    seen = jax.vmap(bf.observe, (None, 0))(model, path.state).at[:, :4].set(jnp.nan)
    with pytest.warns(UserWarning, match="angle passes π: channel 4 of run 0 jumps at sample 31"):
        spin, log = bf.identify(scheme, to_model, bf.bounds.positive(0.7), seen, progress=QUIET)
    assert float(spin) == pytest.approx(1, rel=1e-4) and log.quality.explained


def test_a_sensor_that_says_too_much_of_its_angles_is_named():
    with pytest.raises(
        ValueError, match=r"sensor Heading\(boat\): angles\(\) has 2 entries but its size\(\) is 1"
    ):
        angle_channels(boat(Heading("boat", count=2)))


def test_angles_are_made_continuous_once_and_outliers_are_left_alone():
    angle = np.linspace(0, 12, 60)
    wrapped = (angle + np.pi) % (2 * np.pi) - np.pi
    wrapped[7] = np.nan
    with pytest.warns(UserWarning, match="passes π"):
        whole = made_continuous(as_runs(jnp.asarray(wrapped[:, None])), (0,))
    np.testing.assert_allclose(np.delete(whole.observed[0, :, 0], 7), np.delete(angle, 7), atol=1e-6)
    spoilt = np.zeros((20, 1))
    spoilt[4], spoilt[9] = 8.0, -7.0
    np.testing.assert_array_equal(made_continuous(as_runs(jnp.asarray(spoilt)), (0,)).observed[0], spoilt)
    turned = nearest_turn(
        jnp.asarray(angle)[:, None] - 4 * np.pi, jnp.asarray(angle)[:, None], jnp.ones((60, 1))
    )
    np.testing.assert_allclose(turned[:, 0], angle, atol=1e-6)


def quality(off, chi2=np.nan):
    readings = np.random.default_rng(1).normal(size=(1, 200, 1))
    return fit_quality(np.asarray(off).reshape(1, 200, 1), readings, np.ones((1, 200, 1)), chi2)


def test_without_noise_a_trend_in_what_is_left_is_no_noise():
    white = 0.3 * np.random.default_rng(2).normal(size=200)
    assert quality(white).explained and abs(quality(white).correlation) < 0.2
    trend = quality(0.3 * np.sin(np.arange(200) / 20))
    assert not trend.explained and trend.correlation > 0.9
    assert quality(1e-3 * np.sin(np.arange(200) / 20)).explained, "1e-6 of the variance does not matter"
    assert "noise is not given" in trend.findings[0]


def test_noise_that_was_overstated_is_mentioned():
    assert "smaller noise" in quality(np.ones(200), 0.01).findings[-1]
    assert quality(np.ones(200), 1.1).explained and not quality(np.ones(200), 5.0).explained


def test_a_start_that_cannot_begin_is_passed_over():
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0)
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    puck, scheme, u = b.build(), bf.Scheme(0.1), jnp.ones((10, 1))

    def to_model(mass):
        deaf = jnp.where(mass > 2.0, jax.lax.stop_gradient(mass), mass)  # nothing is learned from above 2 kg
        return bf.replace(puck, mass={"puck": deaf})

    seen = jax.vmap(bf.observe, (None, 0))(puck, bf.rollout(scheme, puck, bf.rest(puck), u).state)
    recorded, guess = bf.Recording(seen, u), bf.bounds.positive(2.5)
    with pytest.raises(ValueError, match="nothing in theta0 changes what is observed"):
        bf.identify(scheme, to_model, guess, recorded, progress=QUIET)
    theta, log = bf.identify(scheme, to_model, guess, recorded, starts=4, noise=0.01, progress=QUIET)
    assert log.start_costs[0] == np.inf and float(theta) == pytest.approx(1, rel=1e-3)


ATTEMPT = Attempt(updates=50, starts=1, spread=1.0, stages=(120,), all_updates_done=False, moved=0.5)


@pytest.mark.parametrize(
    ("how", "tried", "untried"),
    [
        ({}, (), ("starts=8", "horizons=(12, 40)")),
        ({"starts": 8}, ("starts=8",), ("horizons=(12, 40)", "starts=16, spread=2")),
        ({"stages": (10, 120)}, ("horizons=",), ("starts=8", "a shorter first horizon than 10 samples")),
        ({"all_updates_done": True}, (), ("try: more updates (updates=100)", "starts=8")),
        ({"stages": (5,)}, ("horizons=",), ("starts=8",)),
    ],
)
def test_advice_is_what_was_not_tried(how, tried, untried):
    advice = dataclasses.replace(ATTEMPT, **how).advice()
    assert all(remedy in advice for remedy in untried) and not any(remedy in advice for remedy in tried)


def test_a_search_that_never_left_its_guess_admits_it():
    """Readings that no mass explains, from a guess that is a minimum already."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0)
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    puck, scheme, u = b.build(), bf.Scheme(0.1), jnp.ones((10, 1))
    path = bf.rollout(scheme, puck, bf.rest(puck), u).state
    seen = jax.vmap(bf.observe, (None, 0))(puck, path) + 0.3 * jnp.sin(3 * jnp.arange(10.0))[:, None]

    def fit(guess, **how):
        to_model = lambda mass: bf.replace(puck, mass={"puck": mass})  # noqa: E731
        recorded = bf.Recording(seen, u)
        return bf.identify(
            scheme, to_model, bf.bounds.positive(guess), recorded, noise=0.01, progress=QUIET, **how
        )

    best, moved = fit(3.0)
    assert "hardly moved" not in moved.report() and "starts=8" in moved.report()
    _, still = fit(float(best))
    assert "the search hardly moved from its guess: begin with another one" in still.report()
    _, ended = fit(3.0, updates=2, starts=2)
    assert "try: more updates (updates=4)" in ended.report() and "starts=8" not in ended.report()


@pytest.mark.parametrize("s", [2, 11])
def test_labels_of_starts_fit_beside_long_figures_in_80_columns(s):
    from rich.console import Console

    names = ("damping", "mass", "friction", "restitution", "torso inertia[0]")
    assert shown_names(names) == ["damping", "mass"]
    console = Console(width=80, file=io.StringIO())
    with bf.Progress().task(start_label(s, 16), 50) as task:
        task.advance(1, samples=120, cost=0.0012345, **dict.fromkeys(shown_names(names), 1.2345e-5))
        console.print(task.bars.get_renderable())
    assert f"{s + 1}/16" in console.file.getvalue() and console.file.getvalue().count("\n") == 1
