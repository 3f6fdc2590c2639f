"""A batch whose robots lie on several devices: every device computes its own."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import ArrayMapping, SdyShardingRule, custom_partitioning

Call = Callable[..., list[Any]]
"""(*arrays, size=robots) -> results, all with a leading axis of robots"""


def by_device(call: Call, batched: Sequence[bool], ins: Sequence[Any], outs: Sequence[Any]) -> Callable:
    """`call`, which XLA may split along the batch; arguments without that axis are copied to all devices."""
    first = batched.index(True)

    @custom_partitioning
    def whole(*arrays: Any) -> list[Any]:
        return call(*arrays, size=arrays[first].shape[0])

    def partition(mesh: Any, arguments: Any, results: Any) -> tuple:
        robots = _batch_axis(arguments[first])
        ours = tuple(_along(mesh, robots if b else None, a) for a, b in zip(arguments, batched, strict=True))
        return mesh, whole.fun, [_along(mesh, robots, r) for r in results], ours

    def infer(mesh: Any, arguments: Any, results: Any) -> list[Any]:
        return [_along(mesh, _batch_axis(arguments[first]), r) for r in results]

    whole.def_partition(
        partition=partition, infer_sharding_from_operands=infer, sharding_rule=_rule(batched, ins, outs)
    )
    return whole


def _batch_axis(array: Any) -> Any:
    """Axes of the mesh along which robots are split; None: not at all."""
    spec = tuple(getattr(array.sharding, "spec", ()))
    return spec[0] if spec else None


def _along(mesh: Any, robots: Any, array: Any) -> jax.NamedSharding:
    return jax.NamedSharding(mesh, jax.P(robots) if array.shape else jax.P())


def _rule(batched: Sequence[bool], ins: Sequence[Any], outs: Sequence[Any]) -> SdyShardingRule:
    """For Shardy: the batch axis is one factor of all arrays that have it; others are not to be split."""
    names: list[str] = []

    def factors(array: Any, robots: bool) -> ArrayMapping:
        new = [f"d{len(names) + i}" for i in range(len(array.shape) - robots)]
        names.extend(new)
        return ArrayMapping(*("robots",) * robots, *new)

    operands = tuple(factors(a, b) for a, b in zip(ins, batched, strict=True))
    results = tuple(factors(a, True) for a in outs)
    return SdyShardingRule(operands, results, need_replication_factors=tuple(names))
