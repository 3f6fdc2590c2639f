"""Checkpoints of a run: the newest, and the one before in case the newest is damaged."""

import os
import warnings
from pathlib import Path
from typing import Any

from backflip.storage.files import DamagedFile, write_atomically
from backflip.storage.weights import load_weights, write_arrays

NEWEST, OLDER = "checkpoint.npz", "checkpoint-older.npz"


def save_checkpoint(folder: Path, tree: Any) -> None:
    """Write the arrays of a pytree; what was the newest checkpoint becomes the older one."""
    newest = folder / NEWEST
    with write_atomically(newest) as draft:
        write_arrays(draft, tree)
        if newest.exists():
            os.replace(newest, folder / OLDER)


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a checkpoint, damaged or not."""
    return any((folder / name).exists() for name in (NEWEST, OLDER))


def load_checkpoint(folder: Path, like: Any) -> Any | None:
    """A pytree like `like` from the newest checkpoint that can be read; None: there is none.

    Where the newest is damaged there is a warning, and where both are, a DamagedFile.
    """
    files = [file for file in (folder / NEWEST, folder / OLDER) if file.exists()]
    damage: list[DamagedFile] = []
    for file in files:
        try:
            tree = load_weights(file, like)
        except DamagedFile as error:
            damage.append(error)
            continue
        if damage:
            warnings.warn(f"{damage[0]}; going on from the older {file.name}", stacklevel=2)
        return tree
    if damage:
        raise DamagedFile(f"{damage[0]}; remove it to begin anew") from damage[0]
    return None


def remove_checkpoints(folder: Path) -> None:
    """Forget an earlier run."""
    for name in (NEWEST, OLDER):
        (folder / name).unlink(missing_ok=True)
