"""A line on stderr for work that takes long, so that nobody wonders whether anything happens."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PATIENCE = 2.0
"""[s] that pass in silence"""


@contextmanager
def if_slow(what: str) -> Iterator[None]:
    """Say `what` is being compiled if it takes long, and in the end how long; BACKFLIP_QUIET=1: never."""
    if os.environ.get("BACKFLIP_QUIET", "") not in ("", "0"):
        yield
        return
    start, lock = time.perf_counter(), threading.Lock()
    shown = False

    def show() -> None:
        nonlocal shown
        with lock:
            shown = True
            _write(f"backflip: compiling {what} ...", ended=False)

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            if shown:
                _write(f"backflip: compiled {what} in {time.perf_counter() - start:.1f} s", ended=True)


def _write(text: str, ended: bool) -> None:
    """A line; on a terminal the last one takes the place of the first."""
    with suppress(OSError, ValueError, AttributeError):  # no stderr, or a closed one
        terminal = sys.stderr.isatty()
        sys.stderr.write(f"\r\x1b[K{text}" if terminal else text)
        sys.stderr.write("" if terminal and not ended else "\n")
        sys.stderr.flush()
