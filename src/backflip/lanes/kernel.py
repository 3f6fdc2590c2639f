"""A whole kernel: the robot's program for one vector of lanes, and the loop that feeds it robots.

XLA keeps robots one after the other, (batch, n); lanes want element after element, (n, lanes). A block of
`lanes` robots is turned over on its way in and out. Arguments that all robots share are read in place.
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from jax.extend import core

from backflip.lanes import loops
from backflip.lanes.cost import written
from backflip.lanes.emit import Emitter, Slot, Uncovered, kind_of, size_of
from backflip.lanes.handler import handler_ir
from backflip.lanes.machine import Module, cores
from backflip.lanes.pieces import ALIGN, Pieces, cut, up
from backflip.lanes.regroup import move_area_ir, regroup_ir
from backflip.lanes.schedule import schedule
from backflip.lanes.structure import array_of
from backflip.lanes.translate import translate

MOST_WRITTEN = 2_000_000
"""Operations on elements that are written out at most; LLVM compiles some 10,000 a second"""

MOST_ROOM = 6 << 20
"""[bytes] of the stack of a thread, which holds 8 MB as a rule"""
MOST_VECTORS, GROUP_ROOM = 8, 2 << 20
"""vectors whose robots are regrouped together, at most, and [bytes] of their frames"""
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
    ports += [loop.wanting for loop in e.regrouped]
    pieces = cut(schedule(e.lines), ports, e.areas)
    tables = [f"{name} = {text}" for text, name in e.tables.items()]
    e.declared |= {"declare i64 @llvm.ctpop.i64(i64)", "declare i64 @llvm.cttz.i64(i64, i1)"}
    e.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    common = "\n".join(["!0 = !{}", *tables, *sorted(e.declared), *e.defined.values()])
    rooms = _rooms([*ins, *outs], len(e.regrouped), lanes, pieces.frame)
    frame = rooms[-1]
    group = max(1, min(MOST_VECTORS, GROUP_ROOM // frame)) if e.regrouped else 1
    _check_room((group + (group > 1)) * frame)
    main = [
        *pieces.stages(),
        _enter(ins, outs, rooms, lanes),
        _leave(ins, outs, rooms, lanes),
        *_regroups(e, pieces, rooms, lanes),
        *(_phase(i, len(e.regrouped), lanes, frame) for i in range(len(e.regrouped) + 1)),
        _block(group, len(e.regrouped), lanes, frame),
        *(_turns(kind, lanes) for kind in sorted({p.kind for p in (*ins, *outs)}) if lanes > 1),
        handler_ir("entry", "block", len(ins), len(outs), batched, lanes, threads=threads, group=group),
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


def _rooms(ports: list[Port], loops: int, lanes: int, frame: int) -> list[int]:
    """Where in the frame ports are turned over and loops tell who wants more turns, and where it ends."""
    turned = [0 if p.shared or lanes == 1 else p.elements * lanes * size_of(p.kind) for p in ports]
    rooms = [frame]
    for size in [*turned, *(8,) * loops]:
        rooms.append(rooms[-1] + up(size))
    return rooms


def _check_room(room: int) -> None:
    """Whether the stack has room for the frames."""
    if room > MOST_ROOM:
        raise Uncovered(f"a program that needs {room >> 20} MB for one vector of robots")


def _regroups(e: Emitter, pieces: Pieces, rooms: list[int], lanes: int) -> list[str]:
    """What moves robots between vectors, of all loops that ask for it."""
    sizes = {
        area: size for loop in e.regrouped for area, size in (*loop.fixed.items(), *loop.carried.items())
    }
    areas = {
        area: (pieces.areas[area], e.areas[area] // (lanes * size))
        for area, size in sizes.items()
        if area in pieces.areas
    }
    ways = product(("gather", "scatter"), sorted(set(sizes.values())))
    texts = [move_area_ir(way, size, lanes) for way, size in ways]
    first = len(rooms) - 1 - len(e.regrouped)
    for i, loop in enumerate(e.regrouped):
        texts.append(regroup_ir(i, loop, areas, rooms[first + i], first + i, lanes, rooms[-1]))
    return texts


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


def _block(group: int, loops: int, lanes: int, frame: int) -> str:
    """Robots first ... last − 1, some vectors at a time."""
    robots = "ptr %ins, ptr %outs, ptr %frames, i64 %at, i64 %last, i64 %count"
    lines = [
        # one vector has no use for a second
        f"%frames = alloca [{(group + (group > 1)) * frame} x i8], align {ALIGN}",
        f"%slow = getelementptr i8, ptr %frames, i64 {group * frame if group > 1 else 0}",
        "br label %group", "group:", "%at = phi i64 [ %first, %entry ], [ %next, %group ]",
        "%left = sub i64 %last, %at", f"%rounded = add i64 %left, {lanes - 1}",
        f"%vectors = udiv i64 %rounded, {lanes}", f"%several = icmp ult i64 %vectors, {group}",
        f"%count = select i1 %several, i64 %vectors, i64 {group}", f"call void @phase0({robots})",
    ]  # fmt: skip
    for i in range(loops):
        lines.append(f"call void @regroup{i}(ptr %frames, ptr %slow, i64 %count)")
        lines.append(f"call void @phase{i + 1}({robots})")
    lines += [f"%next = add i64 %at, {group * lanes}", "%go = icmp ult i64 %next, %last"]
    lines += ["br i1 %go, label %group, label %done", "done:", "ret void"]
    return _define("block", "i64 %first, i64 %last", lines)


def _phase(i: int, loops: int, lanes: int, frame: int) -> str:
    """What each vector does between two loops, the robots' coming and going included."""
    robots = "(ptr %ins, ptr %outs, ptr %frame, i64 %robot, i64 %last)"
    lines = [
        "br label %vector", "vector:", "%i = phi i64 [ 0, %entry ], [ %i.next, %vector ]",
        f"%skip = mul i64 %i, {frame}", "%frame = getelementptr i8, ptr %frames, i64 %skip",
        f"%robots = mul i64 %i, {lanes}", "%robot = add i64 %at, %robots",
        *([f"call void @enter{robots}"] if i == 0 else []),
        f"call void @stage{3 * i}(ptr %frame)",
        *([f"call void @leave{robots}"] if i == loops else []),
        "%i.next = add i64 %i, 1", "%more = icmp ult i64 %i.next, %count",
        "br i1 %more, label %vector, label %done", "done:", "ret void",
    ]  # fmt: skip
    return _define(f"phase{i}", "ptr %frames, i64 %at, i64 %last, i64 %count", lines)


def _enter(ins: list[Port], outs: list[Port], rooms: list[int], lanes: int) -> str:
    """The robots of a vector, from `at` on; the last few lanes repeat the last robot."""
    lines = []
    ports = [("in", i, p) for i, p in enumerate(ins)] + [("out", i, p) for i, p in enumerate(outs)]
    for slot, (side, i, port) in enumerate(ports):
        here, robots = f"%{side}{i}", f"%{side}{i}.all"
        lines += _pointer(side, i)
        if port.shared:
            here = robots
        elif lanes == 1:
            lines.append(f"{here}.skip = mul i64 %at, {port.elements * size_of(port.kind)}")
            lines.append(f"{here} = getelementptr i8, ptr {robots}, i64 {here}.skip")
        else:
            lines.append(f"{here} = getelementptr i8, ptr %frame, i64 {rooms[slot]}")
            lines += [_turned(side, i, port)] * (side == "in")
        lines += _remember(slot, here)
    for slot in range(len(ports), len(rooms) - 1):
        lines.append(f"%wanting{slot} = getelementptr i8, ptr %frame, i64 {rooms[slot]}")
        lines += _remember(slot, f"%wanting{slot}")
    return _define("enter", "ptr %frame, i64 %at, i64 %last", [*lines, "ret void"])


def _leave(ins: list[Port], outs: list[Port], rooms: list[int], lanes: int) -> str:
    """Results of the robots of a vector, from `at` on."""
    lines = []
    for i, port in enumerate(outs if lanes > 1 else []):
        lines += _pointer("out", i)
        lines.append(f"%out{i} = getelementptr i8, ptr %frame, i64 {rooms[len(ins) + i]}")
        lines.append(_turned("out", i, port))
    return _define("leave", "ptr %frame, i64 %at, i64 %last", [*lines, "ret void"])


def _pointer(side: str, i: int) -> list[str]:
    """All robots' data of a port."""
    place = f"%{side}{i}.at = getelementptr ptr, ptr %{side}s, i64 {i}"
    return [place, f"%{side}{i}.all = load ptr, ptr %{side}{i}.at"]


def _turned(side: str, i: int, port: Port) -> str:
    operands = f"ptr %{side}{i}.all, ptr %{side}{i}, i64 {port.elements}, i64 %at, i64 %last"
    return f"call void @turn.{side}.{port.kind}({operands})"


def _remember(slot: int, here: str) -> list[str]:
    """Where a port lies, at the start of the frame."""
    return [
        f"%port{slot} = getelementptr i8, ptr %frame, i64 {8 * slot}",
        f"store ptr {here}, ptr %port{slot}",
    ]


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
