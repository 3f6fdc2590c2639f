"""Operations that only move elements: done on the elements' names now, so they cost a kernel nothing.

Indexing by numbers that are known only when the kernel runs, each lane its own, goes through memory.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from backflip.lanes.arithmetic import add, mul
from backflip.lanes.conversion import convert
from backflip.lanes.emit import FLOATS, Element, Emitter, Slot, Value, kind_of, known, size_of
from backflip.lanes.logic import compare, extreme, logic, select

Array = np.ndarray
"""of elements"""


def array_of(elements: Any, shape: tuple[int, ...]) -> Array:
    """Elements in C order as an array, never looked into."""
    result = np.empty(prod(shape), object)
    result[:] = list(elements)
    return result.reshape(shape)


def scalar(x: Element) -> Array:
    """An array of one element and no axes."""
    return array_of([x], ())


def all_known(*arrays: Array) -> bool:
    """Whether all elements are numbers."""
    return all(known(x) for a in arrays for x in a.flat)


def zeros(shape: tuple[int, ...], kind: str) -> Array:
    """Zeros of a kind."""
    return array_of([{"i1": False, "float": 0.0, "double": 0.0}.get(kind, 0)] * prod(shape), shape)


def broadcast_in_dim(x: Array, *, shape, broadcast_dimensions, **_) -> Array:
    """Axes of x where `broadcast_dimensions` says, repeated to `shape`."""
    placed = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        placed[axis] = size
    return np.broadcast_to(x.reshape(placed), shape)


def iota(*, shape, dimension, dtype, **_) -> Array:
    """Counting along one axis."""
    line = np.arange(shape[dimension]).reshape([-1 if i == dimension else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape).astype(np.dtype(dtype)).astype(object)


def pad(x: Array, filler: Array, *, padding_config, **_) -> Array:
    """x with room before, behind and between its elements; negative room cuts."""
    shape = [
        max(lo + hi + max(n + (n - 1) * mid, 0), 0)
        for n, (lo, hi, mid) in zip(x.shape, padding_config, strict=True)
    ]
    result = array_of([filler.item()] * prod(shape), tuple(shape))
    for place in np.ndindex(x.shape):
        to = tuple(lo + i * (mid + 1) for i, (lo, _, mid) in zip(place, padding_config, strict=True))
        if all(0 <= t < n for t, n in zip(to, shape, strict=True)):
            result[to] = x[place]
    return result


def split(x: Array, *, sizes, axis, **_) -> list[Array]:
    """Cut along one axis."""
    return np.split(x, np.cumsum(np.array(sizes, int))[:-1], axis)


MOVES: dict[str, Callable[..., Array | list[Array]]] = {
    "broadcast_in_dim": broadcast_in_dim,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "copy": lambda x, **_: x,
    "copy_p": lambda x, **_: x,
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "iota": iota,
    "name": lambda x, **_: x,
    "optimization_barrier": lambda *xs: list(xs),
    "pad": pad,
    "reshape": lambda x, *, new_sizes, **_: x.reshape(new_sizes),
    "rev": lambda x, *, dimensions: np.flip(x, tuple(dimensions)) if dimensions else x,
    "slice": lambda x, *, start_indices, limit_indices, strides: x[
        # with "..." a window of an array without axes is an array, not its element
        (..., *map(slice, start_indices, limit_indices, strides or [1] * x.ndim))
    ],
    "split": split,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(int(d) for d in dimensions)),
    "stack": lambda *xs, axis: np.stack(xs, axis),
    "stop_gradient": lambda x, **_: x,
    "tile": lambda x, *, reps: np.tile(x, reps),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "unstack": lambda x, *, axis: [row if x.ndim > 1 else scalar(row) for row in np.moveaxis(x, axis, 0)],
}  # fmt: skip
"""By JAX's name: rule(*arrays, **parameters)"""


# --- indices known when the kernel runs -----------------------------------------------------------

I = "i64"
"""kind of addresses"""


class Fact(NamedTuple):
    """What kind of numbers an operand holds."""

    kind: str
    signed: bool


def _sum(e: Emitter, terms: list[Element]) -> Element:
    result: Element = 0
    for term in terms:
        result = add(e, I, True, result, term)
    return result


def _widen(e: Emitter, x: Element, fact: Fact) -> Element:
    return convert(e, fact.kind, fact.signed, I, True, x)


def _inside(e: Emitter, x: Element, most: int) -> Element:
    """x within 0 ... most."""
    return extreme("lt", e, I, True, extreme("gt", e, I, True, x, 0), most)


def _within(e: Emitter, start: Element, most: int) -> Element:
    """Whether 0 <= start <= most."""
    low, high = compare("ge", e, I, True, start, 0), compare("le", e, I, True, start, most)
    return logic("and", e, "i1", False, low, high)


class Memory:
    """An array that lanes read and write at places of their own."""

    def __init__(self, e: Emitter, x: Array, kind: str):
        # booleans are bytes in memory
        self.e, self.kind, self.shape = e, "i8" if kind == "i1" else kind, x.shape
        self.boolean = kind == "i1"
        self.where = e.area(max(x.size, 1), kind)
        for k, element in enumerate(x.flat):
            e.store(element, self.where, k, kind)

    def _places(self, index: Element) -> str:
        """Addresses of element `index`, for every lane in its own column."""
        e = self.e
        steps = ", ".join(f"i64 {lane}" for lane in range(e.lanes))
        flat = add(e, I, True, mul(e, I, True, index, e.lanes), Value(f"<{steps}>", 0))
        return e.do(f"getelementptr {self.kind}, ptr {self.where}, {e.vector(I)} {e.text(flat, I)}").name

    def _symbol(self, name: str) -> str:
        short = {"float": "f32", "double": "f64"}.get(self.kind, self.kind)
        return f"@llvm.masked.{name}.v{self.e.lanes}{short}.v{self.e.lanes}p0"

    def read(self, index: Element) -> Value:
        """Element `index` of every lane, as it is now."""
        e, t, symbol = self.e, self.e.vector(self.kind), self._symbol("gather")
        p, m = e.vector("ptr"), e.vector("i1")
        e.declared.add(f"declare {t} {symbol}({p}, i32, {m}, {t})")
        name, places = e.fresh(), self._places(index)
        size = size_of(self.kind)
        e.line(f"{name} = call {t} {symbol}({p} {places}, i32 {size}, {m} splat (i1 true), {t} poison)")
        value = Value(name, e._count)
        return convert(e, "i8", False, "i1", False, value) if self.boolean else value

    def write(self, index: Element, x: Element, where: Element) -> None:
        """Set element `index` of those lanes that are `where`."""
        e, t, symbol = self.e, self.e.vector(self.kind), self._symbol("scatter")
        p, m = e.vector("ptr"), e.vector("i1")
        x = convert(e, "i1", False, "i8", False, x) if self.boolean else x
        e.declared.add(f"declare void {symbol}({t}, {p}, i32, {m})")
        operands = f"{t} {e.text(x, self.kind)}, {p} {self._places(index)}, i32 {size_of(self.kind)}"
        e.line(f"call void {symbol}({operands}, {m} {e.text(where, 'i1')})")

    def array(self) -> Array:
        """All elements; not to be written any more."""
        return array_of((Slot(self.where, k) for k in range(prod(self.shape))), self.shape)


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def _flat(e: Emitter, shape: tuple[int, ...], places: list[Element]) -> Element:
    return _sum(e, [mul(e, I, True, p, s) for p, s in zip(places, _strides(shape), strict=True)])


def _window(at: Sequence[int], sizes: Sequence[int]) -> Any:
    """An index; with the dots it gives an array even where there are no axes."""
    return (..., *(slice(a, a + n) for a, n in zip(at, sizes, strict=True)))


def dynamic_slice(e: Emitter, facts: list[Fact], x: Array, *starts: Array, slice_sizes) -> Array:
    """A window of x that stays inside it."""
    at = [
        _inside(e, _widen(e, s.item(), f), n - m)
        for s, f, n, m in zip(starts, facts[1:], x.shape, slice_sizes, strict=True)
    ]
    if known(*at):
        return x[_window(at, slice_sizes)]
    memory = Memory(e, x, facts[0].kind)
    corner = _flat(e, x.shape, at)
    offsets = (_flat(e, x.shape, list(place)) for place in np.ndindex(*slice_sizes))
    return array_of((memory.read(add(e, I, True, corner, o)) for o in offsets), tuple(slice_sizes))


def dynamic_update_slice(e: Emitter, facts: list[Fact], x: Array, update: Array, *starts: Array) -> Array:
    """x with a window replaced."""
    at = [
        _inside(e, _widen(e, s.item(), f), n - m)
        for s, f, n, m in zip(starts, facts[2:], x.shape, update.shape, strict=True)
    ]
    if known(*at):
        result = x.copy()
        result[_window(at, update.shape)] = update
        return result
    memory = Memory(e, x, facts[0].kind)
    corner = _flat(e, x.shape, at)
    for place in np.ndindex(update.shape):
        memory.write(add(e, I, True, corner, _flat(e, x.shape, list(place))), update[place], True)
    return memory.array()


def _gather_places(dims, indices: Array, out_shape: tuple[int, ...], slice_sizes) -> Iterator[tuple]:
    """For every output element its index vector, and the offset in the window, by operand axis."""
    offset_axes = [
        d
        for d in range(len(slice_sizes))
        if d not in (*dims.collapsed_slice_dims, *dims.operand_batching_dims)
    ]
    batch_axes = [i for i in range(len(out_shape)) if i not in dims.offset_dims]
    for place in np.ndindex(*out_shape):
        batch = tuple(place[i] for i in batch_axes)
        offset = [0] * len(slice_sizes)
        for d, o in zip(offset_axes, dims.offset_dims, strict=True):
            offset[d] = place[o]
        for d, i in zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True):
            offset[d] = batch[i]
        yield indices[batch], offset


def _filler(fact: Fact) -> Element:
    """What JAX puts where an index is outside."""
    if fact.kind in FLOATS:
        return np.nan
    if fact.kind == "i1":
        return True
    bits = 8 * size_of(fact.kind)
    return -(1 << (bits - 1)) if fact.signed else (1 << bits) - 1


def gather(
    e, facts, x, indices, out_shape, *, dimension_numbers, slice_sizes, mode, fill_value, **_
) -> Array:
    """Windows of x at `indices`."""
    fills = "fill" in str(mode).lower()
    elements, memory = [], None
    if fill_value is None:
        fill_value = _filler(facts[0])
    for vector, offset in _gather_places(dimension_numbers, indices, out_shape, slice_sizes):
        inside: Element = True
        places: list[Element] = list(offset)
        for d, raw in zip(dimension_numbers.start_index_map, vector, strict=True):
            start, most = _widen(e, raw, facts[1]), x.shape[d] - slice_sizes[d]
            inside = logic("and", e, "i1", False, inside, _within(e, start, most)) if fills else True
            places[d] = add(e, I, True, _inside(e, start, most), offset[d])
        if known(*places):
            element = x[tuple(places)] if x.size else fill_value
        else:
            memory = memory or Memory(e, x, facts[0].kind)
            element = memory.read(_flat(e, x.shape, places))
        elements.append(select(e, facts[0].kind, inside, fill_value, element) if fills else element)
    return array_of(elements, out_shape)


def scatter(e, facts, join, x, indices, updates, *, dimension_numbers, mode, **_) -> Array:
    """x with windows at `indices` joined with `updates`; one that sticks out is dropped, or moved inside."""
    d = dimension_numbers
    clips = "clip" in str(mode).lower()
    window = [i for i in range(x.ndim) if i not in (*d.inserted_window_dims, *d.operand_batching_dims)]
    sizes = {axis: updates.shape[u] for axis, u in zip(window, d.update_window_dims, strict=True)}
    batch_axes = [i for i in range(updates.ndim) if i not in d.update_window_dims]
    result, memory = x.copy(), None
    if not all_known(indices):
        memory = Memory(e, x, facts[0].kind)
    for place in np.ndindex(updates.shape):
        batch = tuple(place[i] for i in batch_axes)
        places: list[Element] = [0] * x.ndim
        for axis, u in zip(window, d.update_window_dims, strict=True):
            places[axis] = place[u]
        for axis, i in zip(d.operand_batching_dims, d.scatter_indices_batching_dims, strict=True):
            places[axis] = batch[i]
        inside: Element = True
        for axis, raw in zip(d.scatter_dims_to_operand_dims, indices[batch], strict=True):
            start, most = _widen(e, raw, facts[1]), x.shape[axis] - sizes.get(axis, 1)
            if not clips:
                inside = logic("and", e, "i1", False, inside, _within(e, start, most))
            places[axis] = add(e, I, True, _inside(e, start, most), places[axis])
        if memory is None:
            if inside:
                result[tuple(places)] = join(result[tuple(places)], updates[place])
        elif inside is not False:
            flat = _flat(e, x.shape, places)
            memory.write(flat, join(memory.read(flat), updates[place]), inside)
    return memory.array() if memory else result


def index_kinds(eqn: Any) -> list[Fact]:
    """What an equation's operands hold."""
    dtypes = [v.aval.dtype for v in eqn.invars]
    return [Fact(kind_of(t), not np.issubdtype(t, np.unsignedinteger)) for t in dtypes]
