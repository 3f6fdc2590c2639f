"""How fast we are, beside XLA on the same program and beside MuJoCo: what `backflip bench` runs.

Every figure comes from a process of its own, pinned to one core (two where that is the question). Those that
are compared stay alive together and are sampled in turn, so that a busy moment of the machine hits all alike;
the median of the samples counts.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backflip.experiments.base import Progress, Unable, read_result, revision, save_result
from backflip.experiments.bench import peers, report
from backflip.experiments.bench.job import DT, FIGURES, SWEEPS, Job
from backflip.experiments.bench.machine import machine
from backflip.experiments.bench.plan import Race, Size, plan

NAME = "bench"
PATIENCE = 3600.0
"""[s] a process that has not answered for so long is given up"""


@dataclass
class Book:
    """What has been measured, written down after every sample."""

    path: Path
    setting: dict[str, Any]
    measurements: dict[str, dict[str, Any]] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def read(self) -> None:
        """Go on with an earlier book, if it was written here and for the same things."""
        if not self.path.is_file():
            raise Unable(f"{self.path}: there is nothing to resume here")
        record = read_result(self.path)
        for what, now in json.loads(json.dumps(self.setting)).items():
            if record["setting"].get(what) != now:
                raise Unable(f"{self.path}: that was another {what}; start again without --resume")
        self.measurements = {name: entry for name, entry in record["found"].items() if "failed" not in entry}

    def missing(self, job: Job, rounds: int) -> int:
        """How many samples there are still to take."""
        entry = self.measurements.get(job.name, {})
        return 0 if "failed" in entry else rounds - len(entry.get("samples", ()))

    def add(self, job: Job, sample: float | None = None, **details: Any) -> None:
        """Write down a sample, and what else was told."""
        entry = self.measurements.setdefault(job.name, {"job": asdict(job), "samples": []})
        entry.update(details)
        if sample is not None:
            entry["samples"].append(sample)
        seconds = time.perf_counter() - self.began
        save_result(
            self.path, NAME, {"setting": self.setting, "found": self.measurements}, seed=0, seconds=seconds
        )


class Broken(Exception):
    """A measuring process that failed; the text is its last words."""


class Worker:
    """A measuring process on its cores, with kernels kept in the folder `cache`."""

    def __init__(self, job: Job, cache: Path, flags: str = ""):
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        command = [sys.executable, "-m", "backflip.experiments.bench.work", job.to_json()]
        with _pinned(job.cores):
            self.process = subprocess.Popen(
                [*command, str(time.monotonic())],
                env=_environment(job, cache, flags),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.words,
            )

    def answer(self) -> dict[str, Any]:
        """Its next line."""
        assert self.process.stdout
        heard, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if heard else b""
        if line:
            return json.loads(line)
        raise Broken(self._last_words() if heard else f"no answer for {PATIENCE:g} s")

    def sample(self) -> float:
        """[s] of one run."""
        assert self.process.stdin
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Broken(self._last_words()) from None
        return self.answer()["seconds"]

    def _last_words(self) -> str:
        code = self.process.wait()
        self.words.seek(0)
        lines = self.words.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with code {code}"

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self.words.close()


@contextmanager
def _pinned(cores: int) -> Iterator[None]:
    """Processes started inside stay on the last `cores` cores: the first one is the system's favourite."""
    if not hasattr(os, "sched_setaffinity"):
        yield  # not Linux: the system places processes
        return
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[-cores:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


FORGET = ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_X64", "XLA_FLAGS", "BACKFLIP_LANES")
"""What the user's environment may not decide here."""


def _environment(job: Job, cache: Path, flags: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in FORGET}
    source = str(Path(__file__).parents[3])
    return inherited | {
        "PYTHONPATH": os.pathsep.join([source, *filter(None, [inherited.get("PYTHONPATH")])]),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "BACKFLIP_CACHE": str(cache),
        "BACKFLIP_LANES_THREADS": str(job.cores),
        "XLA_FLAGS": flags,
    }


def measure(races: Sequence[Race], book: Book, size: Size, progress: Progress) -> None:
    """Race after race; what the book has already is not measured again."""
    with tempfile.TemporaryDirectory(prefix="backflip-bench-") as kernels:
        total = sum(_rounds(job, size) for race in races for job in race)
        with progress.task("measuring", total) as task:
            for race in races:
                done = sum(_rounds(job, size) - book.missing(job, _rounds(job, size)) for job in race)
                task.advance(done)
                for job, sample in _race(race, book, size, Path(kernels)):
                    task.advance(job=job.name, seconds=sample)


def _rounds(job: Job, size: Size) -> int:
    once = dict.fromkeys(FIGURES, 1) | {"cold": size.starts, "warm": size.starts}
    return once.get(job.what, size.rounds)


def _race(race: Race, book: Book, size: Size, kernels: Path) -> Iterator[tuple[Job, float]]:
    """Samples in turn. A process that fails is noted and left out; the others go on."""
    with ExitStack() as open_workers:
        workers: dict[str, Worker] = {}
        for turn in range(max(_rounds(job, size) for job in race)):
            for job in race:
                if _rounds(job, size) - turn > book.missing(job, _rounds(job, size)):
                    continue  # the book has it
                try:
                    if job.what in FIGURES:
                        sample, details = _figure(job, kernels / str(turn), size.xla_flags)
                    else:
                        details = {}
                        if job.name not in workers:
                            worker = Worker(job, kernels / job.name, size.xla_flags)
                            workers[job.name] = open_workers.enter_context(worker)
                            details = worker.answer()
                        sample = workers[job.name].sample()
                except Broken as failure:
                    book.add(job, failed=str(failure))
                    continue
                book.add(job, sample, **details)
                yield job, sample


def _figure(job: Job, kernels: Path, flags: str) -> tuple[float, dict[str, Any]]:
    """What a fresh process finds; a warm start is one whose kernels an earlier process has kept."""
    cache = kernels / ("first" if job.what in ("cold", "warm") else job.name)
    if job.what == "warm" and not cache.exists():
        with Worker(job, cache, flags) as worker:
            worker.answer()
    with Worker(job, cache, flags) as worker:
        details = worker.answer()
    return details.pop("figure"), details


def run(out: Path, *, size: Size, progress: Progress, resume: bool) -> dict[str, Any]:
    """Measure everything; files go to out/bench/, claims and figures to out/bench.json."""
    if reason := peers.missing():
        raise Unable(reason)
    began = time.perf_counter()
    setting = {"size": asdict(size), "machine": machine(), "revision": revision(), "dt": DT, "sweeps": SWEEPS}
    book = Book(out / NAME / "measurements.json", setting)
    if resume:
        book.read()
    load = os.getloadavg()
    measure(plan(size), book, size, progress)
    result = report.summary(book.measurements, size) | {
        "machine": setting["machine"],
        "load_average": {"before": load, "after": os.getloadavg()},
        "size": asdict(size),
        "how": __doc__,
    }
    result["files"] = report.draw(out / NAME, book.measurements, size)
    return save_result(out / f"{NAME}.json", NAME, result, seed=0, seconds=time.perf_counter() - began)
