"""The order of instructions: each as late as its first use allows, so that few values wait at a time.

Arrays are computed element after element, all elements of one operation before the next: hundreds of values
would be alive at once, and a register allocator spends most of its time on them. Here every result pulls
what it needs, depth first, and what nobody needs never comes.
"""

from collections.abc import Iterator

from backflip.lanes.hoist import hoist
from backflip.lanes.text import VALUE, Place, made_by, place_of, places_of


def schedule(lines: list[str]) -> list[str]:
    """The same program; values move only within their own block."""
    blocks = list(_blocks(hoist(_needed(lines))))
    used = [{name for line in block for name in VALUE.findall(made_by(line)[1])} for block in blocks]
    ordered: list[str] = []
    for i, block in enumerate(blocks):
        later = set().union(*used[i + 1 :])
        ordered += _pull(block, later)
    return ordered


def _needed(lines: list[str]) -> list[str]:
    """The lines without those whose value nobody uses, be it in memory.

    A loop may add up, turn by turn, what is asked of some elements only; nobody reads the others but itself.
    """
    places = places_of(lines)
    makers: dict[str, int] = {}
    writers: dict[str, dict[str | None, list[int]]] = {}
    for i, line in enumerate(lines):
        name, _ = made_by(line)
        if name is not None:
            makers[name] = i
        elif line.startswith("store") and (place := place_of(line, places)).area.startswith("%area"):
            writers.setdefault(place.area, {}).setdefault(place.element, []).append(i)
    put = {i for area in writers.values() for wrote in area.values() for i in wrote}
    wanted = [i for i, line in enumerate(lines) if made_by(line)[0] is None and i not in put]
    kept = [False] * len(lines)
    while wanted:
        i = wanted.pop()
        if kept[i]:
            continue
        kept[i] = True
        _, text = made_by(lines[i])
        wanted += [makers[v] for v in VALUE.findall(text) if v in makers]
        if text.startswith("load") or "@llvm.masked.gather" in text:
            place = place_of(text, places)
            wrote = writers.get(place.area, {})
            for element in wrote if place.element is None else (place.element, None):
                wanted += wrote.get(element, [])
    return [line for line, keep in zip(lines, kept, strict=True) if keep]


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
    makers: dict[str, int] = {}
    needs: list[list[int]] = []
    height: list[int] = []
    for i, line in enumerate(block):
        name, text = made_by(line)
        # the last of them comes first: what waits longest should be what was longest in the making
        found = dict.fromkeys(makers[v] for v in VALUE.findall(text) if v in makers)
        needs.append(sorted(found, key=height.__getitem__))
        height.append(1 + height[needs[-1][-1]] if needs[-1] else 0)
        if name is not None:
            makers[name] = i
    places = places_of(block)
    loads = _loads(block, places)
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
            stack += [(need, False) for need in needs[at] if not done[need]]

    for i, line in enumerate(block):
        if i == len(block) - 1:
            for name in makers:
                if name in later:
                    bring(makers[name])
        if made_by(line)[0] is None:
            # what was read from an area before this write to it must not be read after
            for load in loads.get(place_of(line, places).area, []) if line.startswith("store") else ():
                if load < i:
                    bring(load)
            bring(i)
    return ordered


def _loads(block: list[str], places: dict[str, Place]) -> dict[str, list[int]]:
    """Loads of a block by the area they read."""
    found: dict[str, list[int]] = {}
    for i, line in enumerate(block):
        text = line.partition(" = ")[2]
        if text.startswith("load"):
            found.setdefault(place_of(text, places).area, []).append(i)
    return found
