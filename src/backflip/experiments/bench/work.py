"""One measuring process of `backflip bench`: builds one program, says when it is ready, runs it when asked.

Started as `python -m backflip.experiments.bench.work JOB` with a Job in JSON, on cores chosen by its parent.
Its answers are lines of JSON on stdout: first what it found while getting ready, then the seconds of a run
for every line that comes in.
"""

import ctypes
import gc
import json
import math
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from backflip.experiments.bench.job import ACCURACY, Job, Run

SAMPLE = 0.2
"""[s] a sample is at least so long: shorter programs run several times"""


def prepare(job: Job) -> Run:
    """The job as something to run."""
    if job.what in ACCURACY:
        return lambda: (_accuracy(job), [])
    if job.engine == "mujoco":
        from backflip.experiments.bench import peers

        return peers.prepare(job)
    from backflip.experiments.bench import ours

    return ours.prepare(job)


def _accuracy(job: Job) -> float:
    from backflip.experiments.bench import accuracy, ours

    return accuracy.mujocos(job) if job.engine == "mujoco" else accuracy.ours(job, ours.scheme(job).solver)


def get_ready(job: Job, began: float) -> tuple[dict[str, Any], Callable[[], float]]:
    """What is found on the way to the first result, and how to take a sample [s]."""
    run = prepare(job)
    building = time.perf_counter()
    value, slopes = run()
    first = time.perf_counter() - building
    details: dict[str, Any] = {"value": value}
    if job.derives:  # a figure to see that gradients are there, and finite
        norm = math.sqrt(sum(np.sum(np.square(np.asarray(x, float))) for x in slopes))
        details["gradient_norm"] = norm if math.isfinite(norm) else str(norm)  # JSON has no such numbers
        if not math.isfinite(norm):
            warnings.warn(f"the gradient is {norm}", stacklevel=1)
    if job.what in ("cold", "warm"):
        return details | {"figure": time.monotonic() - began}, _nothing
    if job.what in ("drift", *ACCURACY):
        return details | {"figure": value}, _nothing
    if job.what == "memory":
        del slopes
        return details | {"figure": peak_of(run)}, _nothing
    again = _seconds(run, 1)
    if job.engine != "mujoco":
        details["compile_seconds"] = max(0.0, first - again)
    repeats = max(1, math.ceil(SAMPLE / again))
    return details, lambda: _seconds(run, repeats)


def _nothing() -> float:
    raise ValueError("there is nothing to repeat")


def _seconds(run: Run, repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - began) / repeats


def peak_of(run: Run) -> int:
    """[bytes] by which a run, compiled before, raises the process above what it holds already."""
    _give_back()
    status, watch = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not status.exists():  # no Linux: all that the process ever needed
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    watch.write_text("5")  # forget the peak so far, which is that of compiling
    before = _kilobytes(status, "VmRSS")
    run()
    return (_kilobytes(status, "VmHWM") - before) * 1024


def _give_back() -> None:
    """Return what was freed to the system, so that reusing it counts."""
    gc.collect()
    with suppress(AttributeError, OSError):  # where there is no glibc
        ctypes.CDLL(None).malloc_trim(0)


def _kilobytes(status: Path, field: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(field))


def main(job: Job, began: float) -> None:
    """Get ready, then a sample for every line; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    with warnings.catch_warnings(record=True) as heard:  # such as lanes having left something to XLA
        details, sample = get_ready(job, began)
    if heard:
        details["warnings"] = sorted({str(warning.message) for warning in heard})
    print(json.dumps(details), file=answers)
    for _ in sys.stdin:
        print(json.dumps({"seconds": sample()}), file=answers)


if __name__ == "__main__":
    main(Job.from_json(sys.argv[1]), float(sys.argv[2]))
