"""Networks start silent, have the sizes they say, and remember; any callable is a policy."""

import copy
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import backflip as bf

SCHEME = bf.Scheme(0.1, bf.PGS(sweeps=1))
KEY = jax.random.key(0)
QUIET = bf.Progress(quiet=True)


def make(kind, inputs=2, outputs=1):
    return kind(inputs, outputs, (8,), key=KEY) if kind is bf.MLP else kind(inputs, outputs, 8, key=KEY)


def count(policy) -> int:
    return sum(x.size for x in jax.tree.leaves(eqx.filter(policy, eqx.is_inexact_array)))


def blank(policy):
    return policy.blank() if hasattr(policy, "blank") else None


@pytest.mark.parametrize(
    ("inputs", "hidden", "outputs", "skip", "parameters"),
    [
        (1, (128, 128), 4, False, 17_284),
        (2, (128, 128), 8, True, 17_952),
        (3, (1024, 1024, 1024), 4, False, 2_107_396),
        (5, (), 3, False, 18),
    ],
)
def test_a_network_has_as_many_parameters_as_its_layers(inputs, hidden, outputs, skip, parameters):
    assert count(bf.MLP(inputs, outputs, hidden, key=KEY, skip=skip)) == parameters


@pytest.mark.parametrize("kind", [bf.MLP, bf.Elman, bf.GRU, bf.LSTM])
def test_the_first_policy_is_the_zero_policy(kind):
    policy = make(kind, 3, 2)
    memory = blank(policy)
    for observation in (jnp.ones(3), -5 * jnp.ones(3)):
        u, memory = policy(observation, memory)
        assert u.shape == (2,) and not u.any()


def test_a_skip_adds_a_dense_layer_of_the_input():
    policy = bf.MLP(2, 3, (8,), key=KEY, skip=True)
    A = jnp.arange(6.0).reshape(3, 2)
    skipping = eqx.tree_at(lambda p: p.skip.weight, policy, A)
    x = jnp.array([0.3, -2.0])
    np.testing.assert_allclose(skipping(x)[0], A @ x)
    both = eqx.tree_at(lambda p: p.top.bias, skipping, jnp.ones(3))
    np.testing.assert_allclose(both(x)[0], A @ x + 1)


def test_elman_is_its_equation():
    policy = make(bf.Elman)
    policy = eqx.tree_at(lambda p: p.top.weight, policy, jnp.ones((1, 8)))
    x, h = jnp.array([0.3, -2.0]), jnp.linspace(-1, 1, 8)
    u, after = policy(x, h)
    expected = np.tanh(policy.read.weight @ x + policy.read.bias + policy.recall.weight @ h)
    np.testing.assert_allclose(after, expected, rtol=1e-6)
    np.testing.assert_allclose(u, [expected.sum()], rtol=1e-6)


@pytest.mark.parametrize("kind", [bf.Elman, bf.GRU, bf.LSTM])
def test_a_recurrent_network_answers_to_the_past(kind):
    policy = make(kind)
    policy = eqx.tree_at(lambda p: p.top.weight, policy, jnp.ones((1, 8)))
    now, answers = jnp.ones(2), []
    for past in (jnp.zeros(2), jnp.ones(2)):
        _, memory = policy(past, policy.blank())
        answers.append(float(policy(now, memory)[0][0]))
    assert abs(answers[0] - answers[1]) > 1e-3


class Flax(nnx.Module):
    """A Flax module that is a policy as it is."""

    def __init__(self, rngs: nnx.Rngs):
        self.hidden, self.top = nnx.Linear(6, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, observation, memory):
        return self.top(nnx.relu(self.hidden(observation))), memory


class Lag(eqx.Module):
    """An Equinox module with a memory of its own kind."""

    layer: eqx.nn.Linear

    def blank(self):
        return {"seen": jnp.zeros(6), "steps": jnp.array(0)}

    def __call__(self, observation, memory):
        return self.layer(memory["seen"]), {"seen": observation, "steps": memory["steps"] + 1}


POLICIES = {
    "LSTM": lambda: make(bf.LSTM, 6),
    "Flax": lambda: Flax(nnx.Rngs(0)),
    "Equinox": lambda: Lag(eqx.nn.Linear(6, 1, key=KEY)),
}


@pytest.fixture(scope="module")
def puck() -> bf.Model:
    """A free body with a push along x."""
    b = bf.Builder(gravity=(0, 0, 0))
    b.add_body("puck", bf.Sphere(0.1), mass=1.0, position=(0.5, 0, 0))
    b.add_force("puck", direction=(1, 0, 0))
    b.add_sensor(bf.Position("puck"), bf.Velocity("puck"))
    return b.build()


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_learns_to_go_home(name, puck):
    start = bf.rest(puck)

    def cost(policy, key):
        return jnp.mean(bf.rollout(SCHEME, puck, start, policy, steps=10).state.p_WB[:, 0, 0] ** 2)

    before = POLICIES[name]()
    after, log = bf.train(cost, before, optimizer=optax.adam(0.03), updates=8, key=KEY, progress=QUIET)
    assert type(after) is type(before) and not log.skipped
    assert log.cost[-1] < log.cost[0]


def test_a_clock_turns_at_its_frequency_and_is_played_at_once():
    signal = bf.clock(100, 0.01, 2.0)
    assert signal.shape == (100, 2)
    np.testing.assert_allclose(signal[25], [0, -1], atol=1e-6)
    np.testing.assert_allclose(bf.open_loop(lambda x, _: (3 * x[:1], None), signal), 3 * signal[:, :1])


@pytest.mark.parametrize("kind", [bf.MLP, bf.Elman, bf.GRU, bf.LSTM])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_policies_can_be_pickled_and_copied(kind, duplicate):
    policy = make(kind)
    policy = eqx.tree_at(lambda p: p.top.weight, policy, jnp.ones((1, 8)))
    twin = duplicate(policy)
    x = jnp.array([0.3, -2.0])
    assert jax.tree.structure(twin) == jax.tree.structure(policy)
    np.testing.assert_array_equal(twin(x, twin.blank())[0], policy(x, policy.blank())[0])


def test_an_activation_without_a_name_is_copied_as_it_is():
    policy = bf.MLP(2, 1, (4,), key=KEY, activation=lambda x: 2 * x)
    assert copy.deepcopy(policy).activation is policy.activation
    own = bf.MLP(2, 1, (4,), key=KEY, activation=jnp.tanh)
    assert pickle.loads(pickle.dumps(own)).activation is jnp.tanh


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bf.MLP(3, 2, 8, key=KEY), r"MLP: hidden is 8; .*such as hidden=\(8,\)"),
        (lambda: bf.MLP(3, 2, (8, 0.5), key=KEY), r"MLP: hidden\[1\] is 0.5; give a whole number from 1 up"),
        (lambda: bf.MLP(None, 2, key=KEY), "MLP: inputs is None; give a whole number"),
        (lambda: bf.MLP(3, 2, key=0), r"MLP: key is 0; give one key, such as jax.random.key\(0\)"),
        (lambda: bf.Elman(3, 2, key=jax.random.split(KEY)), "Elman: key is .*; give one key"),
        (lambda: bf.GRU(3, 2, (8,), key=KEY), "GRU: units is a tuple; give a whole number from 1 up"),
        (lambda: bf.LSTM(3, 2.5, key=KEY), "LSTM: outputs is 2.5; give a whole number"),
    ],
)
def test_a_network_of_the_wrong_sizes_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
