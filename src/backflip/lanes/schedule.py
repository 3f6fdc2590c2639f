"""The order of instructions: each as late as its first use allows, so that few values wait at a time.

Arrays are computed element after element, all elements of one operation before the next: hundreds of values
would be alive at once, and a register allocator spends most of its time on them. Here every result pulls
what it needs, depth first, and what nobody needs never comes.
"""

import re
from collections.abc import Iterator

_NAME = re.compile(r"%v\d+")
_POINTER = re.compile(r"ptr (%[\w.]+)")


def schedule(lines: list[str]) -> list[str]:
    """The same program; values move only within their own block."""
    blocks = list(_blocks(_needed(lines)))
    used = [{name for line in block for name in _NAME.findall(_split(line)[1])} for block in blocks]
    ordered: list[str] = []
    for i, block in enumerate(blocks):
        later = set().union(*used[i + 1 :])
        ordered += _pull(block, later)
    return ordered


def _needed(lines: list[str]) -> list[str]:
    """The lines without those whose value nobody uses."""
    used: set[str] = set()
    kept = []
    for line in reversed(lines):
        name, text = _split(line)
        if name is None or name in used:
            used.update(_NAME.findall(text))
            kept.append(line)
    return kept[::-1]


def _split(line: str) -> tuple[str | None, str]:
    """The name that a line gives a value, if it has no other effect, and the rest."""
    name, equals, text = line.partition(" = ")
    pure = equals and name.startswith("%v") and "@llvm.masked" not in text
    return (name, text) if pure else (None, line)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Lines from one label to the next."""
    start = 0
    for i, line in enumerate(lines):
        if line.endswith(":"):
            yield lines[start:i]
            start = i
    yield lines[start:]


def _pull(block: list[str], later: set[str]) -> list[str]:
    """Effects in their order, each after the values it needs, which come depth first; at the end those
    that are only needed later."""
    place, uses = {}, []
    for i, line in enumerate(block):
        name, text = _split(line)
        if name is not None:
            place[name] = i
        uses.append(text)
    loads, root = _loads(block)
    done = [False] * len(block)
    ordered: list[str] = []

    def bring(i: int) -> None:
        stack = [(i, False)]
        while stack:
            at, ready = stack.pop()
            if done[at]:
                continue
            if ready:
                done[at] = True
                ordered.append(block[at])
                continue
            stack.append((at, True))
            needs = (place.get(name, at) for name in _NAME.findall(uses[at]))
            stack += [(need, False) for need in needs if need != at and not done[need]]

    for i, line in enumerate(block):
        if i == len(block) - 1:
            for name in place:
                if name in later:
                    bring(place[name])
        if _split(line)[0] is None:
            # what was read from an area before this write to it must not be read after
            for load in loads.get(_area(line, root), []) if line.startswith("store") else ():
                if load < i:
                    bring(load)
            bring(i)
    return ordered


def _loads(block: list[str]) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Loads of a block by the area they read, and areas by the names of addresses in them."""
    root: dict[str, str] = {}
    found: dict[str, list[int]] = {}
    for i, line in enumerate(block):
        name, equals, text = line.partition(" = ")
        if equals and text.startswith(("getelementptr", "load")):
            base = _POINTER.findall(text)[-1]
            area = root.get(base, base)
            if text.startswith("load"):
                found.setdefault(area, []).append(i)
            else:
                root[name] = area
    return found, root


def _area(line: str, root: dict[str, str]) -> str:
    base = _POINTER.findall(line)[-1]
    return root.get(base, base)
