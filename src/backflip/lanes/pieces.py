"""A long program cut into functions that LLVM compiles in a time that grows with their number.

Register allocation of one function takes more than linear time. Values that one piece computes and another
uses wait in memory, the frame; most of them would have to anyway. A short loop is part of a piece, a long one
is cut like the rest: its turns are counted by a stage, which calls all its pieces in order.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from backflip.lanes.text import VALUE, Line

LENGTH = 700
"""Instructions of a piece, about"""
WHOLE = 12_000
"""Instructions of a loop that is not cut: its values may stay in registers"""
REACH = 50
"""Instructions over which a value from memory stays in a register, at most"""
ALIGN = 64
"""[bytes] of arrays in the frame: the widest vector"""

_INDEX = re.compile(r"%i\d+")
_PLACE = re.compile(r"%(?:area|in|out|wanting)\d+")
_TYPE = re.compile(r"<\d+ x \w+>|\b(?:float|double|ptr|i\d+)\b")


class Pieces(NamedTuple):
    """Functions @piece0 ..., and the order in which they make the whole program."""

    functions: list[str]
    order: list["_Turn | str"]
    frame: int
    """[bytes]"""
    areas: dict[str, int]
    """where they lie in the frame"""

    def stages(self) -> list[str]:
        """@stage0(ptr frame) ...: each piece in turn."""
        stages: list[list[str]] = [[]]
        for part in self.order:
            if isinstance(part, str):
                stages[-1].append(f"call void {part}(ptr %frame)")
            elif part.line.startswith("stage"):
                stages.append([])
            else:
                stages[-1] += part.lines()
        return [_stage(i, lines) for i, lines in enumerate(stages)]


def _stage(i: int, lines: list[str]) -> str:
    body = "\n  ".join([*lines, "ret void"])
    return f"define internal void @stage{i}(ptr noalias %frame) nounwind {{\nentry:\n  {body}\n}}"


def cut(lines: list[Line], ports: list[str], areas: dict[str, int]) -> Pieces:
    """`ports` are names of pointers that lie at the start of the frame; `areas` bytes by name follow."""
    parts = list(_parts(lines))
    named = {line.place.area for line in lines if line.place}
    frame = _Frame(ports, {name: size for name, size in areas.items() if name in named})
    writer = _Writer(parts, frame)
    texts: list[str] = []
    order: list[_Turn | str] = []
    for part in parts:
        if isinstance(part, str):
            order.append(_turn(part, frame))
        else:
            order.append(f"@piece{len(texts)}")
            texts.append(writer.piece(part))
    return Pieces(texts, order, up(frame.size), frame.areas)


def _parts(lines: list[Line]) -> Iterator[list[Line] | str]:
    """Pieces, and between them the lines that turn the loops that are cut."""
    ends = {line.text: i for i, line in enumerate(lines) if line.text.startswith("done")}
    piece: list[Line] = []
    whole = 0
    for i, line in enumerate(lines):
        text = line.text
        if text.startswith("br label %pre") and i >= whole:
            end = ends[text.replace("br label %pre", "done") + ":"]
            whole = end + 1 if end - i <= WHOLE else 0
        if i >= whole and (text.endswith(":") or text.startswith(("br", "%i", "%next", "%more"))):
            if piece:
                yield piece
            piece = []
            yield text
            continue
        piece.append(line)
        if i + 1 >= whole and len(piece) >= LENGTH:
            yield piece
            piece = []
    if piece:
        yield piece


def _deaths(parts: list[list[Line] | str]) -> dict[str, int]:
    """By name, the last piece that needs a value: one made before a loop and used in it, the loop's last."""
    last: dict[str, int] = {}
    born: dict[str, int] = {}
    count = 0
    loops: list[tuple[int, set[str]]] = []  # the first piece of every loop that is open, and what it uses
    for part in parts:
        if not isinstance(part, str):
            born |= dict.fromkeys((line.name for line in part if line.name), count)
            used = {name for line in part for name in line.uses}
            last |= dict.fromkeys(used, count)
            count += 1
            for _, uses in loops:
                uses |= used
        elif part.startswith("pre"):
            loops.append((count, set()))
        elif part.startswith("done"):
            first, uses = loops.pop()
            last |= dict.fromkeys((name for name in uses if born[name] < first), count - 1)
        else:
            last |= dict.fromkeys(VALUE.findall(part), count)
    return last


class _Turn(NamedTuple):
    """A line that turns a loop: pieces find its index in the frame, and it finds there what they decide."""

    line: str
    at: int | None
    """where in the frame"""

    def lines(self) -> list[str]:
        """With what it has to do with the frame."""
        if self.at is None:
            return [self.line]
        going = self.line.startswith("br")
        name = VALUE.findall(self.line)[0] if going else self.line.partition(" = ")[0]
        place = f"{name}.at = getelementptr i8, ptr %frame, i64 {self.at}"
        if going:
            return [place, f"{name} = load i1, ptr {name}.at", self.line]
        return [self.line, place, f"store i64 {name}, ptr {name}.at"]


def _turn(line: str, frame: "_Frame") -> _Turn:
    if line.startswith("%i"):
        return _Turn(line, frame.index(line.partition(" = ")[0]))
    decided = VALUE.findall(line)
    return _Turn(line, frame.waiting[decided[0]][0] if decided else None)


class _Frame:
    """Where everything lies."""

    def __init__(self, ports: list[str], areas: dict[str, int]):
        self.ports = {name: 8 * i for i, name in enumerate(ports)}
        self.size = up(8 * len(ports))
        self.areas = {}
        for name, size in areas.items():
            self.areas[name] = self.size
            self.size += up(size)
        self.indices: dict[str, int] = {}
        self.waiting: dict[str, tuple[int, str]] = {}
        self.free: dict[int, list[int]] = {}

    def index(self, name: str) -> int:
        """Where the index of a loop lies."""
        if name not in self.indices:
            self.indices[name] = up(self.size, 8)
            self.size = self.indices[name] + 8
        return self.indices[name]

    def reserve(self, name: str, kind: str) -> int:
        """Room for a value until `release`."""
        size = _bytes(kind)
        if self.free.get(size):
            at = self.free[size].pop()
        else:
            at = up(self.size, min(size, ALIGN))
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


def up(size: int, align: int = ALIGN) -> int:
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


class _Writer:
    """Writes pieces, one after the other."""

    def __init__(self, parts: list[list[Line] | str], frame: _Frame):
        self.frame, self.last = frame, _deaths(parts)
        self.dying: dict[int, list[str]] = {}
        """values that wait, by the last piece that needs them"""
        self.again = _again([line for part in parts if not isinstance(part, str) for line in part])
        self.count = 0
        self.body: list[str] = []
        self.here: dict[str, str] = {}

    def piece(self, lines: list[Line]) -> str:
        """One function: values in memory are read where they are used, others stored as they come.

        LLVM would read all it can at the start, and put aside what it has no register for. Fences, which are
        no instructions, prevent that.
        """
        i, self.count = self.count, self.count + 1
        self.body, self.here, length = [], {}, 0
        for line in lines:
            label = line.text.endswith(":")
            if label or length >= REACH:
                self.here, length = {}, 0
                self.body += [] if label else ['fence syncscope("singlethread") seq_cst']
            length += not label
            self.body.append(self._renamed(line.text, line.uses))
            if line.name:
                self.here[line.name] = line.name
                if self.last.get(line.name, i) > i and line.name not in self.again:
                    self.body += _leave(line.name, line.rest, self.frame)
                    self.dying.setdefault(self.last[line.name], []).append(line.name)
        self.frame.release(self.dying.pop(i, []))
        opened = self.frame.open("\n".join(self.body))
        text = "\n  ".join([*opened, *self.body, "ret void"])
        return f"define void @piece{i}(ptr noalias %frame) nounwind {{\nentry:\n  {text}\n}}"

    def _renamed(self, text: str, uses: list[str]) -> str:
        """The text with the names by which values are known here."""
        names = {name: self._find(name) for name in uses}
        if all(name == here for name, here in names.items()):
            return text
        return VALUE.sub(lambda match: names.get(match[0], match[0]), text)

    def _find(self, name: str) -> str:
        """The name by which a value is known here; it is made again or fetched if need be."""
        if name not in self.here:
            elsewhere = name in self.again or name in self.frame.waiting
            self.here[name] = f"{name}.{len(self.body)}" if elsewhere else name
            if name in self.again:
                line = self.again[name]
                self.body.append(f"{self.here[name]} = {self._renamed(line.rest, line.uses)}")
            elif elsewhere:
                self.body += _fetch(self.here[name], *self.frame.waiting[name])
        return self.here[name]


def _again(lines: list[Line]) -> dict[str, Line]:
    """Values that are as cheap to make again as to store: what is read from memory that nobody writes any
    more, and addresses there."""
    written = {line.place.area: i for i, line in enumerate(lines) if line.place and line.writes}
    cheap: dict[str, Line] = {}
    for i, line in enumerate(lines):
        if not line.place or not line.rest.startswith(("getelementptr", "load <")):
            continue
        fixed = all(v in cheap for v in line.uses) and not _INDEX.search(line.rest)
        if fixed and (line.rest.startswith("getelementptr") or written.get(line.place.area, -1) < i):
            cheap[line.name] = line
    return cheap


def _fetch(here: str, at: int, kind: str) -> list[str]:
    """A value of that kind from a place in the frame."""
    place = f"{here}.at = getelementptr i8, ptr %frame, i64 {at}"
    align = min(_bytes(kind), ALIGN)
    if not kind.endswith("i1>"):
        return [place, f"{here} = load {kind}, ptr {here}.at, align {align}"]
    wide = kind.replace("i1", "i8")
    return [
        place,
        f"{here}.byte = load {wide}, ptr {here}.at, align {align}",
        f"{here} = icmp ne {wide} {here}.byte, zeroinitializer",
    ]


def _leave(name: str, text: str, frame: _Frame) -> list[str]:
    kind = _type(text)
    align = min(_bytes(kind), ALIGN)
    place = f"{name}.to = getelementptr i8, ptr %frame, i64 {frame.reserve(name, kind)}"
    if not kind.endswith("i1>"):
        return [place, f"store {kind} {name}, ptr {name}.to, align {align}"]
    wide = kind.replace("i1", "i8")
    return [
        place,
        f"{name}.byte = zext {kind} {name} to {wide}",
        f"store {wide} {name}.byte, ptr {name}.to, align {align}",
    ]
