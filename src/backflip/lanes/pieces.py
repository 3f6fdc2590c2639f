"""A long program cut into functions that LLVM compiles in a time that grows with their number.

Register allocation of one function takes more than linear time. Values that one piece computes and another
uses wait in memory, the frame; most of them would have to anyway. A short loop is part of a piece, a long one
is cut like the rest: its turns are counted by @run1, or @run2, ..., which call all pieces in order.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from backflip.lanes.text import VALUE

LENGTH = 700
"""Instructions of a piece, about"""
WHOLE = 12_000
"""Instructions of a loop that is not cut: its values may stay in registers"""
ALIGN = 64
"""[bytes] of arrays in the frame: the widest vector"""

_INDEX = re.compile(r"%i\d+")
_PLACE = re.compile(r"%(?:area|in|out)\d+")
_TYPE = re.compile(r"<\d+ x \w+>|\b(?:float|double|ptr|i\d+)\b")


class Pieces(NamedTuple):
    """Functions @piece0 ..., and the order in which they make the whole program."""

    functions: list[str]
    order: list["_Turn | str"]
    frame: int
    """[bytes] of one vector"""

    def run(self, vectors: int) -> str:
        """@run1(ptr frames) for one vector of robots, @run2 for two, ...: each piece for all of them in turn.

        Their frames lie one after the other.
        """
        lines = [f"%frame{n} = getelementptr i8, ptr %frames, i64 {n * self.frame}" for n in range(vectors)]
        for part in self.order:
            if isinstance(part, str):
                lines += [f"call void {part}(ptr %frame{n})" for n in range(vectors)]
            else:
                lines += part.lines(vectors)
        body = "\n  ".join([*lines, "ret void"])
        return f"define internal void @run{vectors}(ptr noalias %frames) nounwind {{\nentry:\n  {body}\n}}"


def cut(lines: list[str], ports: list[str], areas: dict[str, int]) -> Pieces:
    """`ports` are names of pointers that lie at the start of the frame; `areas` bytes by name follow."""
    parts = list(_parts(lines))
    pieces = [part for part in parts if not isinstance(part, str)]
    named = set(_PLACE.findall("\n".join(lines)))
    frame = _Frame(ports, {name: size for name, size in areas.items() if name in named})
    made = _births(pieces)
    last = _deaths(parts, made)
    texts: list[str] = []
    order: list[_Turn | str] = []
    for part in parts:
        if isinstance(part, str):
            order.append(_turn(part, frame))
        else:
            order.append(f"@piece{len(texts)}")
            texts.append(_piece(len(texts), part, frame, made, last))
    return Pieces(texts, order, _up(frame.size))


def _parts(lines: list[str]) -> Iterator[list[str] | str]:
    """Pieces, and between them the lines that turn the loops that are cut."""
    ends = {line: i for i, line in enumerate(lines) if line.startswith("done")}
    piece: list[str] = []
    whole = 0
    for i, line in enumerate(lines):
        if line.startswith("br label %pre") and i >= whole:
            end = ends[line.replace("br label %pre", "done") + ":"]
            whole = end + 1 if end - i <= WHOLE else 0
        if i >= whole and (line.endswith(":") or line.startswith(("br", "%i", "%next", "%more"))):
            if piece:
                yield piece
            piece = []
            yield line
            continue
        piece.append(line)
        if i + 1 >= whole and len(piece) >= LENGTH:
            yield piece
            piece = []
    if piece:
        yield piece


def _births(pieces: list[list[str]]) -> dict[str, tuple[int, str]]:
    """By name, the piece that makes a value and how."""
    found = {}
    for i, piece in enumerate(pieces):
        for line in piece:
            name, equals, text = line.partition(" = ")
            if equals and name.startswith("%v"):
                found[name] = (i, text)
    return found


def _deaths(parts: list[list[str] | str], made: dict[str, tuple[int, str]]) -> dict[str, int]:
    """By name, the last piece that needs a value: one made before a loop and used in it, the loop's last."""
    found: dict[str, int] = {}
    count = 0
    loops: list[tuple[int, set[str]]] = []  # the first piece of every loop that is open, and what it uses
    for part in parts:
        if not isinstance(part, str):
            used = {name for line in part for name in VALUE.findall(line)}
            found.update(dict.fromkeys(used, count))
            count += 1
            for _, uses in loops:
                uses |= used
        elif part.startswith("pre"):
            loops.append((count, set()))
        elif part.startswith("done"):
            first, uses = loops.pop()
            found.update(dict.fromkeys((name for name in uses if made[name][0] < first), count - 1))
        else:
            found.update(dict.fromkeys(VALUE.findall(part), count))
    return found


class _Turn(NamedTuple):
    """A line that turns a loop: pieces find its index in the frame, and it finds there what they decide."""

    line: str
    at: int | None
    """where in the frame"""

    def lines(self, vectors: int) -> list[str]:
        """For so many vectors; a loop goes on while one of them has to, and changes nothing in the others."""
        if self.at is None:
            return [self.line]
        name = VALUE.findall(self.line)[0] if self.line.startswith("br") else self.line.partition(" = ")[0]
        places = [f"{name}.at{n} = getelementptr i8, ptr %frame{n}, i64 {self.at}" for n in range(vectors)]
        if not self.line.startswith("br"):
            return [self.line, *places, *(f"store i64 {name}, ptr {name}.at{n}" for n in range(vectors))]
        loads = [f"{name}.{n} = load i1, ptr {name}.at{n}" for n in range(vectors)]
        names = [f"{name}.0", *(f"{name}.or{n}" for n in range(1, vectors))]
        either = [f"{names[n]} = or i1 {names[n - 1]}, {name}.{n}" for n in range(1, vectors)]
        return [*places, *loads, *either, self.line.replace(name, names[-1])]


def _turn(line: str, frame: "_Frame") -> _Turn:
    if line.startswith("%i"):
        return _Turn(line, frame.index(line.partition(" = ")[0]))
    decided = VALUE.findall(line)
    return _Turn(line, frame.waiting[decided[0]][0] if decided else None)


class _Frame:
    """Where everything lies."""

    def __init__(self, ports: list[str], areas: dict[str, int]):
        self.ports = {name: 8 * i for i, name in enumerate(ports)}
        self.size = _up(8 * len(ports))
        self.areas = {}
        for name, size in areas.items():
            self.areas[name] = self.size
            self.size += _up(size)
        self.indices: dict[str, int] = {}
        self.waiting: dict[str, tuple[int, str]] = {}
        self.free: dict[int, list[int]] = {}

    def index(self, name: str) -> int:
        """Where the index of a loop lies."""
        if name not in self.indices:
            self.indices[name] = _up(self.size, 8)
            self.size = self.indices[name] + 8
        return self.indices[name]

    def keep(self, name: str, kind: str) -> int:
        """Room for a value until `release`."""
        size = _bytes(kind)
        if self.free.get(size):
            at = self.free[size].pop()
        else:
            at = _up(self.size, min(size, ALIGN))
            self.size = at + size
        self.waiting[name] = (at, kind)
        return at

    def release(self, names: list[str]) -> None:
        """Values that nobody needs any more."""
        for name in names:
            at, kind = self.waiting.pop(name)
            self.free.setdefault(_bytes(kind), []).append(at)

    def open(self, text: str) -> list[str]:
        """Lines that find the ports, areas and indices of loops around it that `text` names."""
        lines = []
        for name in sorted(set(_PLACE.findall(text))):
            if name in self.areas:
                lines.append(f"{name} = getelementptr i8, ptr %frame, i64 {self.areas[name]}")
            else:
                lines.append(f"{name}.at = getelementptr i8, ptr %frame, i64 {self.ports[name]}")
                lines.append(f"{name} = load ptr, ptr {name}.at, !invariant.load !0")
        for name in sorted(set(_INDEX.findall(text)) & self.indices.keys()):
            lines.append(f"{name}.at = getelementptr i8, ptr %frame, i64 {self.indices[name]}")
            lines.append(f"{name} = load i64, ptr {name}.at")
        return lines


def _up(size: int, align: int = ALIGN) -> int:
    return -(-size // align) * align


@cache
def _bytes(kind: str) -> int:
    """Of a value in the frame."""
    count, of = re.fullmatch(r"(?:<(\d+) x )?(\w+)>?", kind).groups()  # type: ignore[union-attr]
    size = {"float": 4, "double": 8, "ptr": 8, "i1": 1}.get(of) or int(of[1:]) // 8
    return size * int(count or 1)


def _type(text: str) -> str:
    """The type of what an instruction makes."""
    types = _TYPE.findall(text)
    if text.startswith(("fcmp", "icmp")):
        return re.sub(r"\w+>$", "i1>", types[0]) if types[0].startswith("<") else "i1"
    if text.startswith("select"):
        return types[1]
    if text.startswith("getelementptr"):
        return types[-1].replace("i64", "ptr") if types[-1].startswith("<") else "ptr"
    return types[-1] if " to " in text else types[0]


def _piece(
    i: int, lines: list[str], frame: _Frame, made: dict[str, tuple[int, str]], last: dict[str, int]
) -> str:
    """One function: values from before are loaded where they are first used, others stored as they come."""
    body: list[str] = []
    here: set[str] = set()
    loads: list[str] = []
    for line in lines:
        name, equals, text = line.partition(" = ")
        owned = equals and name.startswith("%v")
        for used in VALUE.findall(text if owned else line):
            if used not in here and made[used][0] < i:
                loads += _fetch(used, frame, made, here)
        if owned:
            here.add(name)
        body.append(line)
        if owned and last.get(name, i) > i and not _again(text):
            body += _leave(name, text, frame)
    frame.release([name for name in frame.waiting if last[name] <= i])
    # a value from before may be first used inside a loop that comes round: it is loaded ahead of it
    opened = frame.open("\n".join([*loads, *body]))
    text = "\n  ".join([*opened, *loads, *body, "ret void"])
    return f"define void @piece{i}(ptr noalias %frame) nounwind {{\nentry:\n  {text}\n}}"


def _again(text: str) -> bool:
    """Whether a value is as cheap to make again as to keep: an address of something in the frame."""
    return text.startswith("getelementptr") and not VALUE.search(text)


def _fetch(name: str, frame: _Frame, made: dict[str, tuple[int, str]], here: set[str]) -> list[str]:
    here.add(name)
    text = made[name][1]
    if _again(text):
        return [f"{name} = {text}"]
    at, kind = frame.waiting[name]
    place = f"{name}.at = getelementptr i8, ptr %frame, i64 {at}"
    align = min(_bytes(kind), ALIGN)
    if not kind.endswith("i1>"):
        return [place, f"{name} = load {kind}, ptr {name}.at, align {align}"]
    wide = kind.replace("i1", "i8")
    return [
        place,
        f"{name}.byte = load {wide}, ptr {name}.at, align {align}",
        f"{name} = icmp ne {wide} {name}.byte, zeroinitializer",
    ]


def _leave(name: str, text: str, frame: _Frame) -> list[str]:
    kind = _type(text)
    align = min(_bytes(kind), ALIGN)
    place = f"{name}.to = getelementptr i8, ptr %frame, i64 {frame.keep(name, kind)}"
    if not kind.endswith("i1>"):
        return [place, f"store {kind} {name}, ptr {name}.to, align {align}"]
    wide = kind.replace("i1", "i8")
    return [
        place,
        f"{name}.byte = zext {kind} {name} to {wide}",
        f"store {wide} {name}.byte, ptr {name}.to, align {align}",
    ]
