"""What train() asks of a cost function, and what it makes of its answer."""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from backflip.learn.probe import Probe, bare, probing

Cost = Callable[[Any, Array], Any]
"""cost(policy, key) of one robot: a number, or a number and a dictionary of figures for the log"""

OWN = ("update", "cost", "validation", "simulations", "norm", "seconds", "skipped")
"""names of figures that rows have of their own"""


def check_cost(cost: Any) -> None:
    """Raise ValueError where `cost` cannot be called as cost(policy, key)."""
    if not callable(cost):
        raise ValueError(f"train: cost is {type(cost).__name__}; give a function cost(policy, key)")
    try:
        signature = inspect.signature(cost)
    except (TypeError, ValueError):
        return  # some functions of C have none
    try:
        signature.bind(None, None)
    except TypeError:
        raise ValueError(
            f"train: cost takes {signature}; give a function cost(policy, key), even if it ignores its key"
        ) from None


def figures_of(answer: Any) -> tuple[Array, dict[str, Array]]:
    """What a cost function returned, as a number and a dictionary."""
    wanted = 'return a number, or a number and a dictionary of figures such as {"error": error}'
    if isinstance(answer, tuple):
        if len(answer) != 2:
            raise ValueError(f"train: cost returned a tuple of {len(answer)}; {wanted}")
        if not isinstance(answer[1], dict):
            raise ValueError(f"train: cost returned {_kind(answer[1])} beside its number; {wanted}")
        value, named = answer
    else:
        value, named = answer, {}
    if not _is_number(value):
        raise ValueError(f"train: cost returned {_kind(value)}; {wanted}")
    if jnp.shape(value) != ():
        raise ValueError(f"train: cost has shape {jnp.shape(value)}; return one number, such as its mean")
    if not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise ValueError(f"train: cost is of type {jnp.result_type(value)}; return a float")
    for name, figure in named.items():
        _check_figure(name, figure)
    return value, named


def _check_figure(name: str, figure: Any) -> None:
    if name in OWN:
        raise ValueError(f"train: figure {name!r}: the log has its own {name!r}; give it another name")
    if not _is_number(figure):
        raise ValueError(f"train: figure {name!r} is {_kind(figure)}; give one number")
    if jnp.shape(figure) != ():
        raise ValueError(
            f"train: figure {name!r} has shape {jnp.shape(figure)}; give one number, such as its mean"
        )


def _is_number(value: Any) -> bool:
    return eqx.is_array_like(value)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    return "an array" if eqx.is_array(value) else f"a {type(value).__name__}"


def count_steps(cost: Cost, policy: Any, key: Array) -> int:
    """Steps that one robot makes in one update; 0 where they cannot be seen.

    Raises ValueError where the cost does not depend on the policy.
    """
    arrays, rest = eqx.partition(policy, eqx.is_inexact_array)

    def value(arrays: Any, key: Array) -> Array:
        return jnp.asarray(figures_of(bare(cost)(eqx.combine(arrays, rest), key))[0])

    with probing(Probe()) as probe:
        program = jax.make_jaxpr(value)(arrays, key).jaxpr
    if not _reaches(program, len(jax.tree.leaves(arrays))):
        raise ValueError(
            "train: the cost does not depend on the policy it is given; use the first argument of "
            "cost(policy, key), as in rollout(scheme, model, state, policy, ...)"
        )
    return probe.steps


def _reaches(program: Any, inputs: int) -> bool:
    """Whether a path leads from the first inputs of a jaxpr to its outputs, as if equations passed on all."""
    reached = {id(x) for x in program.invars[:inputs]}
    for equation in program.eqns:
        if any(id(x) in reached for x in equation.invars):
            reached.update(id(x) for x in equation.outvars)
    return any(id(x) in reached for x in program.outvars)
