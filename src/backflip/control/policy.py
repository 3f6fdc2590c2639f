"""What a policy is."""

import abc
from typing import Any

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
