"""A jaxpr becomes lines of LLVM: one rule per primitive, loops as loops.

Arrays are numpy arrays of elements, so whatever only moves elements costs nothing. Arithmetic is written
out, one vector instruction per element. A scan whose turns are many becomes a loop with its carry in memory.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from jax.extend import core
from jax.extend.source_info_util import summarize

from backflip.lanes import algebra, loops, structure
from backflip.lanes.elementwise import RULES, compare, convert, logic, select
from backflip.lanes.emit import Element, Emitter, Slot, Uncovered, Value, kind_of, known
from backflip.lanes.structure import MOVES, Array, array_of, scalar

UNROLL = 6_000
"""Elements computed by a scan in all its turns, up to which it is written out"""
LOOSE = 12
"""Values that a loop may keep in registers from before; more are read from memory where they are used"""


def translate(e: Emitter, jaxpr: core.Jaxpr, consts: Sequence[Any], arrays: Sequence[Array]) -> list[Array]:
    """Results of a jaxpr, equation by equation."""
    env: dict[Any, Array] = {}

    def read(v: Any) -> Array:
        return _constant(v.val) if isinstance(v, core.Literal) else env[v]

    env.update(zip(jaxpr.constvars, map(_constant, consts), strict=True))
    env.update(zip(jaxpr.invars, arrays, strict=True))
    for eqn in jaxpr.eqns:
        try:
            found = _apply(e, eqn, [read(v) for v in eqn.invars])
        except Uncovered as gap:
            # an operation inside a function of JAX's own may not know its place, but its caller does
            raise gap if any(gap.args[1:]) else Uncovered(gap.args[0], summarize(eqn.source_info)) from gap
        env.update(zip(eqn.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _constant(x: Any) -> Array:
    x = np.asarray(x)
    kind_of(x.dtype)
    return array_of(x.reshape(-1).tolist(), x.shape)


def _apply(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """Results of one equation."""
    name = eqn.primitive.name
    if name in _SPECIAL:
        return _SPECIAL[name](e, eqn, arrays)
    if name in MOVES:
        found = MOVES[name](*arrays, **eqn.params)
        return found if isinstance(found, list) else [found]
    if name in RULES:
        return [_elementwise(e, eqn, arrays)]
    inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
    if name in _CALLS and inner is not None:
        return _inline(e, inner, arrays)
    raise Uncovered(f"the primitive {name!r}")


_CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat2",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
)


def _inline(e: Emitter, inner: Any, arrays: Sequence[Array]) -> list[Array]:
    """Results of a jaxpr, closed or open."""
    if isinstance(inner, core.ClosedJaxpr):
        return translate(e, inner.jaxpr, inner.consts, arrays)
    return translate(e, inner, (), arrays)


def _signed(dtype: Any) -> bool:
    return np.issubdtype(dtype, np.signedinteger) or np.issubdtype(dtype, np.floating)


def _facts(eqn: Any, operand: int = 0) -> tuple[str, bool]:
    dtype = eqn.invars[operand].aval.dtype
    return kind_of(dtype), _signed(dtype)


_OF_RULES = ("y", "rounding_method", "exponent_bits", "mantissa_bits")
"""Parameters that a rule for elements wants to know"""


def _elementwise(e: Emitter, eqn: Any, arrays: list[Array]) -> Array:
    rule, (kind, signed) = RULES[eqn.primitive.name], _facts(eqn, -1)
    own = {k: v for k, v in eqn.params.items() if k in _OF_RULES}
    return _each(e, eqn, arrays, lambda *xs: rule(e, kind, signed, *xs, **own))


def _each(e: Emitter, eqn: Any, arrays: list[Array], rule: Callable[..., Element]) -> Array:
    """rule(*elements) for every element of the result, written out or in a loop."""
    out = eqn.outvars[0].aval
    if loops.worth(prod(out.shape), arrays):
        kinds = [kind_of(v.aval.dtype) for v in eqn.invars]
        return loops.each(e, kinds, kind_of(out.dtype), arrays, out.shape, rule)
    flat = [np.broadcast_to(a, out.shape).flat for a in arrays]
    return array_of((rule(*xs) for xs in zip(*flat, strict=True)), out.shape)


def _select_n(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    kind, index_kind = _facts(eqn, 1)[0], _facts(eqn)[0]

    def rule(which: Element, *options: Element) -> Element:
        if index_kind == "i1":
            return select(e, kind, which, *options) if len(options) == 2 else options[0]
        return _choose(e, kind, index_kind, which, list(options))

    return [_each(e, eqn, arrays, rule)]


def _choose(e: Emitter, kind: str, index_kind: str, which: Element, options: list[Element]) -> Element:
    """The option number `which`; the first or last if that is out of range."""
    if known(which):
        return options[min(max(int(which), 0), len(options) - 1)]
    found = options[0]
    for k, option in enumerate(options[1:], 1):
        found = select(e, kind, compare("ge", e, index_kind, True, which, k), found, option)
    return found


def _convert(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    (kind, signed), new = _facts(eqn), eqn.outvars[0].aval.dtype
    to, to_signed = kind_of(new), _signed(new)
    return [_each(e, eqn, arrays, lambda x: convert(e, kind, signed, to, to_signed, x))]


def _pow(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """xʸ; a whole y is as good as a float."""
    facts, given = _facts(eqn), _facts(eqn, 1)
    return [_each(e, eqn, arrays, lambda x, y: RULES["pow"](e, *facts, x, convert(e, *given, *facts, y)))]


def _bitcast(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    old, new = eqn.invars[0].aval.dtype, eqn.outvars[0].aval.dtype
    if old.itemsize != new.itemsize or "bool" in (old.name, new.name):
        raise Uncovered("a bitcast between sizes")
    a, b = kind_of(old), kind_of(new)

    def one(x: Element) -> Element:
        if known(x):
            return np.asarray(x, old).view(new).item()
        return x if a == b else e.do(f"bitcast {e.vector(a)} {e.text(x, a)} to {e.vector(b)}")

    return [array_of(map(one, arrays[0].flat), arrays[0].shape)]


def _reduction(name: str) -> Callable:
    def rule(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
        axes = tuple(eqn.params["axes"])
        if name == "sum":
            return [algebra.reduce_sum(e, *_facts(eqn), arrays[0], axes)]
        return [algebra.reduce_by(e, *_facts(eqn), arrays[0], axes, name)]

    return rule


def _arg(how: str) -> Callable:
    def rule(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
        index_kind = kind_of(eqn.outvars[0].aval.dtype)
        (axis,) = eqn.params["axes"]
        return [algebra.arg_extreme(e, *_facts(eqn), arrays[0], axis, index_kind, how)]

    return rule


def _cumulative(name: str) -> Callable:
    def rule(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
        facts, p = _facts(eqn), eqn.params
        return [
            algebra.cumulate(lambda a, b: RULES[name](e, *facts, a, b), arrays[0], p["axis"], p["reverse"])
        ]

    return rule


def _scatter(name: str | None) -> Callable:
    def rule(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
        facts = _facts(eqn)

        def join(old: Element, new: Element) -> Element:
            return RULES[name](e, *facts, old, new) if name else new

        kinds = structure.index_kinds(eqn)
        return [structure.scatter(e, kinds, join, *arrays, **eqn.params)]

    return rule


def _gather(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    x, indices = arrays
    shape = eqn.outvars[0].aval.shape
    return [structure.gather(e, structure.index_kinds(eqn), x, indices, shape, **eqn.params)]


def _dynamic(f: Callable) -> Callable:
    return lambda e, eqn, arrays: [f(e, structure.index_kinds(eqn), *arrays, **_but_trees(eqn.params))]


def _but_trees(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in params.items() if k == "slice_sizes"}


def _dot(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    (kind, signed), (a, b) = _facts(eqn), arrays
    return [algebra.dot_general(e, kind, signed, a, b, eqn.params["dimension_numbers"])]


def _matrix(f: Callable) -> Callable:
    def rule(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
        kind = _facts(eqn)[0]
        params = {} if f is not algebra.triangular_solve else eqn.params
        found = algebra.by_matrix(lambda *xs: f(e, kind, *xs, **params), *arrays)
        return found if isinstance(found, list) else [found]

    return rule


def _linear_solve(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    first = lengths.matvec + lengths.vecmat
    total = first + lengths.solve + lengths.transpose_solve
    return _inline(e, jaxprs.solve, [*arrays[first : first + lengths.solve], *arrays[total:]])


def _sort(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    facts = [_facts(eqn, i) for i in range(len(arrays))]
    return algebra.sort(e, facts, arrays, eqn.params["dimension"], eqn.params["num_keys"])


def _empty(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    aval = eqn.outvars[0].aval
    return [structure.zeros(aval.shape, kind_of(aval.dtype))]


# --- control --------------------------------------------------------------------------------------


def work(jaxpr: core.Jaxpr) -> int:
    """Elements that a jaxpr computes."""
    return sum(_work(eqn, eqn.params.get("length", 1)) for eqn in jaxpr.eqns)


def written(jaxpr: core.Jaxpr) -> int:
    """Elements whose computation has to be written out: a loop's body counts once."""
    return sum(_work(eqn, 1 if _loops(eqn) else eqn.params.get("length", 1), written) for eqn in jaxpr.eqns)


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


def _loops(eqn: Any) -> bool:
    """Whether a scan becomes a loop."""
    if eqn.primitive.name != "scan":
        return False
    length = eqn.params["length"]
    return length > 1 and length * work(eqn.params["jaxpr"].jaxpr) > UNROLL


def _jaxprs(params: dict[str, Any]) -> list[Any]:
    parts = [x for v in params.values() for x in (v if isinstance(v, tuple | list) else (v,))]
    return [x for x in parts if isinstance(x, core.ClosedJaxpr | core.Jaxpr)]


def _scan(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    p = eqn.params
    body, length, consts = p["jaxpr"], p["length"], p["num_consts"]
    middle = consts + p["num_carry"]
    parts = arrays[:consts], arrays[consts:middle], arrays[middle:]
    order = range(length)[::-1] if p["reverse"] else range(length)
    if not _loops(eqn):
        return _unrolled(e, body, order, *parts)
    return _looped(e, body, length, p["reverse"], *parts)


def _unrolled(e: Emitter, body: Any, order: Any, consts: list, carry: list, xs: list) -> list[Array]:
    count = len(carry)
    shapes = [v.aval.shape for v in body.jaxpr.outvars[count:]]
    ys = [np.empty((len(order), *shape), object) for shape in shapes]
    for t in order:
        found = _inline(
            e,
            body,
            [*consts, *carry, *(np.asarray(x[t], object) if x.ndim > 1 else scalar(x[t]) for x in xs)],
        )
        carry = found[:count]
        for y, new in zip(ys, found[count:], strict=True):
            y[t] = new if new.ndim else new.item()
    return [*carry, *ys]


class _Room:
    """Areas that hold some arrays, one after the other turn by turn."""

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
        found = []
        for i, aval in enumerate(self.avals):
            shape = aval.shape if turns is None else (turns, *aval.shape)
            place = self._turn(i, turn)
            found.append(array_of((Slot(place, k) for k in range(prod(shape))), shape))
        return found

    def _turn(self, i: int, turn: str | None) -> str:
        if turn is None:
            return self.where[i]
        size = prod(self.avals[i].shape)
        index = self.e.do(f"mul nuw nsw i64 {turn}, {size}").name
        return self.e.at(self.where[i], index, self.kinds[i])


def _looped(
    e: Emitter, body: Any, length: int, reverse: bool, consts: list, carry: list, xs: list
) -> list[Array]:
    """A scan as a loop: carry, xs and ys in memory."""
    avals = [v.aval for v in body.jaxpr.invars]
    first, count = len(consts), len(carry)
    kept = _keep(e, consts, avals[:first])
    state, given = _Room(e, avals[first : first + count]), _Room(e, avals[first + count :], length)
    made = _Room(e, [v.aval for v in body.jaxpr.outvars[count:]], length)
    state.put(carry)
    given.where = [e.laid(x.flat, kind) for x, kind in zip(xs, given.kinds, strict=True)]
    loop = e.begin_loop(length)
    turn = e.do(f"sub nuw nsw i64 {length - 1}, {loop[0]}").name if reverse else loop[0]
    found = _inline(e, body, [*kept, *state.slots(), *given.slots(turn)])
    made.put(found[count:], turn)
    state.put(found[:count])
    e.end_loop(loop)
    return [*state.slots(), *made.slots(turns=length)]


def _keep(e: Emitter, arrays: list[Array], avals: list[Any]) -> list[Array]:
    """What a loop reads from outside, in memory where it is much."""
    found = []
    for x, aval in zip(arrays, avals, strict=True):
        loose = sum(isinstance(i, Value) and not isinstance(i, Slot) for i in x.flat)
        kept = e.keep(x.flat, kind_of(aval.dtype)) if loose > LOOSE else x.flat
        found.append(array_of(kept, x.shape))
    return found


def _while(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """Turns until no lane wants another; a lane that is done keeps what it has."""
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    test, body = p["cond_jaxpr"], p["body_jaxpr"]
    outside = _keep(e, arrays[: nc + nb], [v.aval for v in eqn.invars[: nc + nb]])
    state = _Room(e, [v.aval for v in eqn.invars[nc + nb :]])
    state.put(arrays[nc + nb :])
    n = e.begin_while()
    now = state.slots()
    (wants,) = _inline(e, test, [*outside[:nc], *now])
    active = logic("and", e, "i1", False, wants.item(), e.active)
    e.test_while(n, active)
    before, e.active = e.active, active
    found = _inline(e, body, [*outside[nc:], *now])
    e.active = before
    state.put(_merge(e, state.kinds, active, now, found))
    e.end_while(n)
    return state.slots()


def _merge(e: Emitter, kinds: list[str], where: Element, old: list[Array], new: list[Array]) -> list[Array]:
    return [
        array_of((select(e, kind, where, a, b) for a, b in zip(x.flat, y.flat, strict=True)), x.shape)
        for kind, x, y in zip(kinds, old, new, strict=True)
    ]


def _cond(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """All branches, and each lane's own result; only one where that is known now."""
    branches, index, index_kind = eqn.params["branches"], arrays[0].item(), _facts(eqn)[0]
    if known(index):
        return _inline(e, branches[min(max(int(index), 0), len(branches) - 1)], arrays[1:])
    before, results = e.active, []
    for k, branch in enumerate(branches):
        here = [i == k for i in range(len(branches))]
        mine = _choose(e, "i1", index_kind, index, list(here))
        e.active = logic("and", e, "i1", False, before, mine)
        results.append(_inline(e, branch, arrays[1:]))
    e.active = before
    found = []
    for i, v in enumerate(eqn.outvars):
        options = zip(*(r[i].flat for r in results), strict=True)
        kind = kind_of(v.aval.dtype)
        found.append(array_of((_choose(e, kind, index_kind, index, list(o)) for o in options), v.aval.shape))
    return found


def _platform(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """Which of the platforms named is a CPU, or the last, the default."""
    platforms = eqn.params["platforms"]
    at = [i for i, names in enumerate(platforms) if names is None or "cpu" in names]
    return [scalar(at[0] if at else len(platforms) - 1)]


_SPECIAL: dict[str, Callable] = {
    "argmax": _arg("gt"), "argmin": _arg("lt"), "bitcast_convert_type": _bitcast,
    "cholesky": _matrix(algebra.cholesky), "cond": _cond, "convert_element_type": _convert,
    "cummax": _cumulative("max"), "cummin": _cumulative("min"), "cumprod": _cumulative("mul"),
    "cumsum": _cumulative("add"), "custom_linear_solve": _linear_solve, "dot_general": _dot,
    "dynamic_slice": _dynamic(structure.dynamic_slice),
    "dynamic_update_slice": _dynamic(structure.dynamic_update_slice), "empty": _empty, "empty2": _empty,
    "gather": _gather, "lu": _matrix(algebra.lu), "platform_index": _platform, "pow": _pow,
    "reduce_and": _reduction("and"), "reduce_max": _reduction("max"), "reduce_min": _reduction("min"),
    "reduce_or": _reduction("or"), "reduce_prod": _reduction("mul"), "reduce_sum": _reduction("sum"),
    "reduce_xor": _reduction("xor"),
    "scan": _scan, "scatter": _scatter(None), "scatter-add": _scatter("add"), "scatter-sub": _scatter("sub"),
    "scatter-max": _scatter("max"), "scatter-min": _scatter("min"), "scatter-mul": _scatter("mul"),
    "select_n": _select_n, "sort": _sort, "triangular_solve": _matrix(algebra.triangular_solve),
    "while": _while,
}  # fmt: skip
