"""Rollouts are repeated steps; batches are loops; every way of differentiating agrees; memory is bounded."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip import robots

SCHEME = bf.Scheme(0.01, bf.PGS(sweeps=4))


@pytest.fixture(scope="module")
def cart() -> bf.Model:
    """Cart and pole, with a motor on the cart: smooth."""
    b = bf.Builder()
    b.add_body("cart", bf.Box((0.3, 0.2, 0.1)), mass=1.0)
    b.add_body("pole", bf.Sphere(0.1), mass=0.3, position=(0, 0, 0.6))
    b.add_slider("rail", "world", "cart", axis=(1, 0, 0))
    b.add_hinge("pivot", "cart", "pole", position=(0, 0, 0), axis=(0, 1, 0))
    b.add_motor("rail")
    b.add_sensor(bf.JointAngle("rail"), bf.JointAngle("pivot"))
    return b.build()


@pytest.fixture(scope="module")
def pendulum() -> bf.Model:
    return robots.pendulum(motor=True)


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    """A ball that strikes the ground, slides and rolls: contact and friction."""
    b = bf.Builder()
    b.add_body("ball", bf.Sphere(0.1), mass=0.5, position=(0, 0, 0.11), velocity=(1, 0.3, -1.5))
    b.add_ground(friction=0.4, restitution=0.5)
    b.add_force("ball", direction=(1, 0, 0))
    return b.build()


def loop(model, state, us):
    states = []
    for u in us:
        state = bf.step(SCHEME, model, state, u)
        states.append(state)
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


def assert_same(a, b, **how):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **how)


def test_open_loop_controls_are_played_as_they_are(cart):
    us = jnp.sin(jnp.arange(7.0))[:, None]  # 7 is no square: the last stretch is short
    start = bf.rest(cart, jnp.array([0.0, 0.3]))
    trajectory = jax.jit(lambda m, s, us: bf.rollout(SCHEME, m, s, us))(cart, start, us)
    assert_same(trajectory.state, loop(cart, start, us), rtol=1e-12, atol=1e-11)
    assert_same(trajectory.last, jax.tree.map(lambda x: x[-1], trajectory.state))
    np.testing.assert_array_equal(trajectory.u, us)


def test_a_policy_sees_observations_and_remembers(cart):
    def integrator(observation, total):
        total = total + observation[1]
        return -3 * total[None], total

    start = bf.rest(cart, jnp.array([0.0, 0.3]))
    run = jax.jit(lambda m, s: bf.rollout(SCHEME, m, s, integrator, steps=11, memory=jnp.array(0.5)))
    trajectory = run(cart, start)
    seen = jax.vmap(bf.observe, in_axes=(None, 0))(cart, trajectory.state)[:, 1]
    total = 0.5 + np.cumsum(np.concatenate([[0.3], seen[:-1]]))
    np.testing.assert_allclose(trajectory.u[:, 0], -3 * total, rtol=1e-12)
    np.testing.assert_allclose(trajectory.memory, total[-1], rtol=1e-12)


def test_without_a_policy_everything_is_let_go(puck):
    run = jax.jit(lambda m, s: bf.rollout(SCHEME, m, s, steps=5))
    trajectory = run(puck, bf.rest(puck))
    assert trajectory.u.shape == (5, 1) and not trajectory.u.any()


def test_a_batch_of_different_robots_is_a_loop_over_them(puck):
    random = np.random.default_rng(0)
    mass, radius = jnp.asarray(random.uniform(0.2, 2, 128)), jnp.asarray(random.uniform(0.05, 0.2, 128))

    def robot(mass, radius):
        model = eqx.tree_at(lambda m: (m.mass, m.size), puck, (mass[None], puck.size.at[0, 0].set(radius)))
        return model, bf.rest(model)

    def one(mass, radius, u):
        return bf.step(SCHEME, *robot(mass, radius), u)

    us = jnp.asarray(random.normal(size=(128, 1)))
    batch = jax.jit(jax.vmap(one))(mass, radius, us)
    for i in (0, 50, 127):
        single = bf.step(SCHEME, *robot(mass[i], radius[i]), us[i])
        assert_same(jax.tree.map(lambda x, i=i: x[i], batch), single, rtol=1e-10, atol=1e-12)


def end(model, start, us):
    """Where the last body is and how fast it turns after three steps."""
    last, _ = jax.lax.scan(lambda now, u: (bf.step(SCHEME, model, now, u), None), start, us)
    return jnp.concatenate([last.p_WB[-1], last.w_WB[-1]])


def test_forward_and_reverse_derivatives_agree(puck):
    model, us, start = puck, jnp.array([[0.3], [-0.2], [0.5]]), bf.rest(puck)

    def of(mass, us):
        return end(eqx.tree_at(lambda m: m.mass, model, mass), start, us)

    forward, reverse = (jax.jit(j(of, (0, 1)))(model.mass, us) for j in (jax.jacfwd, jax.jacrev))
    assert_same(forward, reverse, rtol=1e-10, atol=1e-10)
    assert np.abs(forward[1]).max() > 1e-6


def test_a_hessian_is_symmetric_and_finite(pendulum):
    start = bf.rest(pendulum, jnp.array([0.3]))

    def loss(us):
        return jnp.sum(end(pendulum, start, us) ** 2)

    H = jax.jit(jax.hessian(loss))(jnp.array([[0.3], [-0.2], [0.5]])).reshape(3, 3)
    assert np.isfinite(H).all() and np.abs(H).max() > 0
    np.testing.assert_allclose(H, H.T, rtol=1e-9, atol=1e-14)


def test_memory_of_a_gradient_grows_slowly_beyond_a_thousand_steps(pendulum):
    start = bf.rest(pendulum)

    def bytes_for(steps: int) -> int:
        def loss(gain):
            def policy(observation, memory):
                return -gain * observation[:1], memory

            return bf.rollout(SCHEME, pendulum, start, policy, steps=steps).last.p_WB.sum()

        compiled = jax.jit(jax.grad(loss)).lower(jnp.array(1.0)).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = bytes_for(1000), bytes_for(10_000)
    assert many < 2.5 * few


def test_a_trajectory_has_its_start(cart):
    start = bf.rest(cart, positions={"pivot": 0.3})
    path = jax.jit(lambda: bf.rollout(SCHEME, cart, start, steps=4))()
    assert_same(path.start, start)
    assert path.from_start.p_WB.shape == (5, 2, 3)
    assert_same(jax.tree.map(lambda x: x[0], path.from_start), start)
    assert_same(jax.tree.map(lambda x: x[1:], path.from_start), path.state)
    two = jax.tree.map(lambda x: jnp.stack([x, x]), start)
    batch = jax.vmap(lambda s: bf.rollout(SCHEME, cart, s, steps=4).from_start)(two)
    assert batch.p_WB.shape == (2, 5, 2, 3)


def go(cart, policy, **options):
    return bf.rollout(SCHEME, cart, bf.rest(cart), policy, **({"steps": 3} | options))


KEY = jax.random.key(0)
WRONG = {
    "too wide": (bf.MLP(5, 1, (4,), key=KEY), r"fails on an observation of shape \(2,\) and no memory"),
    "too many outputs": (
        bf.MLP(2, 3, (4,), key=KEY),
        r"u of shape \(3,\); this model has 1 actuators.*: 2 and 1",
    ),
    "one argument": (lambda observation: observation[:1], "fails on .* policy is policy"),
    "no memory returned": (lambda observation, memory: observation[:1], r"return \(u, memory\)"),
    "memory never started": (
        lambda o, m: (o[:1], o),
        r"given no memory and returned a memory of shape \(2,\)",
    ),
    "memory not started": (
        lambda o, m: (o[:1] + m, m),
        "no memory: .*starts as memory=..., or as its method blank",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_policy_that_does_not_fit_is_named_at_once(cart, what):
    policy, message = WRONG[what]
    with pytest.raises(ValueError, match=f"rollout: the policy .*{message}") as caught:
        go(cart, policy)
    remedy = "MLP(model.observation_size, model.controls, ...)" in str(caught.value)
    assert remedy == isinstance(policy, bf.MLP)


def test_a_memory_of_another_size_is_refused(cart):
    policy = bf.Elman(2, 1, 4, key=KEY)
    with pytest.raises(
        ValueError, match=r"fails on an observation of shape \(2,\) and a memory of shape \(7,\)"
    ):
        go(cart, policy, memory=jnp.zeros(7))


@pytest.mark.parametrize("steps", [None, 2.5, -1, "3"])
def test_steps_are_a_whole_number(cart, steps):
    with pytest.raises(ValueError, match="rollout: steps is"):
        go(cart, None, steps=steps)


def test_swapped_arguments_and_batches_are_refused(cart):
    state = bf.rest(cart)
    with pytest.raises(TypeError, match="a Model was given where a Scheme belongs; mind the order"):
        bf.rollout(cart, SCHEME, state, steps=3)
    with pytest.raises(TypeError, match="a State was given where a Model belongs"):
        bf.rollout(SCHEME, state, cart, steps=3)
    with pytest.raises(TypeError, match="a Model was given where a policy belongs"):
        bf.rollout(SCHEME, cart, state, cart, steps=3)
    with pytest.raises(ValueError, match=r"state.p_WB has shape \(5, 2, 3\).*jax.vmap"):
        bf.rollout(SCHEME, cart, jax.tree.map(lambda x: jnp.stack([x] * 5), state), steps=3)


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (bf.gradients.clip(1.0), r"hooks is one function; give a sequence, such as hooks=\(gradients.clip"),
        (None, "hooks is None; give a sequence"),
        ((bf.gradients.clip,), r"gradients.clip itself; call it: gradients.clip\(1.0\)"),
        ([bf.gradients.fade], r"gradients.fade itself; call it"),
        ((bf.gradients.clip_per_robot,), "clip_per_robot is no hook; call it in the cost"),
        ((0.95,), "hooks has 0.95; a hook is a function"),
    ],
)
def test_hooks_of_the_wrong_kind_are_named(cart, hooks, message):
    with pytest.raises(ValueError, match=f"rollout: .*{message}"):
        go(cart, None, hooks=hooks)


@pytest.mark.parametrize(("steps", "needed"), [(None, r"\(steps, 1\)"), (3, r"\(3, 1\)")])
def test_controls_of_the_wrong_shape_are_told_the_right_one(cart, steps, needed):
    with pytest.raises(ValueError, match=rf"controls have shape \(4, 2\); this model needs {needed}"):
        go(cart, jnp.zeros((4, 2)), steps=steps)


def test_after_no_steps_the_last_state_is_the_start(cart):
    path = go(cart, None, steps=0)
    assert_same(path.last, bf.rest(cart))
    with pytest.raises(ValueError, match="start is not known"):
        _ = path._replace(start=None).last
