"""What a loop would compute anew in every turn, though it never changes, is computed before it.

A scan that is written out inside a loop, as rows are inside a sweep, computes much from constants alone.
Reading memory is left where it is: a value from before the loop would be read from memory too.
"""

import re

from backflip.lanes.text import VALUE, Place, made_by, place_of, places_of

_INDEX = re.compile(r"%i(\d+)")
_CHEAP = ("load", "getelementptr", "insertelement", "shufflevector", "zext", "icmp", "fcmp", "and", "or")
"""Instructions that move only together with one that needs them: reads, addresses, and masks, which are
costlier to keep than to compare again"""


def hoist(lines: list[str]) -> list[str]:
    """The same program; inner loops first, so that a value can leave several."""
    open_loops: list[int] = []
    done: list[str] = []
    places = places_of(lines)
    for line in lines:
        if line.startswith("br label %pre"):
            open_loops.append(len(done))
        done.append(line)
        if line.startswith("done") and line.endswith(":"):
            start = open_loops.pop()
            done[start:] = _lift(done[start:], places)
    return done


def _lift(loop: list[str], places: dict[str, Place]) -> list[str]:
    """One loop, from the branch to it to the label behind it, after what does not change in it."""
    writes = (line for line in loop if line.startswith("store") or "@llvm.masked.scatter" in line)
    written = {place_of(line, places).area for line in writes}
    inside = {line[3:-1] for line in loop if line.startswith("pre") and line.endswith(":")}
    varying: set[str] = set()
    fixed: dict[str, str] = {}
    for line in loop:
        name, text = made_by(line)
        if name is None:
            varying.update(VALUE.findall(line.partition(" = ")[0]))
            continue
        turns = any(n in inside for n in _INDEX.findall(text))
        changes = text.startswith("load") and place_of(text, places).area in written
        if turns or changes or any(v in varying for v in VALUE.findall(text)):
            varying.add(name)
        else:
            fixed[name] = text
    wanted = [name for name, text in fixed.items() if not text.startswith(_CHEAP)]
    leaving: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in leaving:
            leaving.add(name)
            wanted += [v for v in VALUE.findall(fixed[name]) if v in fixed]
    out = [line for line in loop if made_by(line)[0] in leaving]
    return out + [line for line in loop if made_by(line)[0] not in leaving]
