"""Loops and branches of a jaxpr: a scan written out or as a loop, a while loop, all branches of a cond.

What is inside is translated by `inline`, an argument: translation calls this, and this calls translation.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from backflip.lanes.cost import becomes_loop
from backflip.lanes.emit import Element, Emitter, Slot, Value, kind_of, known, size_of
from backflip.lanes.logic import choose, logic, select
from backflip.lanes.structure import Array, array_of, scalar

LOOSE = 12
"""Values that a loop may hold in registers from before; more are read from memory where they are used"""

Inline = Callable[[Emitter, Any, Sequence[Array]], list[Array]]
"""Results of a jaxpr, closed or open, for some arguments"""


def scan(inline: Inline, e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """Carry and stacked results, turn by turn."""
    p = eqn.params
    body, length, consts = p["jaxpr"], p["length"], p["num_consts"]
    middle = consts + p["num_carry"]
    parts = arrays[:consts], arrays[consts:middle], arrays[middle:]
    order = range(length)[::-1] if p["reverse"] else range(length)
    if not becomes_loop(eqn):
        return _unrolled(inline, e, body, order, *parts)
    return _looped(inline, e, body, length, p["reverse"], *parts)


def _unrolled(
    inline: Inline, e: Emitter, body: Any, order: Any, consts: list, carry: list, xs: list
) -> list[Array]:
    count = len(carry)
    shapes = [v.aval.shape for v in body.jaxpr.outvars[count:]]
    ys = [np.empty((len(order), *shape), object) for shape in shapes]
    for t in order:
        now = [np.asarray(x[t], object) if x.ndim > 1 else scalar(x[t]) for x in xs]
        results = inline(e, body, [*consts, *carry, *now])
        carry = results[:count]
        for y, new in zip(ys, results[count:], strict=True):
            y[t] = new if new.ndim else new.item()
    return [*carry, *ys]


class _Areas:
    """Areas of memory that hold some arrays, one after the other turn by turn."""

    def __init__(self, e: Emitter, avals: list[Any], turns: int = 1):
        self.e, self.avals = e, avals
        self.kinds = [kind_of(a.dtype) for a in avals]
        self.where = [e.area(prod(a.shape) * turns, k) for a, k in zip(avals, self.kinds, strict=True)]

    def put(self, arrays: Sequence[Array], turn: str | None = None) -> None:
        """Write all arrays; all are read before any is written, as they may come from here."""
        texts = [
            [x if known(x) else Value(self.e.text(x, kind), 0) for x in a.flat]
            for a, kind in zip(arrays, self.kinds, strict=True)
        ]
        for i, elements in enumerate(texts):
            place = self._turn(i, turn)
            for k, x in enumerate(elements):
                self.e.store(x, place, k, self.kinds[i])

    def slots(self, turn: str | None = None, turns: int | None = None) -> list[Array]:
        """All arrays; of one turn, or stacked over all turns."""
        arrays = []
        for i, aval in enumerate(self.avals):
            shape = aval.shape if turns is None else (turns, *aval.shape)
            place = self._turn(i, turn)
            arrays.append(array_of((Slot(place, k) for k in range(prod(shape))), shape))
        return arrays

    def sizes(self) -> dict[str, int]:
        """[bytes] of an element, by area."""
        return {where: size_of(kind) for where, kind in zip(self.where, self.kinds, strict=True)}

    def _turn(self, i: int, turn: str | None) -> str:
        if turn is None:
            return self.where[i]
        size = prod(self.avals[i].shape)
        index = self.e.do(f"mul nuw nsw i64 {turn}, {size}").name
        return self.e.at(self.where[i], index, self.kinds[i])


def _looped(
    inline: Inline, e: Emitter, body: Any, length: int, reverse: bool, consts: list, carry: list, xs: list
) -> list[Array]:
    """A scan as a loop: carry, xs and ys in memory."""
    avals = [v.aval for v in body.jaxpr.invars]
    first, count = len(consts), len(carry)
    fixed = _in_memory(e, consts, avals[:first])
    state, inputs = _Areas(e, avals[first : first + count]), _Areas(e, avals[first + count :], length)
    outputs = _Areas(e, [v.aval for v in body.jaxpr.outvars[count:]], length)
    state.put(carry)
    inputs.where = [e.laid(x.flat, kind) for x, kind in zip(xs, inputs.kinds, strict=True)]
    loop = e.begin_loop(length)
    turn = e.do(f"sub nuw nsw i64 {length - 1}, {loop[0]}").name if reverse else loop[0]
    results = inline(e, body, [*fixed, *state.slots(), *inputs.slots(turn)])
    outputs.put(results[count:], turn)
    state.put(results[:count])
    e.end_loop(loop)
    return [*state.slots(), *outputs.slots(turns=length)]


def _in_memory(e: Emitter, arrays: list[Array], avals: list[Any]) -> list[Array]:
    """What a loop reads from outside, in memory where it is much."""
    results = []
    for x, aval in zip(arrays, avals, strict=True):
        loose = sum(isinstance(i, Value) and not isinstance(i, Slot) for i in x.flat)
        elements = e.in_memory(x.flat, kind_of(aval.dtype)) if loose > LOOSE else x.flat
        results.append(array_of(elements, x.shape))
    return results


def while_(inline: Inline, e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """Turns until no lane wants another; a lane that is done stays as it is."""
    outside = eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
    avals = [v.aval for v in eqn.invars]
    state = _Areas(e, avals[outside:])
    state.put(arrays[outside:])
    if e.lanes > 1 and e.outermost:
        fixed, areas = _by_lane(e, arrays[:outside], avals[:outside])
        with e.stages(areas, state.sizes()):
            _turn(inline, e, eqn, fixed, state, e.test_stage)
    else:
        fixed = _in_memory(e, arrays[:outside], avals[:outside])
        n = e.begin_while()
        _turn(inline, e, eqn, fixed, state, partial(e.test_while, n))
        e.end_while(n)
    return state.slots()


def _turn(
    inline: Inline, e: Emitter, eqn: Any, outside: list[Array], state: _Areas, test: Callable[[Element], None]
) -> None:
    """The test of a while loop, told to `test`, and one turn of those that want it."""
    p, now, before = eqn.params, state.slots(), e.active
    (wants,) = inline(e, p["cond_jaxpr"], [*outside[: p["cond_nconsts"]], *now])
    active = logic("and", e, "i1", False, wants.item(), before)
    test(active)
    e.active = active
    results = inline(e, p["body_jaxpr"], [*outside[p["cond_nconsts"] :], *now])
    e.active = before
    state.put(_merge(e, state.kinds, active, now, results))


def _by_lane(e: Emitter, arrays: list[Array], avals: list[Any]) -> tuple[list[Array], dict[str, int]]:
    """The same arrays; what differs by lane in areas of its own, each value once."""
    values: dict[str, dict[Any, Element]] = {}
    for x, aval in zip(arrays, avals, strict=True):
        values.setdefault(kind_of(aval.dtype), {}).update((_key(i), i) for i in x.flat if _varies(i))
    areas = {kind: e.area(len(of), kind) for kind, of in values.items()}
    slots: dict[Any, Element] = {}
    for kind, of in values.items():
        for index, (key, x) in enumerate(of.items()):
            e.store(x, areas[kind], index, kind)
            slots[kind, key] = Slot(areas[kind], index)
    held = [
        array_of((slots[kind_of(aval.dtype), _key(i)] if _varies(i) else i for i in x.flat), x.shape)
        for x, aval in zip(arrays, avals, strict=True)
    ]
    return held, {area: size_of(kind) for kind, area in areas.items()}


def _varies(x: Element) -> bool:
    return isinstance(x, Value) and not (isinstance(x, Slot) and x.shared)


def _key(x: Element) -> Any:
    return (x.where, x.index) if isinstance(x, Slot) else x.name


def _merge(e: Emitter, kinds: list[str], where: Element, old: list[Array], new: list[Array]) -> list[Array]:
    return [
        array_of((select(e, kind, where, a, b) for a, b in zip(x.flat, y.flat, strict=True)), x.shape)
        for kind, x, y in zip(kinds, old, new, strict=True)
    ]


def cond(inline: Inline, e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """All branches, and each lane's own result; only one where that is known now."""
    branches, index, index_kind = eqn.params["branches"], arrays[0].item(), kind_of(eqn.invars[0].aval.dtype)
    if known(index):
        return inline(e, branches[min(max(int(index), 0), len(branches) - 1)], arrays[1:])
    before, results = e.active, []
    for k, branch in enumerate(branches):
        here = [i == k for i in range(len(branches))]
        mine = choose(e, "i1", index_kind, index, list(here))
        e.active = logic("and", e, "i1", False, before, mine)
        results.append(inline(e, branch, arrays[1:]))
    e.active = before
    merged = []
    for i, v in enumerate(eqn.outvars):
        options = zip(*(r[i].flat for r in results), strict=True)
        kind = kind_of(v.aval.dtype)
        merged.append(array_of((choose(e, kind, index_kind, index, list(o)) for o in options), v.aval.shape))
    return merged
