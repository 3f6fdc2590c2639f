"""Running an experiment into a folder, and measuring its claims again from there."""

import tempfile
import time
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from backflip.experiments import load
from backflip.experiments.base import Claim, Progress, Unable, save_result


def run_one(name: str, out: Path, seed: int, resume: Path | None) -> dict[str, Any]:
    """Run one experiment; its files go to out/NAME/, its result to out/NAME.json.

    An interrupted run leaves its latest figures in out/NAME.partial.json.
    """
    experiment, progress = load(name), Progress()
    folder, partial, start = out / name, out / f"{name}.partial.json", time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)

    def save(path: Path, result: dict[str, Any]) -> dict[str, Any]:
        return save_result(path, name, result, seed=seed, seconds=time.perf_counter() - start)

    try:
        result = experiment.run(folder, seed, progress, resume)
    except KeyboardInterrupt:
        save(partial, {**progress.figures, "interrupted": True})
        raise
    except FileNotFoundError as missing:
        raise Unable(str(missing)) from missing
    except ValueError as reason:
        if resume is None:
            raise
        raise Unable(f"{resume}: it cannot be gone on with: {reason}") from reason
    record = save(out / f"{name}.json", result)
    partial.unlink(missing_ok=True)
    return record


def measure_again(name: str, out: Path) -> list[Claim]:
    """The claims of one experiment, from the files of its run; one that fails if they cannot be read."""
    file = out / f"{name}.json"
    if not file.is_file():
        return [Claim(name, "has been run", str(file), "no such file", False)]
    try:
        return load(name).verify(out / name)
    except (OSError, ValueError, BadZipFile) as reason:
        return [Claim(name, "can be measured from its files", "all there and whole", str(reason), False)]


def writable(out: Path) -> Path:
    """The folder that files go to, made if need be; asked before anything is computed in vain."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            return out
    except (FileExistsError, NotADirectoryError) as reason:
        raise Unable(f"{out}: there is a file in its place; name a folder") from reason
    except OSError as reason:
        text = f"{out}: nothing can be written there ({reason.strerror}); name another folder"
        raise Unable(text) from reason
