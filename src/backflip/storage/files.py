"""Files that are written whole or not at all, and folders that one process uses at a time."""

import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DRAFT = re.compile(r"^\.(?P<name>.+)\.(?P<process>\d+)-\d+\.tmp$")
"""name of a draft: that of its file, the process and the thread"""
OLD = 60.0
"""[s] after which a draft of a process that cannot be seen is taken for left behind"""
LOCK = ".lock"
"""name of the file in a folder that its process holds"""


class DamagedFile(ValueError):
    """A file that cannot be read; the message begins with its path."""


class MisfitFile(ValueError):
    """A file that is whole, but of something else than is wanted; the message begins with its path."""

    def __init__(self, message: str, names: Sequence[str] = ()):
        super().__init__(message)
        self.names = tuple(names)
        """of the arrays that differ"""


@contextmanager
def write_atomically(path: str | Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place when the block ends well, and is on the disk by then.

    Drafts that killed processes left of the same file are removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_drafts(path.parent, path.name)
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def remove_drafts(folder: Path, name: str | None = None, *, even_new: bool = False) -> None:
    """Remove drafts of processes that no longer run, of one file or of all in a folder.

    Young ones stay, for their process may run on another machine; `even_new` is for who holds the folder.
    """
    for file in folder.iterdir():
        match = DRAFT.match(file.name)
        if not match or name not in (None, match["name"]) or _is_running(int(match["process"])):
            continue
        try:
            if even_new or time.time() - file.stat().st_mtime > OLD:
                file.unlink()
        except OSError:
            pass  # somebody else was faster, or it is not ours to remove


def _is_running(process: int) -> bool:
    if process == os.getpid() or os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def clear_folder(path: str | Path) -> Path:
    """An empty folder at `path`, whatever was there; of a symbolic link only the link is removed."""
    path = Path(path)
    remove_folder(path)
    path.mkdir(parents=True)
    return path


def remove_folder(path: Path) -> None:
    """Remove whatever is at `path`, if anything; of a symbolic link only the link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Keep every other run out of a folder until the block ends, or the process does.

    Where the file system has no locks nothing is held.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(32).strip() or "unknown"
            raise ValueError(
                f"{folder}: process {holder} is using this folder; wait for it to end, or choose another"
            ) from None
        except OSError:
            pass
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        remove_drafts(folder, even_new=True)
        yield
