"""What a policy is."""

import abc
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import equinox as eqx
from jax import Array


class Policy(eqx.Module):
    """Base class of policies: reads observations, drives actuators, and may have a memory.

    Any callable `policy(observation, memory) -> (u, memory)` will do where a policy is asked for; this class
    adds the memory to start with.
    """

    def blank(self) -> Any:
        """The memory to start with; None: no memory."""
        return None

    @abc.abstractmethod
    def __call__(self, observation: Array, memory: Any) -> tuple[Array, Any]:
        """u (controls,) for an observation (observations,), and the memory for the next step."""

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: functions of modules by name, for jax.nn.relu cannot be pickled."""
        return {name: _by_name(value) for name, value in vars(self).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value.find() if isinstance(value, _FunctionName) else value)


class _FunctionName(NamedTuple):
    """Where a function is found."""

    module: str
    name: str

    def find(self) -> Callable:
        """The function itself."""
        return getattr(import_module(self.module), self.name)


def _by_name(value: Any) -> Any:
    """A function by its place in a module, where it has one; everything else as it is."""
    name = _FunctionName(getattr(value, "__module__", None) or "", getattr(value, "__name__", ""))
    if not callable(value) or isinstance(value, eqx.Module) or not all(name):
        return value
    try:
        return name if name.find() is value else value
    except (ImportError, AttributeError):
        return value
