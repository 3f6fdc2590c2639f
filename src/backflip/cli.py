"""The command line: run experiments, verify their claims, look at replays.

Heavy imports happen inside the command that needs them, so that --help answers at once.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backflip.experiments import Claim

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes; 130 is what shells give for Ctrl-C."""

RESULTS = Path("results")
"""Where results go and are looked for, under the current folder."""


class Refused(Exception):
    """The user asked for something that cannot be done; the text says what and what to do instead."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, do, and translate what went wrong into a sentence and an exit code."""
    asked = _parser().parse_args(arguments)
    try:
        return asked.do(asked)
    except Refused as refusal:
        print(f"backflip: {refusal}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("backflip: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="backflip", description="Robots that learn by gradient: experiments, checks and replays."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    out = argparse.ArgumentParser(add_help=False)
    out.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help="results folder (%(default)s)")
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print one JSON object last on stdout")
    seeded = argparse.ArgumentParser(add_help=False)
    seeded.add_argument("--seed", type=int, default=0, metavar="S", help="random seed (%(default)s)")

    def add(name: str, do: Any, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, parents=parents)
        command.set_defaults(do=do)
        return command

    add("demo", _demo, "Throw a ball at a target by gradient, and show where the pictures are.", out, seeded)
    add("list", _list, "List the experiments.", as_json)
    run = add("run", _run, "Run an experiment, or all of them.", out, as_json, seeded)
    run.add_argument("name", metavar="NAME", help='an experiment of "backflip list", or all')
    run.add_argument("--resume", type=Path, metavar="DIR", help="go on from an interrupted run's folder")
    verify = add("verify", _verify, "Measure every claim again from the files of its run.", out, as_json)
    verify.add_argument("name", metavar="NAME", nargs="?", default="all", help="one experiment only")
    view = add("view", _view, "Open a replay page in the browser.")
    view.add_argument("file", metavar="FILE", type=Path)
    check = add("gradients", _gradients, "Check every gradient against differences and write the table.", out)
    check.add_argument("--solver", metavar="NAME", help="of one solver only; the others' figures stay")
    check.add_argument("--case", metavar="NAME", help="of one case only, in the same way")
    add("shapes", _shapes, "Compare every pair with cylinders and hulls with coal and write the table.", out)
    bench = add("bench", _bench, "Measure speed beside XLA and MuJoCo, every claim in one run.", as_json)
    bench.add_argument("--quick", action="store_true", help="a short form, to see that everything runs")
    bench.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    place = f"results folder ({RESULTS}; with --quick a temporary one)"
    bench.add_argument("--out", type=Path, metavar="DIR", help=place)
    return parser


def _demo(asked: argparse.Namespace) -> int:
    record = _run_one("ball", asked.out, asked.seed, None)
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

    told = {name: load(name).SUMMARY for name in NAMES}
    if asked.json:
        print(json.dumps({"experiments": [{"name": n, "summary": s} for n, s in told.items()]}))
        return OK
    width = max(map(len, told))
    for name, summary in told.items():
        print(f"{name:{width}}  {summary}")
    return OK


def _run(asked: argparse.Namespace) -> int:
    names = _named(asked.name)
    if asked.resume and not asked.resume.is_dir():
        raise Refused(f"--resume {asked.resume}: there is no such folder")
    if asked.resume and asked.name == "all":
        raise Refused("--resume goes on with one experiment; name it instead of all")
    records = [_run_one(name, asked.out, asked.seed, asked.resume) for name in names]
    if asked.json:
        print(json.dumps({"results": records} if asked.name == "all" else records[0]))
    return OK


def _run_one(name: str, out: Path, seed: int, resume: Path | None) -> dict[str, Any]:
    """Run one experiment; its files go to out/NAME/, its result to out/NAME.json."""
    from backflip.experiments import Progress, load
    from backflip.experiments.base import save_result

    experiment = load(name)
    _cache_compilations()
    progress, folder, start = Progress(), out / name, time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        result = experiment.run(folder, seed, progress, resume)
    except KeyboardInterrupt:
        told = {**progress.figures, "interrupted": True}
        partial = out / f"{name}.partial.json"
        save_result(partial, name, told, seed=seed, seconds=time.perf_counter() - start)
        _tell(f"\nstopped {name}: {partial} has the figures so far, {folder} the files")
        _tell(f"go on with: backflip run {name} --seed {seed} --resume {folder}")
        raise
    except FileNotFoundError as missing:
        raise Refused(str(missing)) from missing
    record = save_result(out / f"{name}.json", name, result, seed=seed, seconds=time.perf_counter() - start)
    (out / f"{name}.partial.json").unlink(missing_ok=True)
    _tell(f"{name}: error {record.get('error')} after {record.get('evaluations')} evaluations")
    _tell(f"{name}: result in {out / f'{name}.json'}, files in {folder}")
    return record


def _verify(asked: argparse.Namespace) -> int:
    from backflip.experiments import Claim, Progress

    claims: list[Claim] = []
    names = _named(asked.name)
    file = None if sys.stdout.isatty() else sys.stdout  # which the bar would else take for its own
    with Progress().task("verify", total=len(names)) as task:
        for name in names:
            task.advance(0, now=name)
            found = _measure_again(name, asked.out)
            task.advance()
            claims += found
            for claim in () if asked.json else found:
                mark = "ok    " if claim.ok else "FAILED"
                told = f"{mark} {claim.name}: {claim.claim}; asked {claim.asked}, measured {claim.measured}"
                print(told, file=file, flush=True)
    ok = all(claim.ok for claim in claims)
    if asked.json:
        print(json.dumps({"ok": ok, "claims": [asdict(claim) for claim in claims]}))
    return OK if ok else FAILED


def _measure_again(name: str, out: Path) -> "list[Claim]":
    """The claims of one experiment, from the files of its run."""
    from backflip.experiments import Claim, load

    file = out / f"{name}.json"
    if not file.is_file():
        return [Claim(name, "has been run", str(file), "no such file", False)]
    _cache_compilations()
    return load(name).verify(out / name)


def _view(asked: argparse.Namespace) -> int:
    import webbrowser

    if not asked.file.is_file():
        raise Refused(f"{asked.file}: there is no such file")
    address = asked.file.resolve().as_uri()
    if not webbrowser.open(address):
        raise Refused(f"no browser to be found; open {address} yourself")
    return OK


def _gradients(asked: argparse.Namespace) -> int:
    import importlib

    matrix = importlib.import_module("backflip.experiments.gradients")
    chosen = []
    for what, name, known in (
        ("solver", asked.solver, tuple(matrix.SCHEMES)),
        ("case", asked.case, matrix.NAMES),
    ):
        if name not in (None, *known):
            raise Refused(f"there is no {what} {name!r}; known: {', '.join(known)}")
        chosen.append((name,) if name else known)
    _cache_compilations()
    print(matrix.write_table(asked.out, *chosen))
    return OK


def _shapes(asked: argparse.Namespace) -> int:
    import importlib

    try:
        print(importlib.import_module("backflip.experiments.shapes").write_table(asked.out))
    except ValueError as reason:
        raise Refused(str(reason)) from reason
    return OK


def _bench(asked: argparse.Namespace) -> int:
    from backflip.experiments import Progress, bench, bench_report
    from backflip.experiments.bench_plan import FULL, QUICK

    if asked.quick and asked.resume and not asked.out:
        raise Refused("--quick writes to a temporary folder; name the one to --resume with --out")
    out = asked.out or (Path(tempfile.mkdtemp(prefix="backflip-bench-")) if asked.quick else RESULTS)
    size = QUICK if asked.quick else FULL
    try:
        record = bench.run(out, size=size, progress=Progress(), resume=asked.resume)
    except bench.Unable as reason:
        raise Refused(str(reason)) from reason
    except KeyboardInterrupt:
        _tell(f"\nstopped bench: {out / 'bench' / 'measurements.json'} has the figures so far")
        _tell(f"go on with: backflip bench{' --quick' * asked.quick} --out {out} --resume")
        raise
    _tell(f"bench: result in {out / 'bench.json'}, files in {out / 'bench'}")
    if asked.json:
        print(json.dumps({"ok": record["ok"], "claims": record["claims"]}))
    else:
        bench_report.show(record, size)
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
