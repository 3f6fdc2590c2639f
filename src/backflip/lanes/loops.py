"""Large arrays: they lie in memory, and what is done to all their elements is written once, in a loop.

Operations that only move elements still cost nothing: a slice or transpose of an array in memory is the same
memory read with other strides.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from backflip.lanes.arithmetic import total
from backflip.lanes.emit import Element, Emitter, Slot, known
from backflip.lanes.structure import Array, array_of

LARGE = 2048
"""Elements to compute, from which on a loop is written"""
UNROLL = 8
"""Terms of a sum per turn of its loop"""

Place = list[str]
"""indices of the loops around, one per axis"""


def worth(work: int, arrays: Sequence[Array]) -> bool:
    """Whether to loop over arrays: not if numbers known now, zeros mostly, would save much of the work."""
    return work >= LARGE and not any(_mixed(a) for a in arrays)


def _mixed(array: Array) -> bool:
    numbers = [x for x in array.flat if known(x)]
    return 0 < len(numbers) < array.size or array.size / 2 <= sum(x == 0 for x in numbers) < array.size


class _View(NamedTuple):
    """Elements of an array that lie in memory at base + Σ stride · index."""

    where: str
    shared: bool
    kind: str
    base: int
    strides: tuple[int, ...]

    def read(self, e: Emitter, place: Place) -> Element:
        """The element at a place."""
        return e.read(self.where, _offset(e, self.base, self.strides, place), self.kind, self.shared)


def _view(e: Emitter, array: Array, kind: str) -> _View:
    """An array in memory: where it lies already, or else a copy."""
    # along an axis that numpy only repeats, one element stands for all
    array = array[tuple(slice(None) if s else slice(0, 1) for s in array.strides)]
    elements = list(array.flat)
    first = elements[0]
    if all(isinstance(x, Slot) and (x.where, x.shared) == (first.where, first.shared) for x in elements):
        places = np.array([x.index for x in elements]).reshape(array.shape)
        strides = tuple(_stride(places, axis) for axis in range(array.ndim))
        grid = np.indices(array.shape)
        if (places == first.index + sum(s * g for s, g in zip(strides, grid, strict=True))).all():
            return _View(first.where, first.shared, kind, first.index, strides)
    shared = known(*elements)
    where = e.table(elements, kind) if shared else e.laid(elements, kind)
    strides = tuple(s if n > 1 else 0 for s, n in zip(_strides(array.shape), array.shape, strict=True))
    return _View(where, shared, kind, 0, strides)


def _stride(places: np.ndarray, axis: int) -> int:
    if places.shape[axis] < 2:
        return 0
    corner = [0] * places.ndim
    first = places[tuple(corner)]
    corner[axis] = 1
    return int(places[tuple(corner)] - first)


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _offset(e: Emitter, base: int, strides: Sequence[int], place: Place) -> str:
    offset = str(base)
    for stride, index in zip(strides, place, strict=True):
        if stride and index != "0":
            step = index if stride == 1 else e.do(f"mul nsw i64 {index}, {stride}").name
            offset = step if offset == "0" else e.do(f"add nsw i64 {offset}, {step}").name
    return offset


def _nest(e: Emitter, shape: Sequence[int], body: Callable[[Place], None]) -> None:
    """`body` at every place of a shape."""
    loops = [e.begin_loop(n) if n > 1 else None for n in shape]
    body([loop[0] if loop else "0" for loop in loops])
    for loop in reversed(loops):
        if loop:
            e.end_loop(loop)


def _slots(where: str, shape: tuple[int, ...]) -> Array:
    return array_of((Slot(where, k) for k in range(prod(shape))), shape)


def each(
    e: Emitter,
    kinds: Sequence[str],
    kind: str,
    arrays: Sequence[Array],
    shape: tuple[int, ...],
    rule: Callable,
) -> Array:
    """rule(*elements) for every element of arrays broadcast to a shape."""
    where = e.area(prod(shape), kind)
    _fill(e, kinds, kind, arrays, shape, rule, where)
    return _slots(where, shape)


def write(e: Emitter, kind: str, array: Array, where: str) -> None:
    """All elements one after the other, at a place in memory."""
    if worth(array.size, [array]):
        _fill(e, [kind], kind, [array], array.shape, lambda x: x, where)
    else:
        for k, x in enumerate(array.flat):
            e.store(x, where, k, kind)


def _fill(
    e: Emitter, kinds: Sequence[str], kind: str, arrays: Sequence[Array], shape: tuple[int, ...],
    rule: Callable, where: str,
) -> None:  # fmt: skip
    views = [_view(e, np.broadcast_to(a, shape), k) for a, k in zip(arrays, kinds, strict=True)]

    def body(place: Place) -> None:
        value = rule(*(v.read(e, place) for v in views))
        e.store(value, where, _offset(e, 0, _strides(shape), place), kind)

    _nest(e, shape, body)


def contract(
    e: Emitter, kind: str, signed: bool, factors: Sequence[Array], shape: tuple[int, ...], terms: int
) -> Array:
    """Σ over the last axis, `terms` long, of the product of one or two factors (*shape, terms)."""
    views = [_view(e, np.broadcast_to(a, (*shape, terms)), kind) for a in factors]
    where = e.area(prod(shape), kind)
    turns, rest = divmod(terms, UNROLL)

    def some(place: Place, first: str, count: int) -> Element:
        """The sum of a few terms."""
        pairs: list[tuple[Element, Element | None]] = []
        for k in range(count):
            at = e.do(f"add nsw i64 {first}, {k}").name
            read = [v.read(e, [*place, at]) for v in views]
            pairs.append((read[0], read[1] if len(read) > 1 else None))
        return total(e, kind, signed, pairs)

    def body(place: Place) -> None:
        at = _offset(e, 0, _strides(shape), place)
        e.store(some(place, str(turns * UNROLL), rest), where, at, kind)
        if turns:
            loop = e.begin_loop(turns)
            first = e.do(f"mul nsw i64 {loop[0]}, {UNROLL}").name
            terms_now = some(place, first, UNROLL)
            e.store(
                total(e, kind, signed, [(e.load(where, at, kind), None), (terms_now, None)]), where, at, kind
            )
            e.end_loop(loop)

    _nest(e, shape, body)
    return _slots(where, shape)


def fold(
    e: Emitter,
    kind: str,
    x: Array,
    shape: tuple[int, ...],
    start: Any,
    join: Callable[[Element, Element], Element],
) -> Array:
    """The last axis of x (*shape, terms) joined to one element, beginning with `start`."""
    view = _view(e, x, kind)
    where = e.area(prod(shape), kind)

    def body(place: Place) -> None:
        at = _offset(e, 0, _strides(shape), place)
        e.store(start, where, at, kind)
        loop = e.begin_loop(x.shape[-1])
        e.store(join(e.load(where, at, kind), view.read(e, [*place, loop[0]])), where, at, kind)
        e.end_loop(loop)

    _nest(e, shape, body)
    return _slots(where, shape)
