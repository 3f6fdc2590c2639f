"""Reductions, contractions and small matrix factorisations, written out element by element."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backflip.lanes import loops
from backflip.lanes.arithmetic import add, div, mul, sub, total
from backflip.lanes.elementwise import RULES
from backflip.lanes.emit import FLOATS, Element, Emitter, Uncovered, size_of
from backflip.lanes.logic import compare, invert, logic, select
from backflip.lanes.structure import Array, array_of, zeros

Join = Callable[[Element, Element], Element]

MOST_SORTED = 32
"""Numbers in a line that is sorted: every pair of neighbours is compared so many times"""


def _rows(x: Array, axes: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
    """x as (what stays, what is reduced), and the shape that stays."""
    outer = [i for i in range(x.ndim) if i not in axes]
    shape = tuple(x.shape[i] for i in outer)
    reduced = math.prod(x.shape[i] for i in axes)
    return x.transpose([*outer, *axes]).reshape(math.prod(shape), reduced), shape


def reduce_sum(e: Emitter, kind: str, signed: bool, x: Array, axes: tuple[int, ...]) -> Array:
    """Sums over axes."""
    rows, shape = _rows(x, axes)
    if loops.worth(x.size, [x]):
        return loops.contract(e, kind, signed, [rows.reshape(*shape, -1)], shape, rows.shape[-1])
    return array_of((total(e, kind, signed, [(t, None) for t in row]) for row in rows), shape)


def reduce_by(e: Emitter, kind: str, signed: bool, x: Array, axes: tuple[int, ...], name: str) -> Array:
    """Reduce by a rule of two operands, in halves: the shortest chain."""
    rows, shape = _rows(x, axes)
    join = RULES[name]

    def halves(row: Array) -> Element:
        if len(row) == 1:
            return row[0]
        middle = len(row) // 2
        return join(e, kind, signed, halves(row[:middle]), halves(row[middle:]))

    empty = _neutral(name, kind, signed)
    if loops.worth(x.size, [x]):
        whole = rows.reshape(*shape, -1)
        return loops.fold(e, kind, whole, shape, empty, lambda a, b: join(e, kind, signed, a, b))
    return array_of((halves(row) if len(row) else empty for row in rows), shape)


def _neutral(name: str, kind: str, signed: bool) -> Any:
    if name in ("and", "or", "xor", "mul"):
        zero, ones = (False, True) if kind == "i1" else (0, -1)
        return {"and": ones, "or": zero, "xor": zero, "mul": 1.0 if kind in FLOATS else 1}[name]
    if kind in FLOATS:
        return -math.inf if name == "max" else math.inf
    bits = 1 if kind == "i1" else 8 * size_of(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return low if name == "max" else high


def arg_extreme(e, kind: str, signed: bool, x: Array, axis: int, index_kind: str, how: str) -> Array:
    """Where the greatest ("gt") or smallest element is; the first of equals, the first NaN before all."""
    rows, shape = _rows(x, (axis,))
    places = []
    for row in rows:
        best, at = row[0], 0
        for i, element in enumerate(row[1:], 1):
            better = compare(how, e, kind, signed, element, best)
            if kind in FLOATS:
                nan = logic("and", e, "i1", False, *_nans(e, kind, element, best))
                better = logic("or", e, "i1", False, better, nan)
            best, at = select(e, kind, better, best, element), select(e, index_kind, better, at, i)
        places.append(at)
    return array_of(places, shape)


def _nans(e: Emitter, kind: str, a: Element, b: Element) -> tuple[Element, Element]:
    """a is NaN; b is not."""
    return compare("ne", e, kind, True, a, a), compare("eq", e, kind, True, b, b)


def cumulate(join: Join, x: Array, axis: int, reverse: bool) -> Array:
    """Running results along an axis."""
    result = x.copy()
    lines = np.moveaxis(result, axis, -1)
    lines = lines[..., ::-1] if reverse else lines
    for place in np.ndindex(lines.shape[:-1]):
        for i in range(1, lines.shape[-1]):
            lines[(*place, i)] = join(lines[(*place, i - 1)], lines[(*place, i)])
    return result


def sort(e: Emitter, facts: list, arrays: list[Array], axis: int, keys: int) -> list[Array]:
    """Lines along an axis in rising order of the first `keys` arrays; equals in their order, NaN last."""
    result = [x.copy() for x in arrays]
    lines = [np.moveaxis(x, axis, -1) for x in result]
    n = lines[0].shape[-1]
    if n > MOST_SORTED:
        raise Uncovered(f"a sort of {n} numbers")
    pairs = [(i, i + 1) for last in reversed(range(n)) for i in range(last)]
    for place in np.ndindex(lines[0].shape[:-1]):
        for i, j in pairs:
            a, b = ([line[(*place, k)] for line in lines] for k in (i, j))
            swap = _before(e, facts[:keys], b, a)
            for line, (kind, _), x, y in zip(lines, facts, a, b, strict=True):
                line[(*place, i)], line[(*place, j)] = (select(e, kind, swap, *p) for p in ((x, y), (y, x)))
    return result


def _before(e: Emitter, facts: list, a: list[Element], b: list[Element]) -> Element:
    """Whether a comes before b, by the first key in which they differ."""
    before: Element = False
    for (kind, signed), x, y in reversed(list(zip(facts, a, b, strict=False))):
        less, same = (compare(how, e, kind, signed, x, y) for how in ("lt", "eq"))
        if kind in FLOATS:
            y_nan, x_number = _nans(e, kind, y, x)
            less = logic("or", e, "i1", False, less, logic("and", e, "i1", False, y_nan, x_number))
            both = logic("and", e, "i1", False, y_nan, invert(e, "i1", False, x_number))
            same = logic("or", e, "i1", False, same, both)
        before = logic("or", e, "i1", False, less, logic("and", e, "i1", False, same, before))
    return before


def dot_general(e: Emitter, kind: str, signed: bool, a: Array, b: Array, dimension_numbers) -> Array:
    """Σ over the contracted axes; batch axes first, then those left of a, then of b."""
    (ca, cb), (ba, bb) = (tuple(map(tuple, part)) for part in dimension_numbers)
    fa = [i for i in range(a.ndim) if i not in ca + ba]
    fb = [i for i in range(b.ndim) if i not in cb + bb]
    batch = tuple(a.shape[i] for i in ba)
    left, right = tuple(a.shape[i] for i in fa), tuple(b.shape[i] for i in fb)
    n, m, o = math.prod(batch), math.prod(left), math.prod(right)
    k = math.prod(a.shape[i] for i in ca)
    rows = a.transpose([*ba, *fa, *ca]).reshape(n, m, k)
    columns = b.transpose([*bb, *fb, *cb]).reshape(n, o, k)
    if loops.worth(n * m * o * k, [a, b]):
        factors = [rows[:, :, None, :], columns[:, None, :, :]]
        return loops.contract(e, kind, signed, factors, (n, m, o), k).reshape(batch + left + right)
    elements = (
        total(e, kind, signed, list(zip(row, column, strict=True)))
        for i in range(n)
        for row in rows[i]
        for column in columns[i]
    )
    return array_of(elements, batch + left + right)


# --- matrices, (..., n, n) ------------------------------------------------------------------------


def by_matrix(f: Callable[..., Any], *arrays: Array) -> Any:
    """f of every matrix of arrays whose leading axes agree."""
    batch = arrays[0].shape[:-2]
    results = [f(*(a[i] for a in arrays)) for i in np.ndindex(*batch)]
    # of no matrix only the shape matters: that of the result for known zeros, which computes nothing
    like = results[0] if results else f(*(zeros(a.shape[-2:], "double") for a in arrays))
    if isinstance(like, tuple):
        columns = range(len(like))
        return [array_of((x for r in results for x in r[i].flat), batch + like[i].shape) for i in columns]
    return array_of((x for r in results for x in r.flat), batch + like.shape)


def cholesky(e: Emitter, kind: str, A: Array) -> Array:
    """Lower L with L Lᵀ = A; zeros above. Of a matrix that is not positive definite some of it is NaN."""
    n = len(A)
    L = array_of([0.0] * (n * n), (n, n))
    for j in range(n):
        for i in range(j, n):
            rest = sub(
                e, kind, True, A[i, j], total(e, kind, True, list(zip(L[i, :j], L[j, :j], strict=True)))
            )
            L[i, j] = RULES["sqrt"](e, kind, True, rest) if i == j else div(e, kind, True, rest, L[j, j])
    return L


def triangular_solve(
    e: Emitter, kind: str, A: Array, B: Array, *, left_side, lower, transpose_a, unit_diagonal, **_
) -> Array:
    """X with A X = B, or X A = B where not left_side."""
    if not left_side:
        A, B, lower = A.T, B.T, not lower
    if transpose_a:
        A, lower = A.T, not lower
    n = len(A)
    X = np.empty(B.shape, object)
    for i in range(n) if lower else reversed(range(n)):
        before = range(i) if lower else range(i + 1, n)
        for c in range(B.shape[1]):
            rest = sub(e, kind, True, B[i, c], total(e, kind, True, [(A[i, k], X[k, c]) for k in before]))
            X[i, c] = rest if unit_diagonal else div(e, kind, True, rest, A[i, i])
    return X if left_side else X.T


def lu(e: Emitter, kind: str, A: Array) -> tuple[Array, Array, Array]:
    """L and U in one, pivots and permutation: rows are swapped lane by lane, by selection."""
    A, (n, m) = A.copy(), A.shape
    order = array_of(range(n), (n,))
    pivots: list[Element] = []
    for j in range(min(n, m)):
        size = [RULES["abs"](e, kind, True, A[i, j]) for i in range(j, n)]
        pivot = arg_extreme(e, kind, True, array_of(size, (n - j,)), 0, "i32", "gt").item()
        pivot = add(e, "i32", True, pivot, j)
        pivots.append(pivot)
        for i in range(j + 1, n):
            here = compare("eq", e, "i32", True, pivot, i)
            for c in range(m):
                A[j, c], A[i, c] = (
                    select(e, kind, here, x, y) for x, y in ((A[j, c], A[i, c]), (A[i, c], A[j, c]))
                )
            order[j], order[i] = (
                select(e, "i32", here, x, y) for x, y in ((order[j], order[i]), (order[i], order[j]))
            )
        for i in range(j + 1, n):
            A[i, j] = div(e, kind, True, A[i, j], A[j, j])
            for c in range(j + 1, m):
                A[i, c] = sub(e, kind, True, A[i, c], mul(e, kind, True, A[i, j], A[j, c]))
    return A, array_of(pivots, (len(pivots),)), order
