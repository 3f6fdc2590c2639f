"""What `backflip bench` shows: a summary to store, tables to print, pictures."""

import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from backflip.experiments.bench.claims import Findings, chains, claims, short
from backflip.experiments.bench.job import ACCURACY
from backflip.experiments.bench.machine import sentence
from backflip.experiments.bench.plan import DEEP, Size

ENGINES = {
    "lanes": "backflip, ten sweeps",
    "newton": "backflip, Newton",
    "xla": "ten sweeps by XLA",
    "mujoco": "MuJoCo C",
}
ROBOTS = ("quadruped", "quadruped17")
PAGE = 120
"""Characters of a line, where there is no terminal to ask."""
BUSY = 0.5
"""Load average from which on the reader is warned."""
WEIGHTS = {(): 1_296, DEEP: 1_147_904}
PAPER = {
    (False, ()): {"gradient": (8170.0, 69600.0), "forward": (1060.0, 9690.0)},
    (False, DEEP): {"gradient": (13200.0, 75000.0), "forward": (2040.0, 9690.0)},
    (True, ()): {"gradient": (2050.0, 1000.0), "forward": (372.0, 139.0)},
    (True, DEEP): {"gradient": (2430.0, 1010.0), "forward": (394.0, 143.0)},
}
"""Table 1 of Degrave et al., by (128 robots or 1, hidden layers): [µs] per robot-step on CPU (i7 5930K) and
GPU (GTX 1080)."""
PARTS = ("physics", "network", "rest")


def summary(measurements: dict[str, dict[str, Any]], size: Size) -> dict[str, Any]:
    """Claims, and every figure behind them."""
    at, all_claims = Findings(measurements), claims(measurements, size.many, size.wide)
    return {
        "ok": all(claim.ok for claim in all_claims),
        "claims": [asdict(claim) for claim in all_claims],
        "speeds": speeds(at, size),
        "chains": _or_nothing(lambda: chains(at)),
        "table1": table1(at, size),
        "figures": {name: _figure(entry) for name, entry in measurements.items()},
    }


def _or_nothing(made: Any) -> Any:
    try:
        return made()
    except KeyError:
        return None


def _figure(entry: dict[str, Any]) -> dict[str, Any]:
    """Median and extremes of the samples, and what the process told."""
    details = {k: v for k, v in entry.items() if k not in ("job", "samples")}
    samples = entry["samples"]
    if samples:
        details |= {"median": median(samples), "least": min(samples), "most": max(samples)}
    return details | {"steps": entry["job"]["steps"]}


def speeds(at: Findings, size: Size) -> list[dict[str, Any]]:
    """[µs] per robot-step by robot and engine, [s] of compiling the gradient of many, and how well steps are
    solved (accuracy.py); None: not measured."""
    rows = []
    for robot in ROBOTS:
        for engine in ENGINES:
            row: dict[str, Any] = {"robot": robot, "engine": engine}
            for what in ("forward", "gradient"):
                for robots in (1, size.many):
                    asked = {"engine": engine, "what": what, "robot": robot, "robots": robots}
                    row[f"{what} {robots}"] = _or_nothing(lambda asked=asked: at.micros(**asked))
                    last = _or_nothing(lambda asked=asked: at.entry(**asked).get("compile_seconds"))
            for what in ACCURACY:  # lanes and XLA run the same step
                own = {"engine": "lanes" if engine == "xla" else engine, "what": what, "robot": robot}
                row[what] = _or_nothing(lambda own=own: at.figure(**own))
            rows.append(row | {"compile seconds": last})
    return rows


def table1(at: Findings, size: Size) -> list[dict[str, Any]]:
    """The paper's Table 1 beside ours: [µs] per robot-step, all of it and its parts.

    physics is the same rollout without controller and sensors, network the controller without a robot; the
    rest is sensors and what passing things between them costs.
    """
    rows = []
    for (batch, hidden), paper in PAPER.items():
        robots = size.many if batch else 1
        for what, (cpu, gpu) in paper.items():
            network = "network" if what == "forward" else "network gradient"
            one = {"engine": "lanes", "robot": "quadruped17", "robots": robots}
            parts = {
                "whole": {"what": what, "hidden": hidden},
                "physics": {"what": what},
                "network": {"what": network, "hidden": hidden},
            }
            row = {k: _or_nothing(lambda p=p, one=one: at.micros(**one, **p)) for k, p in parts.items()}
            known = None not in row.values()
            row["rest"] = row["whole"] - row["physics"] - row["network"] if known else None
            head = {"robots": robots, "weights": WEIGHTS[hidden], "what": what}
            rows.append(head | {"paper cpu": cpu, "paper gpu": gpu} | row)
    return rows


def show(record: dict[str, Any], size: Size) -> None:
    """Tables on stdout."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(width=None if sys.stdout.isatty() else PAGE)
    console.print(f"\n{sentence(record['machine'])}; one core, float32 (MuJoCo: float64), medians")
    if record["load_average"]["before"][0] > BUSY:
        console.print("[yellow]the machine was busy before this began: figures may be off[/yellow]")
    for name, details in record["figures"].items():
        for warning in details.get("warnings", []):
            console.print(f"[yellow]{escape(name)}: {escape(warning)}[/yellow]")
    console.print(_speed_table(record, size))
    for table in (_paper_table, _chain_table, _claim_table):
        console.print(table(record))


def _table(title: str, *columns: str, text: int = 1) -> Any:
    """An empty table; all but the first `text` columns are numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k < text else "right")
    return table


def _speed_table(record: dict[str, Any], size: Size) -> Any:
    heads = [f"{what} {n}" for what in ("forward", "gradient") for n in (1, size.many)]
    exact = ("residual", "overlap mm", "slip mm/s")
    table = _table("µs per robot-step", "robot", "engine", *heads, "compile, s", *exact, text=2)
    for row in record["speeds"]:
        numbers = [_short(row[head]) for head in (*heads, "compile seconds")]
        table.add_row(row["robot"], ENGINES[row["engine"]], *numbers, *_accuracy(row))
    table.caption = (
        "residual: 99 % of all steps, ours in m/s, MuJoCo's by its own measure; slip of standing feet"
    )
    return table


def _accuracy(row: dict[str, Any]) -> list[str]:
    residual, *rest = (row[what] for what in ACCURACY)
    millimetres = ["-" if x is None else short(1e3 * x) for x in rest]
    return ["-" if residual is None else f"{residual:.0e}", *millimetres]


def _paper_table(record: dict[str, Any]) -> Any:
    heads = ("robots", "weights", "", "paper CPU", "paper GPU", "ours", *PARTS)
    table = _table("Degrave et al., Table 1, and ours on one core: µs per robot-step", *heads, text=0)
    for row in record["table1"]:
        numbers = [_short(row[name]) for name in ("paper cpu", "paper gpu", "whole")]
        shares = [_share(row[part], row["whole"]) for part in PARTS]
        table.add_row(str(row["robots"]), f"{row['weights']:,}", row["what"], *numbers, *shares)
    return table


def _chain_table(record: dict[str, Any]) -> Any:
    heads = ("links", "forward µs", "gradient µs", "forward s", "gradient s")
    table = _table("Chains: µs per robot-step, seconds of compiling", *heads, text=0)
    for row in record["chains"] or []:
        table.add_row(*(_short(row[head]) for head in heads))
    return table


def _claim_table(record: dict[str, Any]) -> Any:
    from rich.markup import escape

    table = _table("Claims", "", "claim", "asked", "measured", text=4)
    for claim in record["claims"]:
        mark = "[green]ok[/green]" if claim["ok"] else "[red]FAILED[/red]"
        table.add_row(mark, *(escape(claim[what]) for what in ("claim", "asked", "measured")))
    return table


def _short(value: float | None) -> str:
    return "-" if value is None else short(value)


def _share(part: float | None, whole: float | None) -> str:
    """A figure and what part it is: `0.9 (35%)`."""
    return _short(part) if part is None or whole is None else f"{short(part)} ({part / whole:.0%})"


def draw(folder: Path, measurements: dict[str, dict[str, Any]], size: Size) -> list[str]:
    """The pictures, as far as there is something to draw."""
    at, files = Findings(measurements), []
    if at.entries(what="forward", robot=ROBOTS[0]):
        _draw_speeds(folder / "speed.png", speeds(at, size), size)
        files.append("speed.png")
    if at.entries(what="forward", hidden=()):
        _draw_table1(folder / "table1.png", table1(at, size))
        files.append("table1.png")
    if rows := _or_nothing(lambda: chains(at)):
        _draw_chains(folder / "chains.png", rows)
        files.append("chains.png")
    return files


def _draw_speeds(path: Path, rows: list[dict[str, Any]], size: Size) -> None:
    """A bar for each engine and robot; that of 17 bodies is the paler one."""
    from backflip.view.colour import PALETTE
    from backflip.view.plots import figure

    heads = [f"{what} {n}" for what in ("forward", "gradient") for n in (1, size.many)]
    title, x = "A quadruped's step on one core", "gradient: forward and backward; number: robots at once"
    with figure(path, title=title, x=x, y="µs per robot-step", size=(9.6, 4.2)) as axes:
        bars = {}
        for k, row in enumerate(sorted(rows, key=lambda row: list(ENGINES).index(row["engine"]))):
            engine, pale = k // 2, row["robot"] == ROBOTS[1]
            place = np.arange(len(heads)) + 0.11 * (k - 3.5)
            height = [row[head] or np.nan for head in heads]
            drawn = axes.bar(place, height, 0.1, color=PALETTE[engine], alpha=0.5 if pale else 1.0)
            numbers = ["" if row[head] is None else _short(row[head]) for head in heads]
            axes.bar_label(drawn, numbers, fontsize=6, padding=2)
            if any(numbers):
                bars[f"{ENGINES[row['engine']]}, {17 if pale else 9} bodies"] = drawn
        axes.set_yscale("log")
        axes.set_xticks(range(len(heads)), heads)
        _legend(axes, bars)


def _draw_chains(path: Path, rows: list[dict[str, Any]]) -> None:
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    links = np.array([row["links"] for row in rows])
    y = "µs per robot-step; dashed: s of compiling"
    with figure(path, title="Growth with the robot", x="links of the chain", y=y, size=(7.2, 4.0)) as axes:
        lines = {}
        for k, what in enumerate(("forward", "gradient")):
            for unit, look in (("µs", "o-"), ("s", "s--")):
                values = [row[f"{what} {unit}"] for row in rows]
                lines[f"{what}, {unit}"] = axes.plot(links, values, look, color=PALETTE[k])[0]
        linear = rows[0]["forward µs"] * links / links[0]
        lines["linear"] = axes.plot(links, linear, ":", color=INK)[0]
        axes.set(xscale="log", yscale="log", xticks=links, xticklabels=links)
        axes.minorticks_off()
        _legend(axes, lines)


def _draw_table1(path: Path, rows: list[dict[str, Any]]) -> None:
    """The paper, ours, and what of ours is physics and network."""
    from backflip.view.colour import GROUND, PALETTE
    from backflip.view.plots import figure

    shown = {"paper cpu": GROUND, "paper gpu": PALETTE[1], "whole": PALETTE[0], "physics": PALETTE[2],
             "network": PALETTE[3]}  # fmt: skip
    names = ("paper, CPU", "paper, GPU", "ours", "ours: physics", "ours: network")
    title = "Degrave et al., Table 1, and ours on one core"
    with figure(path, title=title, x="", y="µs per robot-step", size=(9.6, 4.4)) as axes:
        bars = {}
        for k, (name, (column, colour)) in enumerate(zip(names, shown.items(), strict=True)):
            place = np.arange(len(rows)) + 0.16 * (k - 2)
            bars[name] = axes.bar(place, [row[column] or np.nan for row in rows], 0.15, color=colour)
        axes.set_yscale("log")
        ticks = [f"{row['robots']} x\n{row['weights']:,}\n{row['what']}" for row in rows]
        axes.set_xticks(range(len(rows)), ticks, fontsize=8)
        _legend(axes, bars)


def _legend(axes: Any, drawn: dict[str, Any]) -> None:
    """Beside the picture, where it covers nothing."""
    axes.legend(drawn.values(), drawn.keys(), loc="upper left", bbox_to_anchor=(1, 1), fontsize=9)
