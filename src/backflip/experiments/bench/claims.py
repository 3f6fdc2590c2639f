"""What `backflip bench` claims, from what was measured."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from backflip.experiments.base import Claim

MB = 1e6
LINEAR = 1.1
"""Exponent up to which growth counts as linear: a doubling costs at most 2.14 times as much."""


@dataclass(frozen=True)
class Findings:
    """Measurements, looked up by what was measured."""

    measurements: dict[str, dict[str, Any]]

    def entries(self, **asked: Any) -> list[dict[str, Any]]:
        """Every finished measurement of jobs that are as asked: `entries(engine="xla", what="forward")`."""
        whole = (e for e in self.measurements.values() if e["samples"] and "failed" not in e)
        return [e for e in whole if _fits(e["job"], asked)]

    def entry(self, **asked: Any) -> dict[str, Any]:
        """The one measurement that is as asked; KeyError says why there is none."""
        fitting = self.entries(**{"hidden": None, "cores": 1} | asked)
        if len(fitting) == 1:
            return fitting[0]
        reasons = [
            e["failed"] for e in self.measurements.values() if "failed" in e and _fits(e["job"], asked)
        ]
        raise KeyError(reasons[0] if reasons else "not measured")

    def figure(self, **asked: Any) -> float:
        """The median sample: [s] of a run, or what the job finds."""
        return median(self.entry(**asked)["samples"])

    def micros(self, **asked: Any) -> float:
        """[µs] per robot-step."""
        entry = self.entry(**asked)
        return 1e6 * median(entry["samples"]) / (entry["job"]["robots"] * entry["job"]["steps"])


def _fits(job: dict[str, Any], asked: dict[str, Any]) -> bool:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return all(plain(job[name]) == plain(value) for name, value in asked.items())


def short(value: float) -> str:
    """Three digits, for people."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


Check = Callable[[], tuple[str, bool]]
"""Gives what was measured, in words, and whether that is enough."""


def claims(measurements: dict[str, dict[str, Any]], many: int, wide: int) -> list[Claim]:
    """One claim for every figure that was asked for; `many` and `wide` are the batches."""
    at = Findings(measurements)

    def faster(times: float, robot: str, robots: int, what: str, peer: str, theirs: str = "") -> Check:
        """Lanes against a peer, that does `theirs` instead of the same thing."""

        def check() -> tuple[str, bool]:
            ours = at.micros(engine="lanes", what=what, robot=robot, robots=robots)
            # finite differences take robots one by one: a batch costs as much each
            count = 1 if (peer, theirs or what) == ("mujoco", "gradient") else robots
            slow = at.micros(engine=peer, what=theirs or what, robot=robot, robots=count)
            return f"{slow / ours:.1f}x ({short(ours)} against {short(slow)} µs)", slow >= times * ours

        return check

    lean, full = "quadruped", "quadruped17"
    rows: list[tuple[str, str, str, Check]] = [
        (f"forward-{many}-xla", f"forward, {many} robots, against XLA", ">= 30x",
         faster(30, lean, many, "forward", "xla")),
        (f"forward-{many}-mujoco", f"forward, {many} robots, against MuJoCo C", ">= 10x",
         faster(10, lean, many, "forward", "mujoco")),
        (f"gradient-{many}-xla", f"forward and backward, {many} robots, against XLA", ">= 40x",
         faster(40, lean, many, "gradient", "xla")),
        (f"gradient-{many}-mujoco-forward",
         f"forward and backward, {many} robots, against MuJoCo C's forward alone", "> 1x",
         faster(1, lean, many, "gradient", "mujoco", "forward")),
        (f"gradient-{many}-mujoco", f"forward and backward, {many} robots, against mjd_transitionFD chained",
         ">= 100x", faster(100, lean, many, "gradient", "mujoco")),
        ("forward-1-mujoco", "forward, 1 robot, against MuJoCo C", ">= 2x",
         faster(2, lean, 1, "forward", "mujoco")),
        ("forward-1-xla", "forward, 1 robot, against XLA", ">= 8x", faster(8, lean, 1, "forward", "xla")),
        ("gradient-1-xla", "forward and backward, 1 robot, against XLA", ">= 40x",
         faster(40, lean, 1, "gradient", "xla")),
        (f"quadruped17-forward-{many}-mujoco", f"forward, {many} of Degrave's robots, against MuJoCo C",
         ">= 4x", faster(4, full, many, "forward", "mujoco")),
        ("backward-forward", f"backward time / forward time, {many} robots", "<= 4",
         lambda: _backward(at, many)),
        ("first-gradient-cold", "start of Python to the first gradient, nothing cached, two cores",
         "<= 10 s", lambda: _at_most(at.figure(what="cold", cores=2), 10, "s")),
        ("first-gradient-warm", "start of Python to the first gradient, kernels cached, two cores",
         "<= 3 s", lambda: _at_most(at.figure(what="warm", cores=2), 3, "s")),
        ("two-cores-forward", f"two cores against one, {wide} robots, forward", ">= 1.8x",
         lambda: _two_cores(at, "forward", wide)),
        ("two-cores-gradient", f"two cores against one, {wide} robots, forward and backward", ">= 1.8x",
         lambda: _two_cores(at, "gradient", wide)),
        ("chains-forward", "run time of chains ∝ links^k, forward", f"k <= {LINEAR}",
         lambda: _growth(at, "forward", "µs")),
        ("chains-gradient", "run time of chains ∝ links^k, forward and backward", f"k <= {LINEAR}",
         lambda: _growth(at, "gradient", "µs")),
        ("chains-compile", "compile time of chains' gradients ∝ links^k", f"k <= {LINEAR}",
         lambda: _growth(at, "gradient", "s")),
        ("memory-closed-loop", f"peak memory, gradient of a controller's weights, {many} robots",
         "sub-linear: 10 times the steps, <= 5x", lambda: _memory(at, full, (), 5)),
        ("memory-open-loop", f"peak memory, gradient of all targets over time, {many} robots",
         "sub-linear: 10 times the steps, < 10x", lambda: _memory(at, lean, None, 10)),
        *((f"drift-{robot}", f"largest joint error while {robot} trots", "< 1 mm",
           lambda robot=robot: _drift(at, robot)) for robot in (lean, full)),
    ]  # fmt: skip
    return [_claim(*row) for row in rows]


def _claim(name: str, text: str, asked: str, check: Check) -> Claim:
    try:
        measured, ok = check()
    except KeyError as missing:
        measured, ok = str(missing.args[0]), False
    return Claim(f"bench-{name}", text, asked, measured, bool(ok))


def _at_most(value: float, limit: float, unit: str) -> tuple[str, bool]:
    return f"{short(value)} {unit}", value <= limit


def _backward(at: Findings, many: int) -> tuple[str, bool]:
    lanes = {"engine": "lanes", "robot": "quadruped", "robots": many}
    forward, both = (at.micros(what=what, **lanes) for what in ("forward", "gradient"))
    ratio = (both - forward) / forward
    return f"{ratio:.2f} ({short(both - forward)} against {short(forward)} µs)", ratio <= 4


def _two_cores(at: Findings, what: str, wide: int) -> tuple[str, bool]:
    one, two = (at.micros(what=what, robot="quadruped", robots=wide, cores=cores) for cores in (1, 2))
    return f"{one / two:.2f}x ({short(two)} against {short(one)} µs)", one >= 1.8 * two


def chains(at: Findings) -> list[dict[str, Any]]:
    """Links, and [µs] per robot-step and [s] of compiling for both directions."""
    links = sorted({int(e["job"]["robot"].split()[1]) for e in _chain_entries(at)})
    rows = []
    for n in links:
        row: dict[str, Any] = {"links": n}
        for what in ("forward", "gradient"):
            row[f"{what} µs"] = at.micros(what=what, robot=f"chain {n}")
            row[f"{what} s"] = at.entry(what=what, robot=f"chain {n}")["compile_seconds"]
        rows.append(row)
    return rows


def _chain_entries(at: Findings) -> list[dict[str, Any]]:
    return [e for e in at.measurements.values() if e["job"]["robot"].startswith("chain")]


def _growth(at: Findings, what: str, unit: str) -> tuple[str, bool]:
    """The exponent of a straight line through all lengths, both axes logarithmic."""
    rows = chains(at)
    if len(rows) < 2:
        raise KeyError("not measured")
    links, values = [r["links"] for r in rows], [r[f"{what} {unit}"] for r in rows]
    k = float(np.polyfit(np.log(links), np.log(values), 1)[0])
    text = ", ".join(f"{n}: {short(value)}" for n, value in zip(links, values, strict=True))
    return f"k = {k:.2f} ({text} {unit})", k <= LINEAR


def _memory(at: Findings, robot: str, hidden: tuple[int, ...] | None, tenfold: float) -> tuple[str, bool]:
    """Growth with the steps: less than `tenfold` for ten times as many; √ would be 3.2."""
    entries = sorted(
        at.entries(what="memory", robot=robot, hidden=hidden), key=lambda entry: entry["job"]["steps"]
    )
    if len(entries) < 2:
        at.entry(what="memory", robot=robot, hidden=hidden)
        raise KeyError("not measured")
    few, more = ((e["job"]["steps"], median(e["samples"])) for e in entries)
    ratio, limit = more[1] / few[1], tenfold ** math.log10(more[0] / few[0])
    text = f"{ratio:.1f}x ({few[1] / MB:.0f} MB for {few[0]} steps, {more[1] / MB:.0f} MB for {more[0]})"
    return text, ratio < limit


def _drift(at: Findings, robot: str) -> tuple[str, bool]:
    metres = at.figure(what="drift", robot=robot)
    return f"{1e3 * metres:.2g} mm", metres < 1e-3
