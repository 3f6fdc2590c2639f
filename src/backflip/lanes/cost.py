"""How much there is to compute in a jaxpr, and how much of it is written out."""

from collections.abc import Callable
from math import prod
from typing import Any

from jax.extend import core

from backflip.lanes.structure import MOVES

UNROLL = 6_000
"""Elements computed by a scan in all its turns, up to which it is written out"""


def work(jaxpr: core.Jaxpr) -> int:
    """Elements that a jaxpr computes."""
    return sum(_work(eqn, eqn.params.get("length", 1)) for eqn in jaxpr.eqns)


def written(jaxpr: core.Jaxpr) -> int:
    """Elements whose computation has to be written out: a loop's body counts once."""
    return sum(
        _work(eqn, 1 if becomes_loop(eqn) else eqn.params.get("length", 1), written) for eqn in jaxpr.eqns
    )


def _work(eqn: Any, turns: int, inside: Callable = work) -> int:
    name, size = eqn.primitive.name, sum(prod(v.aval.shape) for v in eqn.outvars)
    if name in MOVES:
        return 0
    inner = _jaxprs(eqn.params)
    if inner and not name.startswith("scatter"):
        return turns * sum(inside(getattr(j, "jaxpr", j)) for j in inner)
    if name == "dot_general":
        (axes, _), _ = eqn.params["dimension_numbers"]
        return size * prod(eqn.invars[0].aval.shape[i] for i in axes)
    return prod(eqn.invars[0].aval.shape) if name.startswith("reduce") else size


def becomes_loop(eqn: Any) -> bool:
    """Whether an equation is a scan that becomes a loop."""
    if eqn.primitive.name != "scan":
        return False
    length = eqn.params["length"]
    return length > 1 and length * work(eqn.params["jaxpr"].jaxpr) > UNROLL


def _jaxprs(params: dict[str, Any]) -> list[Any]:
    parts = [x for v in params.values() for x in (v if isinstance(v, tuple | list) else (v,))]
    return [x for x in parts if isinstance(x, core.ClosedJaxpr | core.Jaxpr)]
