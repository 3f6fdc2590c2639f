"""How JAX sees a program: two primitives with rules for every transformation.

    call      results of a program
    tangent   their tangents, linear in those of the arguments; transposed it is a call of the pullback

A batch is a leading axis; `size` says how long it is, or None. Arguments without it are shared by all
robots. `vmap` of a batch makes one longer batch.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.dispatch import prim_requires_devices_during_lowering  # JAX has no public name for it
from jax.ad_checkpoint import checkpoint_name
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from backflip.lanes.partition import by_device
from backflip.lanes.program import KEPT, Program
from backflip.lanes.target import target

call_p = core.Primitive("lanes_call")
tangent_p = core.Primitive("lanes_tangent")
for _p in (call_p, tangent_p):
    _p.multiple_results = True


def call(program: Program, arrays: Sequence[Any]) -> list[Any]:
    """Results of a program for one robot."""
    if not program.outs:
        return []
    return call_p.bind(*_alike(arrays), program=program, batched=(False,) * len(arrays), size=None)


def _alike(arrays: Sequence[Any]) -> list[Any]:
    """Inside `shard_map`: arrays that all vary over the same axes of its mesh."""
    varying = [jax.typeof(x).mat.varying for x in arrays]
    union = frozenset().union(*varying)
    if not union:
        return list(arrays)
    missing = [tuple(sorted(union - v)) for v in varying]
    return [jax.lax.pcast(x, m, to="varying") if m else x for x, m in zip(arrays, missing, strict=True)]


def _function(program: Program, batched: Sequence[bool], size: int | None) -> Any:
    """The program by plain JAX, over the batch."""
    if size is None:
        return program.run
    axes = tuple(0 if b else None for b in batched)
    return jax.vmap(program.run, in_axes=axes, axis_size=size)


def _avals(outs: Sequence[Any], size: int | None, ins: Sequence[Any]) -> list[Any]:
    """Results over the batch; inside `shard_map` they vary over the axes that the arguments vary over."""
    batch = () if size is None else (size,)
    plain = [jax.core.ShapedArray((*batch, *a.shape), a.dtype, a.weak_type) for a in outs]
    like = next((a for a in ins if a.mat.varying), None)
    if like is None:
        return plain
    whole = [like.sharding.update(spec=jax.P(*[None] * a.ndim)) for a in plain]
    return [like.update(a.shape, a.dtype, a.weak_type, sharding=s) for a, s in zip(plain, whole, strict=True)]


# --- call -----------------------------------------------------------------------------------------


@call_p.def_abstract_eval
def _call_avals(*ins, program: Program, batched, size) -> list[Any]:
    return _avals(program.outs, size, ins)


def _call_jvp(primals, tangents, *, program: Program, batched, size):
    if not program.kept:
        results = call_p.bind(*primals, program=program, batched=batched, size=size)
        return results, _tangents(primals, tangents, results, program, batched, size)
    results = call_p.bind(*primals, program=program.keeping, batched=batched, size=size)
    n = len(program.outs)
    kept = [checkpoint_name(x, KEPT) for x in results[n:]]
    primals, batched = [*primals, *kept], (*batched, *[size is not None] * len(kept))
    tangents = [*tangents, *(ad.Zero(jax.typeof(x).to_tangent_aval()) for x in kept)]
    return results[:n], _tangents(primals, tangents, results[:n], program.given_kept, batched, size)


def _tangents(primals, tangents, results, program: Program, batched, size) -> list[Any]:
    """Those of a program's results; Zero where they do not move."""
    moved = tuple(not isinstance(t, ad.Zero) for t in tangents)
    pushed = [ad.Zero(jax.typeof(x).to_tangent_aval()) for x in results]
    if not any(moved):
        return pushed
    given = _alike([*primals, *(t for t, m in zip(tangents, moved, strict=True) if m)])
    along = batched + tuple(b for b, m in zip(batched, moved, strict=True) if m)
    made = tangent_p.bind(*given, program=program, moved=moved, batched=along, size=size)
    for i, t in zip(program.real_outs, made, strict=True):
        pushed[i] = t
    return pushed


ad.primitive_jvps[call_p] = _call_jvp

# --- tangent --------------------------------------------------------------------------------------


@tangent_p.def_abstract_eval
def _tangent_avals(*ins, program: Program, moved, batched, size) -> list[Any]:
    return _avals(program.tangent(moved).outs, size, ins)


def _tangent_jvp(primals, tangents, *, program: Program, moved, batched, size):
    """Of a tangent, as of any other program's result: derivatives of every order are programs."""
    results = tangent_p.bind(*primals, program=program, moved=moved, batched=batched, size=size)
    return results, _tangents(primals, tangents, results, program.tangent(moved), batched, size)


def _tangent_transpose(cotangents, *arrays, program: Program, moved, batched, size):
    """Cotangents of the tangents; those of an argument shared by the batch are summed over it."""
    n = len(moved)
    cotangents = [ad.instantiate_zeros(c) for c in cotangents]
    pullback = program.pullback(moved)
    along = batched[:n] + (size is not None,) * len(cotangents)
    given = _alike([*arrays[:n], *cotangents])
    pulled = call_p.bind(*given, program=pullback, batched=along, size=size)
    shared = [size is not None and not b for b in batched[n:]]
    return [None] * n + [jnp.sum(x, 0) if s else x for x, s in zip(pulled, shared, strict=True)]


ad.primitive_jvps[tangent_p] = _tangent_jvp
ad.primitive_transposes[tangent_p] = _tangent_transpose

# --- both -----------------------------------------------------------------------------------------


def _batch(primitive: Any, arrays, dims, *, batched, size, **params):
    """One longer batch: the new axis in front of the old one."""
    new = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    old = () if size is None else (size,)
    total = new * (1 if size is None else size)
    laid, longer = [], []
    for a, d, b in zip(arrays, dims, batched, strict=True):
        mapped = d is not None
        x = jnp.moveaxis(a, d, 0) if mapped else a
        longer.append(mapped or b)
        if old and mapped != b:
            # it has one of two batch axes: repeat it along the other
            x = jnp.expand_dims(x, 0 if b else 1)
            x = jnp.broadcast_to(x, (new, *old, *x.shape[2:]))
        laid.append(x.reshape((total, *x.shape[2:])) if old and longer[-1] else x)
    results = primitive.bind(*_alike(laid), batched=tuple(longer), size=total, **params)
    return [x.reshape((new, *old, *x.shape[1:])) for x in results], [0] * len(results)


def _lower_to_xla(primitive: Any) -> Any:
    def run(*arrays, program: Program, batched, size, moved=None):
        chosen = program if moved is None else program.tangent(moved)
        return _function(chosen, batched, size)(*arrays)

    return mlir.lower_fun(run, multiple_results=True)


def _lower_to_lanes(primitive: Any) -> Any:
    fallback = _lower_to_xla(primitive)

    def lower(ctx, *operands, program: Program, **params):
        if ctx.module_context.lowering_parameters.for_export:  # a kernel of this machine is nothing to export
            return fallback(ctx, *operands, program=program, **params)
        if params["size"] is not None and _is_split(ctx.module_context.axis_context):
            return _lower_by_device(primitive, ctx, *operands, program=program, **params)
        batched, size, moved = params["batched"], params["size"], params.get("moved")
        derived = program if moved is None else program.tangent(moved)
        name = derived.kernel(tuple(size is not None and not b for b in batched), size)
        if name is None:
            return fallback(ctx, *operands, program=program, **params)
        aliases = _in_place(derived, batched, size)
        return jax.ffi.ffi_lowering(name, operand_output_aliases=aliases)(ctx, *operands)

    return lower


def _is_split(context: Any) -> bool:
    """Whether arrays may be split along a mesh by XLA; inside `shard_map` each device has its own."""
    several = len(getattr(context, "device_assignment", None) or ()) > 1
    return several and context.abstract_mesh is not None


def _lower_by_device(primitive: Any, ctx: Any, *operands: Any, size: int, **params: Any) -> Any:
    def call(*arrays: Any, size: int) -> list[Any]:
        return primitive.bind(*arrays, size=size, **params)

    split = by_device(call, params["batched"], ctx.avals_in, ctx.avals_out)
    return mlir.lower_fun(split, multiple_results=True)(ctx, *operands)


def _in_place(program: Program, batched: Sequence[bool], size: int | None) -> dict[int, int]:
    """Arguments in whose place results may be written, so that a scan need not copy its carry.

    A kernel reads robots whole before it writes any of them, but not where one robot is all.
    """
    if size is None or size == 1:
        return {}
    free = [i for i in range(program.spent, len(batched)) if batched[i]]
    aliases: dict[int, int] = {}
    for k, out in enumerate(program.outs):
        alike = (i for i in free if (program.ins[i].shape, program.ins[i].dtype) == (out.shape, out.dtype))
        if (i := next(alike, None)) is not None:
            aliases[i] = k
            free.remove(i)
    return aliases


def _eager(primitive: Any) -> Any:
    """Outside of jit: compiled for these shapes once, like any other operation."""

    def run(*arrays: Any, **params: Any) -> list[Any]:
        ready = params["program"].eager
        key = (primitive, target(), *(v for k, v in sorted(params.items()) if k != "program"))
        compiled = ready.get(key) or ready.setdefault(key, jax.jit(lambda *xs: primitive.bind(*xs, **params)))
        with jax.disable_jit(False):
            return compiled(*arrays)

    return run


for _p in (call_p, tangent_p):
    prim_requires_devices_during_lowering.add(_p)  # `_is_split` asks for them
    _p.def_impl(_eager(_p))
    batching.primitive_batchers[_p] = lambda arrays, dims, _p=_p, **params: _batch(_p, arrays, dims, **params)
    mlir.register_lowering(_p, _lower_to_xla(_p))
    mlir.register_lowering(_p, _lower_to_lanes(_p), platform="cpu")
