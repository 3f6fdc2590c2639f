"""A whole kernel: the robot's program for one vector of lanes, and the loop that feeds it robots.

XLA keeps robots one after the other, (batch, n); lanes want element after element, (n, lanes). A block of
`lanes` robots is turned over on its way in and out. Arguments that all robots share are read in place.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from jax.extend import core

from backflip.lanes import loops
from backflip.lanes.emit import Emitter, Slot, Uncovered, kind_of, size_of
from backflip.lanes.handler import handler_ir
from backflip.lanes.machine import Module, cores
from backflip.lanes.pieces import ALIGN, cut
from backflip.lanes.schedule import schedule
from backflip.lanes.structure import array_of
from backflip.lanes.translate import translate, written

MOST_WRITTEN = 2_000_000
"""Operations on elements that are written out at most; LLVM compiles some 10,000 a second"""


VECTORS = 2
"""Vectors of robots that go through the pieces together: code is read once for all, but each has its frame"""
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
    most = _together([*ins, *outs], lanes, pieces.frame)
    counts = range(1, most + 1)
    main = [
        *(pieces.run(n) for n in counts),
        *(_vectors(ins, outs, lanes, pieces.frame, n) for n in counts),
        _block(lanes, most),
        *(_turns(kind, lanes) for kind in sorted({p.kind for p in (*ins, *outs)}) if lanes > 1),
        handler_ir("entry", "block", len(ins), len(outs), batched, most * lanes, threads=threads),
    ]
    shares = _shares(pieces.functions, min(cores(), MOST_MODULES))
    near = len(shares[0])
    far = [_far(near + i, i) for i in range(len(pieces.functions) - near)]
    table = f"@table = global [{len(far)} x ptr] zeroinitializer"
    found = [Module("\n".join([common, table, *far, *shares[0], *main]), ["entry"])]
    for share in shares[1:]:
        found.append(Module("\n".join([common, *share]), [f"piece{near + i}" for i in range(len(share))]))
        near += len(share)
    return found


def _together(ports: list[Port], lanes: int, frame: int) -> int:
    """How many vectors of robots the stack has room for at once; with one lane there is one robot."""
    if lanes == 1:
        return 1
    room = frame + sum(p.elements * lanes * size_of(p.kind) for p in ports if not p.shared)
    if room > MOST_ROOM:
        raise Uncovered(f"a program that needs {room >> 20} MB for one vector of robots")
    return min(VECTORS, MOST_ROOM // room)


def _far(piece: int, place: int) -> str:
    """A piece in another module: its address is in the table."""
    return f"""define internal void @piece{piece}(ptr %frame) nounwind {{
  %at = getelementptr ptr, ptr @table, i64 {place}
  %piece = load ptr, ptr %at
  tail call void %piece(ptr %frame)
  ret void
}}"""


def _shares(functions: list[str], most: int) -> list[list[str]]:
    """Functions in order, cut into at most so many parts of about the same length, none of them short."""
    total = sum(map(len, functions))
    parts = max(1, min(most, total // SHORT))
    found: list[list[str]] = [[]]
    done = 0
    for text in functions:
        if done >= len(found) * total / parts:
            found.append([])
        found[-1].append(text)
        done += len(text)
    return found


def _port(aval: Any, shared: bool) -> Port:
    kind = kind_of(aval.dtype)
    return Port(prod(aval.shape), "i8" if kind == "i1" else kind, shared)


def _block(lanes: int, most: int) -> str:
    """Robots first ... last − 1, `most` vectors of `lanes` at a time, then what is left."""
    lines = ["br label %loop", "loop:", "%at = phi i64 [ %first, %entry ], [ %next, %after ]"]
    lines += ["%left = sub i64 %last, %at", f"%more = add i64 %left, {lanes - 1}"]
    lines += [f"%vectors = udiv i64 %more, {lanes}", f"switch i64 %vectors, label %take{most} ["]
    lines += [*(f"i64 {n}, label %take{n}" for n in range(1, most)), "]"]
    for n in range(1, most + 1):
        call = f"call void @vectors{n}(ptr %ins, ptr %outs, i64 %at, i64 %last)"
        lines += [f"take{n}:", call, "br label %after"]
    steps = ", ".join(f"[ {n * lanes}, %take{n} ]" for n in range(1, most + 1))
    lines += ["after:", f"%step = phi i64 {steps}", "%next = add i64 %at, %step"]
    lines += ["%go = icmp ult i64 %next, %last", "br i1 %go, label %loop, label %done", "done:", "ret void"]
    return _define("block", "i64 %first, i64 %last", lines)


def _vectors(ins: list[Port], outs: list[Port], lanes: int, frame: int, count: int) -> str:
    """`count` vectors of robots from `at` on; the last few lanes repeat the last robot."""
    lines = [f"%frames = alloca [{count * frame} x i8], align {ALIGN}"]
    ports = [("in", i, port) for i, port in enumerate(ins)] + [
        ("out", i, port) for i, port in enumerate(outs)
    ]
    after: list[str] = []
    lines += [f"%at{n} = add i64 %at, {n * lanes}" for n in range(count)]
    for slot, (side, i, port) in enumerate(ports):
        name = f"%{side}{i}"
        lines += [
            f"{name}.at = getelementptr ptr, ptr %{side}s, i64 {i}",
            f"{name}.all = load ptr, ptr {name}.at",
        ]
        for n in range(count):
            here, robots = f"{name}.{n}", f"{name}.all"
            if port.shared:
                here = robots
            elif lanes == 1:
                lines.append(f"{here}.skip = mul i64 %at{n}, {port.elements * size_of(port.kind)}")
                lines.append(f"{here} = getelementptr i8, ptr {robots}, i64 {here}.skip")
            else:
                room = f"[{max(port.elements, 1)} x <{lanes} x {port.kind}>]"
                lines.append(f"{here} = alloca {room}, align {ALIGN}")
                operands = f"ptr {robots}, ptr {here}, i64 {port.elements}, i64 %at{n}, i64 %last"
                (lines if side == "in" else after).append(f"call void @turn.{side}.{port.kind}({operands})")
            lines.append(f"{name}.{n}.port = getelementptr i8, ptr %frames, i64 {n * frame + 8 * slot}")
            lines.append(f"store ptr {here}, ptr {name}.{n}.port")
    lines += [f"call void @run{count}(ptr %frames)", *after, "ret void"]
    return _define(f"vectors{count}", "i64 %at, i64 %last", lines)


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
