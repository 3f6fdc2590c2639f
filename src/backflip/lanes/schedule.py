"""The order of instructions: each as late as its first use allows, so that few values wait at a time.

Arrays are computed element after element, all elements of one operation before the next: hundreds of values
would be alive at once, and a register allocator spends most of its time on them. Here every result pulls
what it needs, depth first, and what nobody needs never comes.
"""

from collections.abc import Iterator

from backflip.lanes.hoist import hoist
from backflip.lanes.text import Line, Place, read

_Visits = dict[str, dict[str | None, list[int]]]
"""Lines that go to memory, by area and element"""


def schedule(lines: list[str]) -> list[Line]:
    """The same program; values move only within their own block."""
    blocks = list(_blocks(hoist(_needed(read(lines)))))
    used = [{name for line in block for name in line.uses} for block in blocks]
    ordered: list[Line] = []
    for i, block in enumerate(blocks):
        later = set().union(*used[i + 1 :])
        ordered += _pull(block, later)
    return ordered


def _needed(lines: list[Line]) -> list[Line]:
    """The lines without those whose value nobody uses, be it in memory.

    A loop may add up, turn by turn, what is asked of some elements only; nobody reads the others but itself.
    """
    makers = {line.name: i for i, line in enumerate(lines) if line.pure}
    writers: _Visits = {}
    wanted = []
    for i, line in enumerate(lines):
        if line.pure:
            continue
        if line.text.startswith("store") and line.place and line.place.area.startswith("%area"):
            _at(writers, line.place).append(i)
        else:
            wanted.append(i)
    needed = [False] * len(lines)
    while wanted:
        i = wanted.pop()
        if needed[i]:
            continue
        needed[i] = True
        line = lines[i]
        wanted += [makers[v] for v in line.uses if v in makers]
        if line.place and line.reads:
            wanted += _here(writers, line.place)
    return [line for line, need in zip(lines, needed, strict=True) if need]


def _at(visits: _Visits, place: Place) -> list[int]:
    """Where lines that go to a place are noted down."""
    return visits.setdefault(place.area, {}).setdefault(place.element, [])


def _here(visits: _Visits, place: Place) -> list[int]:
    """Lines that may go to a place."""
    area = visits.get(place.area, {})
    elements = area if place.element is None else (place.element, None)
    return [i for element in elements for i in area.get(element, ())]


def _blocks(lines: list[Line]) -> Iterator[list[Line]]:
    """Lines from one label to the next."""
    start = 0
    for i, line in enumerate(lines):
        if line.text.endswith(":"):
            yield lines[start:i]
            start = i
    yield lines[start:]


def _pull(block: list[Line], later: set[str]) -> list[Line]:
    """Effects in their order, each after the values it needs, which come depth first; at the end those
    that are only needed later."""
    makers: dict[str, int] = {}
    needs: list[list[int]] = []
    height: list[int] = []
    loads: _Visits = {}
    for i, line in enumerate(block):
        # the last of them comes first: what waits longest should be what was longest in the making
        sources = {makers[v]: None for v in line.uses if v in makers}
        needs.append(sorted(sources, key=height.__getitem__) if len(sources) > 1 else list(sources))
        height.append(1 + height[needs[-1][-1]] if sources else 0)
        if line.pure:
            makers[line.name] = i
            if line.place and line.reads:
                _at(loads, line.place).append(i)
    done = [False] * len(block)
    ordered: list[Line] = []

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
            stack += [(need, False) for need in needs[at] if not done[need]]

    for i, line in enumerate(block):
        if i == len(block) - 1:
            for name in makers:
                if name in later:
                    bring(makers[name])
        if not line.pure:
            # what was read from a place before this write to it must not be read after
            for load in _here(loads, line.place) if line.place and line.writes else ():
                if load < i:
                    bring(load)
            bring(i)
    return ordered
