"""A whole kernel: the robot's program for one vector of lanes, and the loop that feeds it robots.

XLA keeps robots one after the other, (batch, n); lanes want element after element, (n, lanes). A block of
`lanes` robots is turned over on its way in and out. Arguments that all robots share are read in place.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from jax.extend import core

from backflip.lanes import loops
from backflip.lanes.cost import written
from backflip.lanes.emit import Emitter, Slot, Uncovered, kind_of, size_of
from backflip.lanes.handler import handler_ir
from backflip.lanes.machine import Module, cores
from backflip.lanes.pieces import ALIGN, cut
from backflip.lanes.schedule import schedule
from backflip.lanes.structure import array_of
from backflip.lanes.translate import translate

MOST_WRITTEN = 2_000_000
"""Operations on elements that are written out at most; LLVM compiles some 10,000 a second"""

MOST_ROOM = 6 << 20
"""[bytes] of the stack of a thread, which holds 8 MB as a rule"""
SHORT = 500_000
"""[characters] of a module; a shorter one is not worth a process of its own"""
MOST_MODULES = 8


class Port(NamedTuple):
    """One argument or result of a kernel."""

    elements: int
    """elements of one robot"""
    kind: str
    """as stored: booleans are bytes"""
    shared: bool
    """whether all robots have the same"""


def kernel_ir(
    closed: core.ClosedJaxpr, shared: Sequence[bool], batched: bool, lanes: int, threads: int | None
) -> list[Module]:
    """LLVM modules of a jaxpr of one robot, the first with the handler `entry` that XLA calls."""
    jaxpr = closed.jaxpr
    if (length := written(jaxpr)) > MOST_WRITTEN:
        raise Uncovered(f"a program of {length:,} operations, which would take minutes to compile")
    ins = [_port(v.aval, s) for v, s in zip(jaxpr.invars, shared, strict=True)]
    outs = [_port(v.aval, False) for v in jaxpr.outvars]
    e = Emitter(lanes)
    arrays = [
        array_of((Slot(f"%in{i}", k, port.shared and lanes > 1) for k in range(port.elements)), v.aval.shape)
        for i, (port, v) in enumerate(zip(ins, jaxpr.invars, strict=True))
    ]
    results = translate(e, jaxpr, closed.consts, arrays)
    for i, (array, v) in enumerate(zip(results, jaxpr.outvars, strict=True)):
        loops.write(e, kind_of(v.aval.dtype), array, f"%out{i}")
    ports = [f"%in{i}" for i in range(len(ins))] + [f"%out{i}" for i in range(len(outs))]
    pieces = cut(schedule(e.lines), ports, e.areas)
    tables = [f"{name} = {text}" for text, name in e.tables.items()]
    common = "\n".join(["!0 = !{}", *tables, *sorted(e.declared), *e.defined.values()])
    _check_room([*ins, *outs], lanes, pieces.frame)
    main = [
        pieces.run(),
        _vector(ins, outs, lanes, pieces.frame),
        _block(lanes),
        *(_turns(kind, lanes) for kind in sorted({p.kind for p in (*ins, *outs)}) if lanes > 1),
        handler_ir("entry", "block", len(ins), len(outs), batched, lanes, threads=threads),
    ]
    parts = _parts(pieces.functions, min(cores(), MOST_MODULES))
    near = len(parts[0])
    far = [_far(near + i, i) for i in range(len(pieces.functions) - near)]
    table = f"@table = global [{len(far)} x ptr] zeroinitializer"
    modules = [Module("\n".join([common, table, *far, *parts[0], *main]), ["entry"])]
    for part in parts[1:]:
        modules.append(Module("\n".join([common, *part]), [f"piece{near + i}" for i in range(len(part))]))
        near += len(part)
    return modules


def _check_room(ports: list[Port], lanes: int, frame: int) -> None:
    """Whether the stack has room for a vector of robots."""
    turned = [p for p in ports if not p.shared and lanes > 1]
    room = frame + sum(p.elements * lanes * size_of(p.kind) for p in turned)
    if room > MOST_ROOM:
        raise Uncovered(f"a program that needs {room >> 20} MB for one vector of robots")


def _far(piece: int, place: int) -> str:
    """A piece in another module: its address is in the table."""
    return f"""define internal void @piece{piece}(ptr %frame) nounwind {{
  %at = getelementptr ptr, ptr @table, i64 {place}
  %piece = load ptr, ptr %at
  tail call void %piece(ptr %frame)
  ret void
}}"""


def _parts(functions: list[str], most: int) -> list[list[str]]:
    """Functions in order, cut into at most so many parts of about the same length, none of them short."""
    total = sum(map(len, functions))
    count = max(1, min(most, total // SHORT))
    parts: list[list[str]] = [[]]
    done = 0
    for text in functions:
        if done >= len(parts) * total / count:
            parts.append([])
        parts[-1].append(text)
        done += len(text)
    return parts


def _port(aval: Any, shared: bool) -> Port:
    kind = kind_of(aval.dtype)
    return Port(prod(aval.shape), "i8" if kind == "i1" else kind, shared)


def _block(lanes: int) -> str:
    """Robots first ... last − 1, a vector at a time."""
    lines = ["br label %loop", "loop:", "%at = phi i64 [ %first, %entry ], [ %next, %loop ]"]
    lines += ["call void @vector(ptr %ins, ptr %outs, i64 %at, i64 %last)", f"%next = add i64 %at, {lanes}"]
    lines += ["%go = icmp ult i64 %next, %last", "br i1 %go, label %loop, label %done", "done:", "ret void"]
    return _define("block", "i64 %first, i64 %last", lines)


def _vector(ins: list[Port], outs: list[Port], lanes: int, frame: int) -> str:
    """The robots of a vector, from `at` on; the last few lanes repeat the last robot."""
    lines = [f"%frame = alloca [{frame} x i8], align {ALIGN}"]
    ports = [("in", i, port) for i, port in enumerate(ins)] + [
        ("out", i, port) for i, port in enumerate(outs)
    ]
    after: list[str] = []
    for slot, (side, i, port) in enumerate(ports):
        here, robots = f"%{side}{i}", f"%{side}{i}.all"
        lines += [
            f"{here}.at = getelementptr ptr, ptr %{side}s, i64 {i}",
            f"{robots} = load ptr, ptr {here}.at",
        ]
        if port.shared:
            here = robots
        elif lanes == 1:
            lines.append(f"{here}.skip = mul i64 %at, {port.elements * size_of(port.kind)}")
            lines.append(f"{here} = getelementptr i8, ptr {robots}, i64 {here}.skip")
        else:
            room = f"[{max(port.elements, 1)} x <{lanes} x {port.kind}>]"
            lines.append(f"{here} = alloca {room}, align {ALIGN}")
            operands = f"ptr {robots}, ptr {here}, i64 {port.elements}, i64 %at, i64 %last"
            (lines if side == "in" else after).append(f"call void @turn.{side}.{port.kind}({operands})")
        lines.append(f"%port{slot} = getelementptr i8, ptr %frame, i64 {8 * slot}")
        lines.append(f"store ptr {here}, ptr %port{slot}")
    lines += ["call void @run(ptr %frame)", *after, "ret void"]
    return _define("vector", "i64 %at, i64 %last", lines)


def _define(name: str, robots: str, lines: list[str]) -> str:
    text = "\n  ".join(lines)
    return f"define internal void @{name}(ptr %ins, ptr %outs, {robots}) nounwind {{\nentry:\n  {text}\n}}"


def _turns(kind: str, lanes: int) -> str:
    """turn.in: (robots, count) -> (count, lanes) from robot `at` on; turn.out: the way back."""
    return _turn("in", kind, lanes) + "\n" + _turn("out", kind, lanes)


def _turn(side: str, kind: str, lanes: int) -> str:
    """Squares of lanes x lanes in registers; what is left over, and the last robots, one by one."""
    t, size = f"<{lanes} x {kind}>", size_of(kind)
    rows = [f"%row{i} = getelementptr {kind}, ptr %robots, i64 %skip{i}" for i in range(lanes)]
    place = [f"%skip{i} = add i64 %k, %begin{i}" for i in range(lanes)]
    begin = []
    for i in range(lanes):
        begin += [f"%robot{i} = add i64 %at, {i}", f"%begin{i} = mul i64 %robot{i}, %count"]
    cells = [f"%cell{i} = getelementptr {t}, ptr %lanes, i64 %col{i}" for i in range(lanes)]
    columns = [f"%col{i} = add i64 %k, {i}" for i in range(lanes)]
    source, target = ("row", "cell") if side == "in" else ("cell", "row")
    loads = [f"%s0.{i} = load {t}, ptr %{source}{i}, align {size}" for i in range(lanes)]
    shuffles, last = _square(t, lanes)
    stores = [f"store {t} %s{last}.{i}, ptr %{target}{i}, align {size}" for i in range(lanes)]
    one_by_one = [
        "%row = add i64 %at, %lane", "%end = sub i64 %last, 1",
        "%over = icmp ugt i64 %row, %end", "%robot = select i1 %over, i64 %end, i64 %row",
        "%flat = mul i64 %robot, %count", "%from = add i64 %flat, %e",
        f"%there = getelementptr {kind}, ptr %robots, i64 %from",
        f"%col = mul i64 %e, {lanes}", "%cell = add i64 %col, %lane",
        f"%here = getelementptr {kind}, ptr %lanes, i64 %cell",
    ]  # fmt: skip
    if side == "in":
        one_by_one += [f"%x = load {kind}, ptr %there", f"store {kind} %x, ptr %here", "br label %next"]
    else:
        one_by_one += [
            "br i1 %over, label %next, label %write", "write:",
            f"%x = load {kind}, ptr %here", f"store {kind} %x, ptr %there", "br label %next",
        ]  # fmt: skip
    lines = [
        *begin, "%left = sub i64 %last, %at", f"%whole = icmp uge i64 %left, {lanes}",
        f"%most = and i64 %count, {-lanes}", "%squares = select i1 %whole, i64 %most, i64 0",
        "br label %square", "square:", "%k = phi i64 [ 0, %entry ], [ %k2, %turned ]",
        "%go = icmp ult i64 %k, %squares", "br i1 %go, label %turned, label %rest", "turned:",
        *place, *rows, *columns, *cells, *loads, *shuffles, *stores, f"%k2 = add i64 %k, {lanes}",
        "br label %square", "rest:", "%e = phi i64 [ %squares, %square ], [ %e2, %outer ]",
        "%any = icmp ult i64 %e, %count", "br i1 %any, label %inner, label %done", "inner:",
        "%lane = phi i64 [ 0, %rest ], [ %lane2, %next ]", *one_by_one, "next:",
        "%lane2 = add i64 %lane, 1", f"%again = icmp ult i64 %lane2, {lanes}",
        "br i1 %again, label %inner, label %outer", "outer:", "%e2 = add i64 %e, 1", "br label %rest",
        "done:", "ret void",
    ]  # fmt: skip
    text = "\n  ".join(lines)
    head = (
        f"define internal void @turn.{side}.{kind}(ptr %robots, ptr %lanes, i64 %count, i64 %at, i64 %last)"
    )
    return f"{head} nounwind {{\nentry:\n  {text}\n}}"


def _square(t: str, lanes: int) -> tuple[list[str], int]:
    """Shuffles that turn over `lanes` vectors %s0.i; the result is %s{last}.i.

    Each stage swaps the halves of blocks twice the width of the last: element (i, j) ends at (j, i).
    """
    lines, stage, width = [], 0, 1
    while width < lanes:
        for i in range(lanes):
            low = i & ~width
            a, b = f"%s{stage}.{low}", f"%s{stage}.{low | width}"
            mask = []
            for j in range(lanes):
                # upper row of a pair of blocks keeps the low columns, the lower row takes the high ones
                base = (j & ~width) | (width if i & width else 0)
                mask.append(base + (lanes if j & width else 0))
            picks = ", ".join(f"i32 {m}" for m in mask)
            lines.append(f"%s{stage + 1}.{i} = shufflevector {t} {a}, {t} {b}, <{lanes} x i32> <{picks}>")
        stage, width = stage + 1, width * 2
    return lines, stage
