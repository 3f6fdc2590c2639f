"""Networks whose output layer starts at zero, so that the first policy is the zero policy."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.control.arguments import check_key, check_layers, check_sizes
from backflip.control.policy import Policy


def _silent(inputs: int, outputs: int) -> eqx.nn.Linear:
    """A dense layer of zeros."""
    layer = eqx.nn.Linear(inputs, outputs, key=jax.random.key(0))
    return jax.tree.map(jnp.zeros_like, layer)


def _check(who: str, inputs: Any, outputs: Any, units: Any, key: Any) -> None:
    """What a recurrent network is made with."""
    check_sizes(who, smallest=0, inputs=inputs, outputs=outputs)
    check_sizes(who, units=units)
    check_key(who, key)


class MLP(Policy):
    """Dense layers without memory; with `skip` a second output layer reads the input and is added."""

    hidden: tuple[eqx.nn.Linear, ...]
    top: eqx.nn.Linear
    skip: eqx.nn.Linear | None
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] = (128, 128),
        *,
        key: Array,
        activation: Callable[[Array], Array] = jax.nn.relu,
        skip: bool = False,
    ):
        check_sizes("MLP", smallest=0, inputs=inputs, outputs=outputs)
        check_key("MLP", key)
        hidden = check_layers("MLP", hidden)
        sizes = (inputs, *hidden)
        keys = jax.random.split(key, max(len(hidden), 1))
        self.hidden = tuple(
            eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=False)
        )
        self.top = _silent(sizes[-1], outputs)
        self.skip = _silent(inputs, outputs) if skip else None
        self.activation = activation

    def __call__(self, observation: Array, memory: Any = None) -> tuple[Array, Any]:
        """u (outputs,) for an observation (inputs,); memory passes through."""
        x = observation
        for layer in self.hidden:
            x = self.activation(layer(x))
        u = self.top(x)
        return (u if self.skip is None else u + self.skip(observation)), memory


class Elman(Policy):
    """h' = tanh(W s + U h + b), u = V h' + c: the recurrent connection h of Degrave et al., eq. (3)."""

    read: eqx.nn.Linear
    recall: eqx.nn.Linear
    top: eqx.nn.Linear

    def __init__(self, inputs: int, outputs: int, units: int = 64, *, key: Array):
        _check("Elman", inputs, outputs, units, key)
        first, second = jax.random.split(key)
        self.read = eqx.nn.Linear(inputs, units, key=first)
        self.recall = eqx.nn.Linear(units, units, use_bias=False, key=second)
        self.top = _silent(units, outputs)

    def blank(self) -> Array:
        """The memory to start with."""
        return jnp.zeros(self.recall.in_features)

    def __call__(self, observation: Array, memory: Array) -> tuple[Array, Array]:
        """u (outputs,), and h (units,) for the next step."""
        memory = jnp.tanh(self.read(observation) + self.recall(memory))
        return self.top(memory), memory


class GRU(Policy):
    """A gated recurrent unit and a dense layer on its state."""

    cell: eqx.nn.GRUCell
    top: eqx.nn.Linear

    def __init__(self, inputs: int, outputs: int, units: int = 64, *, key: Array):
        _check("GRU", inputs, outputs, units, key)
        self.cell = eqx.nn.GRUCell(inputs, units, key=key)
        self.top = _silent(units, outputs)

    def blank(self) -> Array:
        """The memory to start with."""
        return jnp.zeros(self.cell.hidden_size)

    def __call__(self, observation: Array, memory: Array) -> tuple[Array, Array]:
        """u (outputs,), and h (units,) for the next step."""
        memory = self.cell(observation, memory)
        return self.top(memory), memory


class LSTM(Policy):
    """A long short-term memory and a dense layer on its state."""

    cell: eqx.nn.LSTMCell
    top: eqx.nn.Linear

    def __init__(self, inputs: int, outputs: int, units: int = 64, *, key: Array):
        _check("LSTM", inputs, outputs, units, key)
        self.cell = eqx.nn.LSTMCell(inputs, units, key=key)
        self.top = _silent(units, outputs)

    def blank(self) -> tuple[Array, Array]:
        """The memory to start with: h and c."""
        zeros = jnp.zeros(self.cell.hidden_size)
        return zeros, zeros

    def __call__(self, observation: Array, memory: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        """u (outputs,), and h and c (units,) for the next step."""
        memory = self.cell(observation, memory)
        return self.top(memory[0]), memory
