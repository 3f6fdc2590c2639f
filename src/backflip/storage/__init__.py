"""What a run writes to disk, and what it shows while it goes on.

comes in    pytrees of arrays, rows of figures
goes out    files written whole or not at all, lines on stderr
may touch   files, clocks, the terminal
never knows physics, policies, what the figures mean
"""

from backflip.storage.checkpoint import has_checkpoint, load_checkpoint, remove_checkpoints, save_checkpoint
from backflip.storage.files import (
    DamagedFile,
    MisfitFile,
    clear_folder,
    hold_folder,
    remove_folder,
    write_atomically,
)
from backflip.storage.logbook import Logbook, read_log
from backflip.storage.progress import Progress, Task
from backflip.storage.weights import load_weights, save_weights

__all__ = [
    "DamagedFile",
    "Logbook",
    "MisfitFile",
    "Progress",
    "Task",
    "clear_folder",
    "has_checkpoint",
    "hold_folder",
    "load_checkpoint",
    "load_weights",
    "read_log",
    "remove_checkpoints",
    "remove_folder",
    "save_checkpoint",
    "save_weights",
    "write_atomically",
]
