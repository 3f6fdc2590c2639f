"""A long program cut into functions that LLVM compiles in a time that grows with their number.

Register allocation of one function takes more than linear time. Values that one piece computes and another
uses wait in memory, the frame; most of them would have to anyway. Loops stay whole.
"""

import re
from typing import NamedTuple

from backflip.lanes.emit import Uncovered

LENGTH = 2000
"""Instructions of a piece, about"""
MOST_FRAME = 4 << 20
"""[bytes] what the stack of a thread can surely hold"""
ALIGN = 64
"""[bytes] of everything in the frame: the widest vector"""

_NAME = re.compile(r"%v\d+")
_PLACE = re.compile(r"%(?:area|in|out)\d+")
_TYPE = re.compile(r"<\d+ x \w+>|\b(?:float|double|ptr|i\d+)\b")


class Pieces(NamedTuple):
    """Functions @piece0 ... of the frame, to be called one after the other."""

    text: str
    number: int
    frame: int
    """[bytes]"""


def cut(lines: list[str], ports: list[str], areas: dict[str, int]) -> Pieces:
    """`ports` are names of pointers that lie at the start of the frame; `areas` bytes by name follow."""
    frame = _Frame(ports, areas)
    pieces = list(_straight(lines))
    made, last = _births(pieces), _deaths(pieces)
    texts = [_piece(i, piece, frame, made, last) for i, piece in enumerate(pieces)]
    if frame.size > MOST_FRAME:
        raise Uncovered(f"a program that needs {frame.size >> 20} MB for one vector of robots")
    return Pieces("\n".join(texts), len(pieces), frame.size)


def _straight(lines: list[str]):
    """Runs of lines that end outside of loops."""
    depth, start = 0, 0
    for i, line in enumerate(lines):
        if line.endswith(":"):
            depth += line.startswith("pre") - line.startswith("done")
        elif depth == 0 and i - start >= LENGTH and not line.startswith("br"):
            yield lines[start : i + 1]
            start = i + 1
    yield lines[start:]


def _births(pieces: list[list[str]]) -> dict[str, tuple[int, str]]:
    """By name, the piece that makes a value and how."""
    found = {}
    for i, piece in enumerate(pieces):
        for line in piece:
            name, equals, text = line.partition(" = ")
            if equals and name.startswith("%v"):
                found[name] = (i, text)
    return found


def _deaths(pieces: list[list[str]]) -> dict[str, int]:
    """By name, the last piece that uses a value."""
    return {name: i for i, piece in enumerate(pieces) for line in piece for name in _NAME.findall(line)}


class _Frame:
    """Where everything lies."""

    def __init__(self, ports: list[str], areas: dict[str, int]):
        self.ports = {name: 8 * i for i, name in enumerate(ports)}
        self.size = _up(8 * len(ports))
        self.areas = {}
        for name, size in areas.items():
            self.areas[name] = self.size
            self.size += _up(size)
        self.waiting: dict[str, tuple[int, str]] = {}
        self.free: dict[int, list[int]] = {}

    def keep(self, name: str, kind: str) -> int:
        """Room for a value until `release`."""
        size = _bytes(kind)
        if self.free.get(size):
            at = self.free[size].pop()
        else:
            at, self.size = self.size, self.size + size
        self.waiting[name] = (at, kind)
        return at

    def release(self, names: list[str]) -> None:
        """Values that nobody needs any more."""
        for name in names:
            at, kind = self.waiting.pop(name)
            self.free.setdefault(_bytes(kind), []).append(at)

    def open(self, text: str) -> list[str]:
        """Lines that find the ports and areas that `text` names."""
        lines = []
        for name in sorted(set(_PLACE.findall(text))):
            if name in self.areas:
                lines.append(f"{name} = getelementptr i8, ptr %frame, i64 {self.areas[name]}")
            else:
                lines.append(f"{name}.at = getelementptr i8, ptr %frame, i64 {self.ports[name]}")
                lines.append(f"{name} = load ptr, ptr {name}.at, !invariant.load !0")
        return lines


def _up(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _bytes(kind: str) -> int:
    """Of a value in the frame."""
    count, of = re.fullmatch(r"(?:<(\d+) x )?(\w+)>?", kind).groups()  # type: ignore[union-attr]
    size = {"float": 4, "double": 8, "ptr": 8, "i1": 1}.get(of) or int(of[1:]) // 8
    return _up(size * int(count or 1))


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
        for used in _NAME.findall(text if owned else line):
            if used not in here and made[used][0] < i:
                loads += _fetch(used, frame, made, here)
        if owned:
            here.add(name)
        body.append(line)
        if owned and last.get(name, i) > i and not _again(text):
            body += _leave(name, text, frame)
    frame.release([name for name in frame.waiting if last[name] <= i])
    # a value from before may be first used inside a loop that comes round: it is loaded ahead of it
    text = "\n  ".join([*_places_first(frame, [*loads, *body]), *loads, *body, "ret void"])
    return f"define internal void @piece{i}(ptr noalias %frame) nounwind {{\nentry:\n  {text}\n}}"


def _places_first(frame: _Frame, lines: list[str]) -> list[str]:
    return frame.open("\n".join(lines))


def _again(text: str) -> bool:
    """Whether a value is as cheap to make again as to keep: an address of something in the frame."""
    return text.startswith("getelementptr") and not _NAME.search(text)


def _fetch(name: str, frame: _Frame, made: dict[str, tuple[int, str]], here: set[str]) -> list[str]:
    here.add(name)
    text = made[name][1]
    if _again(text):
        return [f"{name} = {text}"]
    at, kind = frame.waiting[name]
    place = f"{name}.at = getelementptr i8, ptr %frame, i64 {at}"
    if not kind.endswith("i1>"):
        return [place, f"{name} = load {kind}, ptr {name}.at, align {ALIGN}"]
    wide = kind.replace("i1", "i8")
    return [
        place,
        f"{name}.byte = load {wide}, ptr {name}.at, align {ALIGN}",
        f"{name} = icmp ne {wide} {name}.byte, zeroinitializer",
    ]


def _leave(name: str, text: str, frame: _Frame) -> list[str]:
    kind = _type(text)
    place = f"{name}.to = getelementptr i8, ptr %frame, i64 {frame.keep(name, kind)}"
    if not kind.endswith("i1>"):
        return [place, f"store {kind} {name}, ptr {name}.to, align {ALIGN}"]
    wide = kind.replace("i1", "i8")
    return [
        place,
        f"{name}.byte = zext {kind} {name} to {wide}",
        f"store {wide} {name}.byte, ptr {name}.to, align {ALIGN}",
    ]
