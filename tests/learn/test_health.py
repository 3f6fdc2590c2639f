"""The health report measures what it says, and its findings name what is wrong."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip.learn.fall import find_fall
from backflip.learn.nonfinite import NonFinite
from backflip.learn.sensitivity import largest_singular_value

DT, STEPS = 0.01, 20
SCHEME = bf.Scheme(DT, bf.PGS(sweeps=8))
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    """A free body with a push along x."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0)
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    return b.build()


def lever(max_torque: float) -> bf.Model:
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("rod", bf.Capsule(0.05, 0.5), mass=1.0)
    b.add_hinge("pivot", "world", "rod", position=(0, 0, 0), axis=(0, 1, 0))
    b.add_servo("pivot", gain=10.0, max_velocity=5.0, max_torque=max_torque)
    return b.build()


def ride(model, measure, *hooks, bias=0.0):
    """A cost of the states that a feedback `gain` on x leads to; without a bias it does nothing at x = 0."""

    def cost(gain, key):
        policy = lambda x, memory: (gain * (x[:1] + bias), memory)  # noqa: E731
        return measure(bf.rollout(SCHEME, model, bf.rest(model), policy, steps=STEPS, hooks=hooks).state)

    return cost


@pytest.fixture(scope="module")
def usual(puck) -> bf.Health:
    """Of a rollout in which nothing is wrong."""
    return bf.health(ride(puck, lambda s: s.v_WB[-1, 0, 0], bias=1.0), jnp.array(0.0), KEY)


def test_a_free_body_keeps_its_gradient(usual):
    health = usual
    np.testing.assert_allclose(health.norm, np.ones(STEPS), rtol=1e-10)
    drift = np.linalg.svd([[1, DT], [0, 1]], compute_uv=False)[0]
    np.testing.assert_allclose(health.growth, drift, rtol=1e-6)
    assert health.findings == [
        "nothing stands out in this rollout; give log=... to have the training looked at too"
    ]


def test_differences_along_a_gradient_are_its_norm(usual):
    assert abs(usual.slope.ratio - 1) < 1e-6 and usual.slope.reach == 0.1
    assert "differences of the cost along it: 1 of its norm, within 10 %" in usual.report()


def test_a_cost_that_falls_along_its_gradient_is_told(usual):
    wrong = dataclasses.replace(usual, slope=usual.slope._replace(ratio=-0.5))
    assert wrong.findings[0].startswith("along its gradient over 0.2 s the cost falls, by differences")
    rough = dataclasses.replace(usual, slope=usual.slope._replace(agreement=3.0))
    assert "agree at no step" in rough.findings[0] and "agree at no step" in rough.report()


def test_a_faded_gradient_is_seen_to_shrink(puck):
    health = bf.health(
        ride(puck, lambda s: s.v_WB[-1, 0, 0], bf.gradients.fade(0.5), bias=1.0), jnp.array(0.0), KEY
    )
    np.testing.assert_allclose(health.norm, 0.5 ** np.arange(STEPS)[::-1], rtol=1e-10)
    assert "shrinks" in health.findings[0] and "shrinks" in health.report()


def test_an_unstable_loop_is_seen_to_explode(puck):
    health = bf.health(ride(puck, lambda s: s.p_WB[-1, 0, 0], bias=1e-3), jnp.array(1e4), KEY)
    assert health.norm[0] > 1e3 * health.norm[-1]
    assert "grows" in health.findings[0]


def test_a_gradient_that_breaks_is_dated(puck):
    # the root has no slope at 0, where the puck still is after step 4
    health = bf.health(ride(puck, lambda s: jnp.sqrt(s.p_WB[4, 0, 0] ** 2)), jnp.array(1.0), KEY)
    np.testing.assert_array_equal(np.isfinite(health.norm), np.arange(STEPS) > 4)
    assert health.findings[0].startswith("the gradient is not finite from step 4 backwards: look for")


def test_a_gradient_that_is_nan_at_every_step_is_not_taken_for_none(puck):
    health = bf.health(ride(puck, lambda s: jnp.sqrt(s.p_WB[-1, 0, 0] ** 2)), jnp.array(1.0), KEY)
    assert np.isnan(health.norm).all()
    assert health.findings[0].startswith("the gradient is not finite from step 19 backwards: look for")
    assert "root, a norm or a division at zero in the cost" in health.next_step


def test_a_cost_that_does_not_look_is_told_so(puck):
    health = bf.health(ride(puck, lambda s: 0 * jax.lax.stop_gradient(s.p_WB).sum()), jnp.array(1.0), KEY)
    assert "no gradient came back" in health.findings[0] and not health.norm.any()


def test_a_jacobian_that_is_not_finite_is_never_called_normal(usual):
    growth = np.where(usual.sampled >= 7, np.nan, usual.growth)
    broken = dataclasses.replace(usual, growth=growth)
    assert broken.findings[0].startswith("the Jacobian of step 7 is not finite: look at the state before it")
    assert "largest 1.01;" in broken.report()
    assert "largest nan" in dataclasses.replace(usual, growth=np.nan * growth).report()


def test_a_state_that_does_not_stay_finite_is_dated(puck):
    def cost(gain, key):
        us = jnp.where(jnp.arange(STEPS) == 6, jnp.nan, gain)[:, None]
        return bf.rollout(SCHEME, puck, bf.rest(puck), us).last.v_WB[0, 0]

    health = bf.health(cost, jnp.array(1.0), KEY)
    assert health.findings[0].startswith("the state is not finite after step 6: ")
    assert "time step" in health.next_step and health.fall is None


def test_the_singular_value_of_a_step_from_nan_is_nan(puck):
    lost = bf.replace(puck, bf.rest(puck), w_WB={"puck": jnp.full(3, jnp.nan)})
    assert np.isnan(largest_singular_value(SCHEME, puck, lost, jnp.zeros(1))[0])


@pytest.mark.parametrize(("max_torque", "part"), [(1e-3, 1.0), (1e3, 0.0)])
def test_saturated_servos_are_counted(max_torque, part):
    model = lever(max_torque)

    def cost(target, key):
        us = jnp.full((3, 1), target)
        return bf.rollout(SCHEME, model, bf.rest(model), us).last.w_WB[0, 1]

    health = bf.health(cost, jnp.array(1.5), KEY)
    np.testing.assert_array_equal(health.saturated, part)
    assert ("saturated" in health.findings[0]) == bool(part)


def test_without_servos_there_is_no_part_of_them(puck):
    health = bf.health(jax.jit(ride(puck, lambda s: s.v_WB[-1, 0, 0])), jnp.array(0.0), KEY)
    assert np.isnan(health.saturated).all()


def test_a_cost_without_a_rollout_has_no_health():
    with pytest.raises(ValueError, match="did not call rollout"):
        bf.health(lambda gain, key: gain**2, jnp.array(1.0), KEY)


def hopper() -> bf.Model:
    """A trunk on a leg of two links that nobody drives."""
    b = bf.Builder(planar=True)
    b.add_ground(friction=0.8)
    b.add_body("trunk", bf.Sphere(0.15), mass=5.0, position=(0, 0, 0.8))
    b.add_body("leg", bf.Capsule(0.04, 0.4), mass=1.0, position=(0, 0, 0.4))
    b.add_hinge("hip", "trunk", "leg", position=(0, 0, 0.65), axis=(0, 1, 0))
    b.add_motor("hip")
    return b.build()


def log_of(validation, best_update, norm=1.0):
    """A training of 2,500 updates, of which the cost of every tenth is known."""
    rows = [{"update": i, "cost": 1.0, "norm": norm if i % 50 == 7 else 1.0} for i in range(2500)]
    for row, value in zip(rows[::10], validation, strict=False):
        row["validation"] = value
    return bf.Log(rows, None, best_update, float(np.min(validation)))


def test_a_training_that_failed_is_never_called_healthy():
    """A hopper that falls, whose training has not improved for 2,000 updates."""
    model, scheme = hopper(), bf.Scheme(0.02, bf.PGS(sweeps=10))

    def cost(push, key):
        return -bf.rollout(scheme, model, bf.rest(model), jnp.full((60, 1), push)).last.p_WB[0, 0]

    health = bf.health(cost, jnp.array(3.0), KEY, log=log_of([2.0, 1.0, 1.5], 500))
    assert health.fall is not None and health.fall.body == "trunk" and 5 < health.fall.step < 50
    report = health.report()
    assert '"trunk" is on the floor from step' in report and "no improvement for 2,000 updates" in report
    assert "nothing stands out" not in report
    assert report.splitlines()[-1] == f"next: {health.next_step}" and health.next_step
    before = bf.health(cost, jnp.array(0.0), KEY)
    assert before.fall is None and before.growth.max() < before.normal_growth


def test_a_steep_step_is_dated_and_what_is_normal_is_said(usual):
    steep = dataclasses.replace(usual, growth=np.where(usual.sampled == 7, 636.0, usual.growth))
    assert "step 7 multiplies a small change by 636, where up to 300 is normal" in steep.findings[0]
    assert "more sweeps" in steep.next_step


@pytest.mark.parametrize("gain", [5.0, 20.0])
def test_servos_of_any_gain_are_normal(gain):
    b = bf.Builder()
    b.add_body("rod", bf.Capsule(0.05, 0.5), mass=1.0)
    b.add_hinge("pivot", "world", "rod", position=(0, 0, 0.3), axis=(0, 1, 0))
    b.add_servo("pivot", gain=gain, max_velocity=5.0, max_torque=100.0)
    model = b.build()

    def cost(target, key):
        return bf.rollout(SCHEME, model, bf.rest(model), jnp.full((5, 1), target)).last.w_WB[0, 1]

    health = bf.health(cost, jnp.array(0.1), KEY)
    assert gain / 2 < health.growth.max() < health.normal_growth, "joints that are held do not count"


def test_the_log_is_read(usual):
    def findings(*training):
        return " ".join(dataclasses.replace(usual, log=log_of(*training)).findings)

    assert findings(np.linspace(2, 1, 250), 2490) == "nothing stands out in this rollout"
    assert "from 2 to 1.99 only: begin with an easier task" in findings([2.0, 1.99], 2490)
    assert "no improvement for 1,900 updates" in findings([2.0, 1.0], 600)
    assert "300 times as long as those around it" in findings(np.linspace(2, 1, 250), 2490, 300.0)


def test_weights_that_do_not_stay_finite_are_reported(usual):
    skipped = [NonFinite(i, 0, 3, "state") for i in range(100)]
    log = dataclasses.replace(log_of(np.linspace(2, 1, 250), 2490), skipped=skipped)
    assert "100 of 2500 updates were skipped" in dataclasses.replace(usual, log=log).findings[0]


def pusher() -> bf.Model:
    """A driven finger that hangs from the world, and a heavier box, which it never touches."""
    b = bf.Builder()
    b.add_body("finger", bf.Sphere(0.1), mass=1.0)
    b.add_body("box", bf.Box((0.2, 0.2, 0.2)), mass=5.0, position=(2, 0, 0.1), collide=False)
    b.add_slider("reach", "world", "finger", axis=(1, 0, 0))
    b.add_motor("reach")
    return b.build()


def test_a_policy_that_never_reaches_what_the_cost_looks_at_is_never_called_healthy():
    model = pusher()

    def cost(push, key):
        path = bf.rollout(SCHEME, model, bf.rest(model), jnp.full((5, 1), push))
        return (path.last.p_WB[1, 0] - 3) ** 2

    health = bf.health(cost, jnp.array(0.1), KEY)
    assert health.policy_norm == 0 and health.norm.all() and health.cost == pytest.approx(1)
    assert "gradient with respect to the policy: norm 0\n" in health.report()
    assert health.findings[0].startswith("nothing the policy does reaches the cost")
    for remedy in ("start in contact", "a reaching term", "Implicit(smoothness=...)"):
        assert remedy in health.next_step
    faint = dataclasses.replace(health, policy_norm=1e-12)
    assert faint.findings == [health.findings[0].replace("is 0", "is 1e-12")]
    assert "nothing stands out" in dataclasses.replace(health, policy_norm=1e-3).report()


def test_a_log_whose_gradients_are_all_zero_is_read(usual):
    rows = [{"update": i, "cost": 1.0, "norm": 0.0, "validation": 1.0} for i in range(240)]
    health = dataclasses.replace(usual, log=bf.Log(rows, None, 0, 1.0))
    assert "reaches the cost (its gradient was 0 in every update): start in contact" in health.findings[0]
    rows = [row | {"norm": float(i % 4 == 0)} for i, row in enumerate(rows)]
    assert "180 of 240 updates" in dataclasses.replace(usual, log=bf.Log(rows, None, 0, 1.0)).findings[0]


def tipped(model, body, height):
    """The state at rest, with one body on its side at a height."""
    state, side = bf.rest(model), jnp.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
    place = state.p_WB[model.body(body)].at[2].set(height)
    return bf.replace(model, state, p_WB={body: place}, R_WB={body: side})


def test_a_box_that_is_pushed_over_is_no_robot_that_fell():
    model = pusher()
    assert find_fall(model, [bf.rest(model), tipped(model, "box", 0.02)]) is None


@pytest.mark.parametrize(("height", "falls"), [(0.75, False), (0.6, True)])
def test_to_topple_is_to_lose_height_too(height, falls):
    """A somersault at full height is no fall."""
    model = hopper()
    fall = find_fall(model, [bf.rest(model), tipped(model, "trunk", height)])
    assert (fall is not None) == falls
    assert not falls or (fall.body, fall.step, fall.after) == ("trunk", 1, pytest.approx(height))


def test_findings_that_explain_more_come_first_and_remarks_last(usual):
    steep = dataclasses.replace(usual, growth=np.where(usual.sampled == 7, 636.0, usual.growth))
    stuck = dataclasses.replace(steep, log=log_of([2.0, 1.0, 1.5], 500))
    assert "no improvement for 2,000 updates" in stuck.findings[0] and "step 7" in stuck.findings[1]
    assert "gradients.clip(1.0) as a hook of the rollout if it is not there yet" in stuck.findings[1]
    dead = dataclasses.replace(stuck, policy_norm=0.0, cost=1.0)
    assert "nothing the policy does reaches the cost" in dead.findings[0] and len(dead.findings) == 3


@pytest.mark.parametrize(
    ("best", "trend", "following"),
    [(2490, "it still gains", "go on from log.best"), (36, "it no longer gains", "a harder task")],
)
def test_the_report_says_whether_the_training_still_gains_and_what_is_next(usual, best, trend, following):
    log = log_of(np.linspace(2, 1, 250), best)
    log = log if best > 50 else dataclasses.replace(log, rows=log.rows[:49])
    lines = dataclasses.replace(usual, log=log).report().splitlines()
    assert f"validation cost from 2 to 1, the best after update {best:,}: {trend}" in "\n".join(lines)
    assert lines[-1].startswith(f"next: {following}")
