"""A jaxpr becomes lines of LLVM: one rule per primitive, loops as loops.

Arrays are numpy arrays of elements, so whatever only moves elements costs nothing. Arithmetic is written
out, one vector instruction per element. A scan whose turns are many becomes a loop with its carry in memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from jax.extend import core
from jax.extend.source_info_util import summarize

from backflip.lanes import algebra, control, loops, structure
from backflip.lanes.conversion import bitcast, convert
from backflip.lanes.elementwise import RULES
from backflip.lanes.emit import Element, Emitter, Uncovered, kind_of
from backflip.lanes.logic import choose, select
from backflip.lanes.structure import MOVES, Array, array_of, scalar


def translate(e: Emitter, jaxpr: core.Jaxpr, consts: Sequence[Any], arrays: Sequence[Array]) -> list[Array]:
    """Results of a jaxpr, equation by equation."""
    env: dict[Any, Array] = {}

    def read(v: Any) -> Array:
        return _constant(v.val) if isinstance(v, core.Literal) else env[v]

    env.update(zip(jaxpr.constvars, map(_constant, consts), strict=True))
    env.update(zip(jaxpr.invars, arrays, strict=True))
    for eqn in jaxpr.eqns:
        try:
            results = _apply(e, eqn, [read(v) for v in eqn.invars])
        except Uncovered as gap:
            # an operation inside a function of JAX's own may not know its place, but its caller does
            raise gap if any(gap.args[1:]) else Uncovered(gap.args[0], summarize(eqn.source_info)) from gap
        env.update(zip(eqn.outvars, results, strict=True))
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
        results = MOVES[name](*arrays, **eqn.params)
        return results if isinstance(results, list) else [results]
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
        return choose(e, kind, index_kind, which, list(options))

    return [_each(e, eqn, arrays, rule)]


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
    return [array_of((bitcast(e, old, new, x) for x in arrays[0].flat), arrays[0].shape)]


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
        results = algebra.by_matrix(lambda *xs: f(e, kind, *xs, **params), *arrays)
        return results if isinstance(results, list) else [results]

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


def _platform(e: Emitter, eqn: Any, arrays: list[Array]) -> list[Array]:
    """Which of the platforms named is a CPU, or the last, the default."""
    platforms = eqn.params["platforms"]
    at = [i for i, names in enumerate(platforms) if names is None or "cpu" in names]
    return [scalar(at[0] if at else len(platforms) - 1)]


_SPECIAL: dict[str, Callable] = {
    "argmax": _arg("gt"), "argmin": _arg("lt"), "bitcast_convert_type": _bitcast,
    "cholesky": _matrix(algebra.cholesky), "cond": partial(control.cond, _inline),
    "convert_element_type": _convert,
    "cummax": _cumulative("max"), "cummin": _cumulative("min"), "cumprod": _cumulative("mul"),
    "cumsum": _cumulative("add"), "custom_linear_solve": _linear_solve, "dot_general": _dot,
    "dynamic_slice": _dynamic(structure.dynamic_slice),
    "dynamic_update_slice": _dynamic(structure.dynamic_update_slice), "empty": _empty, "empty2": _empty,
    "gather": _gather, "lu": _matrix(algebra.lu), "platform_index": _platform, "pow": _pow,
    "reduce_and": _reduction("and"), "reduce_max": _reduction("max"), "reduce_min": _reduction("min"),
    "reduce_or": _reduction("or"), "reduce_prod": _reduction("mul"), "reduce_sum": _reduction("sum"),
    "reduce_xor": _reduction("xor"),
    "scan": partial(control.scan, _inline),
    "scatter": _scatter(None), "scatter-add": _scatter("add"), "scatter-sub": _scatter("sub"),
    "scatter-max": _scatter("max"), "scatter-min": _scatter("min"), "scatter-mul": _scatter("mul"),
    "select_n": _select_n, "sort": _sort, "triangular_solve": _matrix(algebra.triangular_solve),
    "while": partial(control.while_, _inline),
}  # fmt: skip
