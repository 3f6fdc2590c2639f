"""One file, one claim of a paper, one figure.

comes in    a folder, a seed, a Progress to report to
goes out    files in the folder, a result to keep, Claims re-measured from the files
may touch   the public backflip API, view, robots, keep; files and clocks
never knows how the engine works inside

An experiment is a module of this folder that fits `base.Experiment`.
"""

import importlib
from difflib import get_close_matches
from typing import cast

from backflip.experiments.base import Claim, Experiment, Progress

__all__ = ["NAMES", "Claim", "Experiment", "Progress", "load", "unknown"]

NAMES = (
    "ball",
    "arm-fixed",
    "arm-random",
    "gait",
    "gait-lifelike",
    "gait-sensors",
    "push-box",
    "chain-mass",
    "identify-robot",
)
"""Every experiment, in the order in which they are told and run."""


def load(name: str) -> Experiment:
    """The experiment of that name; its module is imported only now."""
    if name not in NAMES:
        raise ValueError(unknown(name))
    return cast(Experiment, importlib.import_module(f"backflip.experiments.{name.replace('-', '_')}"))


def unknown(name: str) -> str:
    """What to say to somebody who asks for an experiment that there is not."""
    near = get_close_matches(name, NAMES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"there is no experiment {name!r}.{hint} Known: {', '.join(NAMES)}."
