"""The command line: run experiments, verify their claims, look at replays.

Heavy imports happen inside the command that needs them, so that --help answers at once.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from threading import Timer, current_thread, main_thread
from types import FrameType
from typing import Any

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; 130 is what shells give for Ctrl-C."""

RUNS = Path("runs")
"""Where what is run here goes, under the current folder; git ignores it."""
RESULTS = Path("results")
"""The committed results, under the current folder: `verify` measures them, `--out results` renews them."""
ENGINE = ("jax.numpy", "equinox", "backflip.experiments")
"""What almost every command imports, and what takes long to import."""
MAX_SEED = 2_000_000_000
"""Experiments count on from a seed, and every generator takes 31 bits."""


class Refused(Exception):
    """The user asked for something that cannot be done; the text says what and what to do instead."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, do, and translate what went wrong into a sentence and an exit code."""
    asked = _parser().parse_args(arguments)
    try:
        with _on_interrupt(_stop):
            with _on_interrupt(_leave):
                for module in asked.imports:
                    import_module(module)
            return asked.do(asked)
    except (Refused, OSError) as reason:  # OSError: a full disk, a closed pipe
        print(f"backflip: {reason}", file=sys.stderr)
        return USAGE
    except ValueError as reason:
        if not _is_unable(reason):
            raise
        print(f"backflip: {reason}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("backflip: interrupted", file=sys.stderr)
        return INTERRUPTED


def _is_unable(reason: ValueError) -> bool:
    """Whether the text is meant for the user; else it is a fault of ours, whose place should be seen."""
    from backflip.experiments import Unable

    return isinstance(reason, Unable)


@contextmanager
def _on_interrupt(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Ctrl-C calls this inside, unless somebody else has a say in it."""
    before = signal.getsignal(signal.SIGINT)
    if before not in (signal.default_int_handler, _stop) or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process: raised inside an import, an exception can be lost, or crash what is half loaded."""
    os.write(2, b"backflip: interrupted\n")
    os._exit(INTERRUPTED)


def _stop(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; a moment later if JAX is collecting garbage, where it would be lost."""
    if frame and frame.f_code.co_name == "_xla_gc_callback":
        Timer(0.01, signal.raise_signal, [number]).start()
    else:
        raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="backflip", description="Robots that learn by gradient: experiments, checks and replays."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    out = argparse.ArgumentParser(add_help=False)
    out.add_argument("--out", type=Path, default=RUNS, metavar="DIR", help="where files go (%(default)s)")
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print one JSON object last on stdout")
    seeded = argparse.ArgumentParser(add_help=False)
    seeded.add_argument("--seed", type=_seed, default=0, metavar="S", help="random seed (%(default)s)")

    def add(name: str, do: Any, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, parents=parents)
        command.set_defaults(do=do, imports=ENGINE)
        return command

    add("demo", _demo, "Throw a ball at a target by gradient, and show where the pictures are.", out, seeded)
    add("list", _list, "List the experiments.", as_json)
    run = add("run", _run, "Run an experiment, or all of them.", out, as_json, seeded)
    run.add_argument("name", metavar="NAME", help='an experiment of "backflip list", or all')
    run.add_argument("--resume", type=_folder, metavar="DIR", help="go on from an interrupted run's folder")
    verify = add("verify", _verify, "Measure every claim again from the files of its run.", as_json)
    where = "folder with the files (%(default)s); runs for your own"
    verify.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=where)
    verify.add_argument("name", metavar="NAME", nargs="?", default="all", help="one experiment only")
    view = add("view", _view, "Open a replay page in the browser.")
    view.add_argument("file", metavar="FILE", type=Path, help="a page, or a folder that has one")
    view.set_defaults(imports=())
    page = argparse.ArgumentParser(add_help=False)
    page.add_argument("--page", type=Path, metavar="FILE", help="put the table into this page of docs too")
    text = "Check every gradient against differences and write the table."
    check = add("gradients", _gradients, text, out, page)
    check.add_argument("--solver", metavar="NAME", help="of one solver only; the others' figures stay")
    check.add_argument("--case", metavar="NAME", help="of one case only, in the same way")
    text = "Compare every pair with cylinders and hulls with coal and write the table."
    add("shapes", _certificate, text, out, page).set_defaults(module="shapes")
    text = "Record what solvers meet in steps of robots, and write how well each solves it."
    add("problems", _certificate, text, out, page).set_defaults(module="solver_table")
    text = "Compare gradients over 0.1, 0.3 and 1 s of trotting and stumbling with differences."
    add("horizons", _certificate, text, out, page).set_defaults(module="horizons")
    bench = add("bench", _bench, "Measure speed beside XLA and MuJoCo, every claim in one run.", as_json)
    bench.add_argument("--quick", action="store_true", help="a short form, to see that everything runs")
    bench.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    place = f"where files go ({RUNS}; with --quick a temporary folder)"
    bench.add_argument("--out", type=Path, metavar="DIR", help=place)
    return parser


def _seed(text: str) -> int:
    """A seed that every generator takes."""
    try:
        seed = int(text)
    except ValueError:
        seed = -1
    if not 0 <= seed <= MAX_SEED:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 0 to {MAX_SEED}")
    return seed


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("give the folder of the run")
    return Path(text)


def _demo(asked: argparse.Namespace) -> int:
    record = _run_one("ball", asked)
    print(
        f"{record['converged']} of {len(record['iterations'])} throws found by gradient, "
        f"{record['evaluations']} iterations (median), {record['times_faster']} times faster than CMA-ES."
    )
    print("What to look at:")
    for file in record.get("files", []):
        print(f"  {asked.out / 'ball' / file}")
    return OK


def _list(asked: argparse.Namespace) -> int:
    from backflip.experiments import NAMES, load

    summaries = {name: load(name).SUMMARY for name in NAMES}
    if asked.json:
        print(json.dumps({"experiments": [{"name": n, "summary": s} for n, s in summaries.items()]}))
        return OK
    width = max(map(len, summaries))
    for name, summary in summaries.items():
        print(f"{name:{width}}  {summary}")
    return OK


def _run(asked: argparse.Namespace) -> int:
    names = _named(asked.name)
    if asked.resume and not asked.resume.is_dir():
        raise Refused(f"--resume {asked.resume}: there is no such folder")
    if asked.resume and asked.name == "all":
        raise Refused("--resume goes on with one experiment; name it instead of all")
    records = [_run_one(name, asked, asked.resume) for name in names]
    if asked.json:
        print(json.dumps({"results": records} if asked.name == "all" else records[0]))
    return OK


def _run_one(name: str, asked: argparse.Namespace, resume: Path | None = None) -> dict[str, Any]:
    """Run one experiment and say where its files are, or how to go on if it is interrupted."""
    from backflip.experiments.running import run_one, writable

    out = writable(asked.out)
    _cache_compilations()
    try:
        record = run_one(name, out, asked.seed, resume)
    except KeyboardInterrupt:
        _tell(f"\nstopped {name}: {out / name}.partial.json has the figures so far, {out / name} the files")
        elsewhere = "" if out == RUNS else f" --out {out}"
        _tell(f"go on with: backflip run {name}{elsewhere} --seed {asked.seed} --resume {out / name}")
        raise
    _tell(f"{name}: error {record.get('error')} after {record.get('evaluations')} evaluations")
    _tell(f"{name}: result in {out / name}.json, files in {out / name}")
    return record


def _verify(asked: argparse.Namespace) -> int:
    from backflip.experiments import Claim, Progress
    from backflip.experiments.running import measure_again

    names = _named(asked.name)
    if not asked.out.is_dir():
        raise Refused(f"{asked.out}: there is no such folder; --out {RUNS} measures what you ran yourself")
    _cache_compilations()
    claims: list[Claim] = []
    file = None if sys.stdout.isatty() else sys.stdout  # which the bar would else take for its own
    with Progress().task("verify", total=len(names)) as task:
        for name in names:
            task.advance(0, now=name)
            measured = measure_again(name, asked.out)
            task.advance()
            claims += measured
            for claim in () if asked.json else measured:
                mark = "ok    " if claim.ok else "FAILED"
                line = f"{mark} {claim.name}: {claim.claim}; asked {claim.asked}, measured {claim.measured}"
                print(line, file=file, flush=True)
    ok = all(claim.ok for claim in claims)
    if asked.json:
        print(json.dumps({"ok": ok, "claims": [asdict(claim) for claim in claims]}))
    return OK if ok else FAILED


def _view(asked: argparse.Namespace) -> int:
    import webbrowser

    address = _page(asked.file).resolve().as_uri()
    if not webbrowser.open(address):
        raise Refused(f"no browser to be found; open {address} yourself")
    return OK


def _page(path: Path) -> Path:
    """The page itself, or the only one that a folder has."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise Refused(f"{path}: there is no such file")
    pages = sorted(path.glob("*.html"))
    if len(pages) == 1:
        return pages[0]
    names = ", ".join(page.name for page in pages)
    raise Refused(f"{path}: a folder with " + (f"several pages; name one of {names}" if pages else "no page"))


def _gradients(asked: argparse.Namespace) -> int:
    matrix = import_module("backflip.experiments.certificates.gradient_table")
    chosen: list[tuple[str, ...]] = []
    for what, name, known in (
        ("solver", asked.solver, tuple(matrix.SCHEMES)),
        ("case", asked.case, matrix.NAMES),
    ):
        if name not in (None, *known):
            raise Refused(f"there is no {what} {name!r}; known: {', '.join(known)}")
        chosen.append((name,) if name else known)
    _cache_compilations()
    return _table(asked, lambda: matrix.write_table(asked.out, *chosen, page=asked.page))


def _certificate(asked: argparse.Namespace) -> int:
    certificate = import_module(f"backflip.experiments.certificates.{asked.module}")
    return _table(asked, lambda: certificate.write_table(asked.out, page=asked.page))


def _table(asked: argparse.Namespace, write: Callable[[], str]) -> int:
    """Print what is written, after a look at where it goes."""
    from backflip.experiments.running import writable

    writable(asked.out)
    if asked.page and not asked.page.is_file():
        raise Refused(f"--page {asked.page}: there is no such file")
    print(write())
    return OK


def _bench(asked: argparse.Namespace) -> int:
    from backflip.experiments import Progress
    from backflip.experiments.bench import report
    from backflip.experiments.bench import run as bench
    from backflip.experiments.bench.plan import FULL, QUICK
    from backflip.experiments.running import writable

    if asked.quick and asked.resume and not asked.out:
        raise Refused("--quick writes to a temporary folder; name the one to --resume with --out")
    out = asked.out or (Path(tempfile.mkdtemp(prefix="backflip-bench-")) if asked.quick else RUNS)
    writable(out)
    size = QUICK if asked.quick else FULL
    try:
        record = bench.run(out, size=size, progress=Progress(), resume=asked.resume)
    except KeyboardInterrupt:
        _tell(f"\nstopped bench: {out / 'bench' / 'measurements.json'} has the figures so far")
        _tell(f"go on with: backflip bench{' --quick' * asked.quick} --out {out} --resume")
        raise
    _tell(f"bench: result in {out / 'bench.json'}, files in {out / 'bench'}")
    if asked.json:
        print(json.dumps({"ok": record["ok"], "claims": record["claims"]}))
    else:
        report.show(record, size)
    return OK if record["ok"] else FAILED


def _named(name: str) -> tuple[str, ...]:
    """One experiment, or all of them."""
    from backflip.experiments import NAMES, unknown

    if name == "all":
        return NAMES
    if name not in NAMES:
        raise Refused(unknown(name))
    return (name,)


def _cache_compilations() -> None:
    """Store XLA's programs between runs, in a folder that only the user can read or write."""
    import jax

    from backflip.lanes import store

    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return  # the user has chosen
    if folder := store.xla_folder():
        jax.config.update("jax_compilation_cache_dir", str(folder))


def _tell(text: str) -> None:
    """For people: stderr, so that stdout stays clean for results."""
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
