"""What a run leaves behind, and what it shows while it goes on.

comes in    pytrees of arrays, rows of figures
goes out    files written whole or not at all, lines on stderr
may touch   files, clocks, the terminal
never knows physics, policies, what the figures mean
"""

from backflip.storage.files import write_atomically
from backflip.storage.logbook import Logbook
from backflip.storage.progress import Progress, Task
from backflip.storage.weights import load_weights, save_weights

__all__ = ["Logbook", "Progress", "Task", "load_weights", "save_weights", "write_atomically"]
