"""Hooks in a rollout scale gradients as the formulas say, and leave every value as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf

DT, MASS, STEPS = 0.01, 2.0, 7
SCHEME = bf.Scheme(DT, bf.PGS(sweeps=1))
US = jnp.sin(jnp.arange(float(STEPS)))[:, None]
K, T = np.mgrid[:STEPS, :STEPS]
# a push u_t moves the puck after step k ≥ t by
#   ∂x_k/∂u_t = dt²/m (k − t + ½)                  [m/N]
PUSH = np.where(K >= T, DT**2 / MASS * (K - T + 0.5), 0.0)


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    """A free body with a push along x: linear."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=MASS)
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"))
    return b.build()


def travel(model, *hooks):
    """(steps,) where the puck is, as a function of the pushes."""
    start = bf.rest(model)
    return jax.jit(lambda us: bf.rollout(SCHEME, model, start, us, hooks=hooks).state.p_WB[:, 0, 0])


def slope(model, *hooks):
    return jax.grad(lambda us: travel(model, *hooks)(us).sum())(US)[:, 0]


def test_values_pass_unchanged(puck):
    hooks = bf.gradients.fade(0.9), bf.gradients.truncate(3), bf.gradients.clip(1e-3)
    np.testing.assert_array_equal(travel(puck, *hooks)(US), travel(puck)(US))


@pytest.mark.parametrize("alpha", [0.7, 0.0])
def test_fade_weighs_the_past_by_alpha_per_step(puck, alpha):
    by_hand = (PUSH * float(alpha) ** np.maximum(K - T, 0)).sum(0)
    np.testing.assert_allclose(slope(puck, bf.gradients.fade(alpha)), by_hand, rtol=1e-10)


def test_fade_weighs_what_a_policy_remembers_too(puck):
    alpha = 0.7

    def final(w):
        def add(observation, total):
            return (total + w)[None], total + w

        ran = bf.rollout(
            SCHEME, puck, bf.rest(puck), add, steps=STEPS, memory=0.0 * w, hooks=(bf.gradients.fade(alpha),)
        )
        return ran.last.p_WB[0, 0]

    k = STEPS - 1
    by_hand = sum(PUSH[k, t] * alpha ** (k - i) for t in range(STEPS) for i in range(t + 1))
    np.testing.assert_allclose(jax.jit(jax.grad(final))(1.3), by_hand, rtol=1e-10)


def test_forward_mode_is_scaled_like_reverse_mode(puck):
    by_hand = PUSH * 0.7 ** np.maximum(K - T, 0)
    _, gradient = jax.jvp(travel(puck, bf.gradients.fade(0.7)), (US,), (jnp.ones_like(US),))
    np.testing.assert_allclose(gradient, by_hand.sum(1), rtol=1e-10)


def test_cut_leaves_gradients_within_their_window(puck):
    same_window = K // 3 == T // 3
    np.testing.assert_allclose(slope(puck, bf.gradients.truncate(3)), (PUSH * same_window).sum(0), rtol=1e-10)


def test_hooks_compose(puck):
    by_hand = (PUSH * 0.7 ** np.maximum(K - T, 0) * (K // 3 == T // 3)).sum(0)
    np.testing.assert_allclose(
        slope(puck, bf.gradients.fade(0.7), bf.gradients.truncate(3)), by_hand, rtol=1e-10
    )


@pytest.mark.parametrize(("dtype", "steepness"), [(jnp.float64, 1e3), (jnp.float32, 1e30)])
def test_clip_shortens_what_every_step_hands_back(puck, dtype, steepness):
    model = jax.tree.map(lambda x: x.astype(dtype), puck)
    start = bf.rest(model)

    def cost(us):
        return (
            steepness * bf.rollout(SCHEME, model, start, us, hooks=(bf.gradients.clip(0.5),)).last.v_WB[0, 0]
        )

    # the last push is paid for directly; what went through a piece has length 0.5
    by_hand = DT / MASS * np.array([0.5] * (STEPS - 1) + [steepness])
    gradient = jax.jit(jax.grad(cost))(jnp.zeros((STEPS, 1), dtype))[:, 0]
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-6)


def test_clip_lets_short_gradients_pass(puck):
    np.testing.assert_allclose(slope(puck, bf.gradients.clip(1e6)), PUSH.sum(0), rtol=1e-10)


def test_a_memory_of_integers_passes(puck):
    hooks = bf.gradients.fade(0.9), bf.gradients.truncate(5), bf.gradients.clip(1.0)

    def cost(w):
        def count(observation, t):
            return (w * t)[None], t + 1

        ran = bf.rollout(SCHEME, puck, bf.rest(puck), count, steps=3, memory=jnp.array(0), hooks=hooks)
        return ran.last.p_WB[0, 0], ran.memory

    gradient, counted = jax.jit(jax.grad(cost, has_aux=True))(1.0)
    assert gradient > 0 and counted == 3


def test_limit_gives_every_robot_one_vote():
    pulls = jnp.array([[3.0, 4.0], [0.0, 1000.0], [0.3, 0.0]])
    keys = jax.random.split(jax.random.key(0), 3)

    def cost(weights, key, pull):
        return (
            bf.gradients.clip_per_robot({"weights": weights, "name": "no array"}, 1 / 3, key)["weights"]
            @ pull
        )

    def mean(weights):
        return jax.vmap(cost, in_axes=(None, 0, 0))(weights, keys, pulls).mean()

    value, gradient = jax.value_and_grad(mean)(jnp.ones(2))
    assert value == pytest.approx(pulls.sum() / 3)
    by_hand = np.array([[0.6, 0.8], [0.0, 1.0], [0.3, 0.0]]).mean(0)
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-6)


@pytest.mark.parametrize("wrong", [1.5, -0.1, float("nan")])
def test_fade_wants_a_factor(wrong):
    with pytest.raises(ValueError, match=r"fade: alpha is .* between 0 and 1"):
        bf.gradients.fade(wrong)


@pytest.mark.parametrize("wrong", [0, -3])
def test_truncate_wants_steps(wrong):
    with pytest.raises(ValueError, match="truncate: every is"):
        bf.gradients.truncate(wrong)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf")])
def test_clip_and_clip_per_robot_want_a_length(wrong):
    with pytest.raises(ValueError, match=r"clip: norm is .* positive"):
        bf.gradients.clip(wrong)
    with pytest.raises(ValueError, match=r"clip_per_robot: norm is .* positive"):
        bf.gradients.clip_per_robot(jnp.ones(2), wrong, jax.random.key(0))
