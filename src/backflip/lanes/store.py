"""Compiled kernels, stored on disk between runs.

What is read here is later executed. So a file counts only if nobody but its owner, the current user, can
have written it, and if it is whole: all else is built anew. Trouble with the disk costs time, never the run.
"""

import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

FORMAT = 1
"""Version of the file's layout: raise it when `_header` changes, and older files are rebuilt."""

MAX_BYTES = 512 * 2**20
"""Most that is stored in all [bytes]: thousands of kernels, little beside the compiler that makes them."""

STALE = 24 * 3600.0
"""Age of a temporary file that no living writer can still need [s]."""

NAME = re.compile(r"[0-9a-f]+\.kernel(\.tmp)?")
"""Our files, whole or half written; all others are left as they are, whatever folder the user names."""

_warned: set[Path] = set()


def folder() -> Path | None:
    """The folder of stored kernels, made if need be; None where none is wanted, possible or safe."""
    return _private(_place, "kernels")


def xla_folder() -> Path | None:
    """A folder for XLA's own compiled programs, under the same conditions, which only the user can enter.

    What is in it that somebody else could have written is removed: JAX would run it unchecked.
    """
    if os.environ.get("BACKFLIP_CACHE") and folder() is None:
        return None
    place = _private(_xla_place, "XLA programs")
    if place is None:
        return None
    try:
        closed = not stat.S_IMODE(place.stat().st_mode) & 0o077
        safe = all(_is_ours(entry, closed) or _remove(entry.path) for entry in os.scandir(place))
        place.chmod(0o700)
    except OSError:
        return None
    return place if safe else None


def _private(choose: Callable[[], Path | None], content: str) -> Path | None:
    """The chosen folder, if nobody else can write to it."""
    try:
        place = choose()
        if place is None:
            return None
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        fault = _fault(place.stat())
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    if fault:
        _warn_once(place, content, fault)
        return None
    return place


def _is_ours(entry: "os.DirEntry[str]", closed: bool) -> bool:
    """Whether it is a file that nobody else can have written; in a closed folder only its owner can."""
    info = entry.stat(follow_symlinks=False)
    mine = not hasattr(os, "getuid") or info.st_uid == os.getuid()
    return stat.S_ISREG(info.st_mode) and mine and (closed or not _fault(info))


def fetch(key: str, build: Callable[[], bytes]) -> bytes:
    """The kernel stored under a hex digest, or else `build()`, which is then stored."""
    if not re.fullmatch("[0-9a-f]+", key):
        raise ValueError(f"kernel key {key!r} is not a hex digest; give what hexdigest() returns")
    place = folder()
    if place is None:
        return build()
    file = place / f"{key}.kernel"
    stored = _read(file, key)
    if stored is not None:
        return stored
    made = build()
    with suppress(OSError):
        _write(file, _header(key, made) + made)
    return made


def _place() -> Path | None:
    """Where kernels should be stored, by environment and system, not yet looked at."""
    named = os.environ.get("BACKFLIP_CACHE", "")
    if named.lower() in ("off", "0"):
        return None
    if named:
        return Path(named).expanduser().absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():  # the XDG standard: a relative one is to be ignored
        return xdg / "backflip" / "lanes"
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "backflip" / "lanes"


def _xla_place() -> Path | None:
    """Beside the kernels, or in a folder that the user names, below them."""
    place = _place()
    if place is None or os.environ.get("BACKFLIP_CACHE"):
        return place and place / "xla"
    return place.parent / "xla"


def _fault(info: os.stat_result) -> str:
    """Why others could have put something into this file or folder; empty if they could not."""
    if not hasattr(os, "getuid"):
        return ""  # Windows: owner and mode are made up there, and a profile is private by its access list
    if info.st_uid != os.getuid():
        return f"belongs to user {info.st_uid}, not to you ({os.getuid()})"
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others (remove it, or take that away with chmod go-w)"
    return ""


def _warn_once(place: Path, content: str, fault: str) -> None:
    if place in _warned:
        return
    _warned.add(place)
    warnings.warn(
        f'compiled {content} are not stored, every run builds its own: the folder "{place}" {fault}; '
        "name a private folder in BACKFLIP_CACHE, or set BACKFLIP_CACHE=off to store none",
        stacklevel=4,
    )


def _header(key: str, payload: bytes) -> bytes:
    """The one line in front of a payload; it names the key, so that a renamed file does not pass."""
    return f"backflip kernel {FORMAT} {key} {len(payload)} {sha256(payload).hexdigest()}\n".encode()


def _read(file: Path, key: str) -> bytes | None:
    """The payload of a file that is ours and whole, else None."""
    try:
        with open(file, "rb", opener=_open_itself) as source:
            # the open file is asked, not its name: a name can change hands between the look and the read
            info = os.fstat(source.fileno())
            if not stat.S_ISREG(info.st_mode) or _fault(info) or info.st_size > MAX_BYTES:
                return None
            head, end, payload = source.read().partition(b"\n")
    except OSError:
        return None
    if head + end != _header(key, payload):
        return None
    with suppress(OSError):
        os.utime(file)  # used just now, so last to go
    return payload


def _open_itself(path: str, flags: int) -> int:
    """Open no link's target, and do not wait for the other end of a pipe; Windows has neither flag."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


def _write(file: Path, content: bytes) -> None:
    """Put a file in place whole or not at all, then make room."""
    if len(content) > MAX_BYTES:
        return  # it would drive out all others, then itself
    temporary = file.with_name(f"{os.urandom(16).hex()}.kernel.tmp")
    try:
        with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as sink:
            sink.write(content)
        # no fsync: what a power cut leaves behind fails its checksum
        os.replace(temporary, file)
    finally:
        _remove(temporary)  # still there only after an error or Ctrl-C
    _tidy(file.parent)


def _tidy(place: Path) -> None:
    """Remove stale temporary files, then the least recently used kernels until the rest fits."""
    kernels: list[tuple[float, int, str]] = []
    for entry in [e for e in os.scandir(place) if NAME.fullmatch(e.name)]:
        with suppress(OSError):  # gone already: another process tidies too
            info = entry.stat(follow_symlinks=False)
            if not entry.name.endswith(".tmp"):
                kernels.append((info.st_mtime, info.st_size, entry.path))
            elif info.st_mtime < time.time() - STALE:
                _remove(entry.path)
    total = sum(size for _, size, _ in kernels)
    for _, size, path in sorted(kernels):
        if total > MAX_BYTES and _remove(path):
            total -= size


def _remove(path: Path | str) -> bool:
    """Remove a file; False if it is still there."""
    with suppress(OSError):
        os.unlink(path)
    return not os.path.lexists(path)
