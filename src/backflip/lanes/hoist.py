"""What a loop would compute anew in every turn, though it never changes, is computed before it.

A scan that is written out inside a loop, as rows are inside a sweep, computes much from constants only.
Reading memory is left where it is: a value from before the loop would be read from memory too.
"""

import re

from backflip.lanes.text import Line

_INDEX = re.compile(r"%i(\d+)")
_CHEAP = ("load", "getelementptr", "insertelement", "shufflevector", "zext", "icmp", "fcmp", "and", "or")
"""Instructions that move only together with one that needs them: reads, addresses, and masks, which are
costlier to store than to compare again"""


def hoist(lines: list[Line]) -> list[Line]:
    """The same program; inner loops first, so that a value can leave several."""
    open_loops: list[int] = []
    done: list[Line] = []
    for line in lines:
        if line.text.startswith("br label %pre"):
            open_loops.append(len(done))
        done.append(line)
        if line.text.startswith("done") and line.text.endswith(":"):
            start = open_loops.pop()
            done[start:] = _lift(done[start:])
    return done


def _lift(loop: list[Line]) -> list[Line]:
    """One loop, from the branch to it to the label behind it, after what does not change in it."""
    written = {line.place.area for line in loop if line.place and line.writes}
    inside = {line.text[3:-1] for line in loop if line.text.startswith("pre") and line.text.endswith(":")}
    varying: set[str] = set()
    fixed: dict[str, Line] = {}
    for line in loop:
        if not line.pure:
            varying.add(line.name)
            continue
        turns = "%i" in line.rest and any(n in inside for n in _INDEX.findall(line.rest))
        changes = line.place and line.reads and line.place.area in written
        if turns or changes or not varying.isdisjoint(line.uses):
            varying.add(line.name)
        else:
            fixed[line.name] = line
    wanted = [name for name, line in fixed.items() if not line.rest.startswith(_CHEAP)]
    leaving: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in leaving:
            leaving.add(name)
            wanted += [v for v in fixed[name].uses if v in fixed]
    out = [line for line in loop if line.name in leaving]
    return out + [line for line in loop if line.name not in leaving]
