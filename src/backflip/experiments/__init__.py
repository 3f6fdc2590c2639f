"""One file, one experiment: what a paper claims, and our own certificates and benchmarks.

comes in    a folder, a seed, a Progress to report to
goes out    files in the folder, a result, Claims re-measured from the files
may touch   the public names, geometry, view, robots, storage; files and clocks
never knows how the engine works inside

Folders are by subject. An experiment is a module that fits `base.Experiment`; beside it stand the modules
that only its subject needs. What several subjects need is in this folder: claims and results (`base`), tables
(`tables`), running and measuring again (`running`), training several seeds (`training`), and whether a motion
obeys physics (`audit`).
"""

import importlib
from difflib import get_close_matches
from typing import cast

from backflip.experiments.base import Claim, Experiment, Progress, Unable

__all__ = ["NAMES", "Claim", "Experiment", "Progress", "Unable", "load", "unknown"]

FOLDERS = {
    "ball": "ball",
    "arm-fixed": "arm",
    "arm-random": "arm",
    "gait": "quadruped",
    "gait-lifelike": "quadruped",
    "gait-sensors": "quadruped",
    "push-box": "push_box",
    "chain-mass": "chain",
    "identify-robot": "quadruped",
}
"""Every experiment and the folder of its module, in the order in which they are listed and run."""
NAMES = tuple(FOLDERS)


def load(name: str) -> Experiment:
    """The experiment of that name; its module is imported only now."""
    if name not in NAMES:
        raise ValueError(unknown(name))
    module = f"backflip.experiments.{FOLDERS[name]}.{name.replace('-', '_')}"
    return cast(Experiment, importlib.import_module(module))


def unknown(name: str) -> str:
    """What to say to somebody who asks for an experiment that there is not."""
    near = get_close_matches(name, NAMES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no experiment {name!r}.{hint} Known: {', '.join(NAMES)}."
