"""Tests run in float64 and ask XLA for quick compiles: most programs run for less time than they build.

Kernels are kept in a folder of this test run's own, which its processes share.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from backflip.experiments.base import save_result

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["BACKFLIP_CACHE"] = tempfile.mkdtemp(prefix="backflip-kernels-")
    atexit.register(shutil.rmtree, os.environ["BACKFLIP_CACHE"], ignore_errors=True)

import jax

jax.config.update("jax_enable_x64", True)

DOCS, MARKS = Path("docs/physics.md"), ("<!-- laws -->", "<!-- /laws -->")


@pytest.fixture
def law(record_property):
    """Hold a figure against its bar, and keep it for the table that `make laws` writes."""

    def check(name: str, asked: float, measured, unit: str = "") -> None:
        measured = float(measured)
        record_property("law", {"law": name, "asked": asked, "measured": measured, "unit": unit})
        assert measured <= asked, f"{name}: {measured:.3g} {unit}, asked {asked:g}"

    return check


def pytest_addoption(parser):
    parser.addoption("--laws", type=Path, metavar="FILE", help="write all law figures to FILE and the docs")


def pytest_terminal_summary(terminalreporter, config):
    file = config.getoption("laws")
    if not file:
        return
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    figures = [figure for r in reports for key, figure in r.user_properties if key == "law"]
    seconds = sum(r.duration for r in reports)
    worst: dict[str, dict] = {}
    for figure in sorted(figures, key=lambda f: f["measured"]):
        worst[figure["law"]] = figure | {"ok": figure["measured"] <= figure["asked"]}
    laws = sorted(worst.values(), key=lambda f: f["law"])
    save_result(file, "laws", {"laws": laws}, seed=0, seconds=seconds)
    lines = ["| law | asked | reached |", "|---|---|---|"]
    for f in laws:
        reached = f"{f['measured']:.1e} {f['unit']}".rstrip() + ("" if f["ok"] else " ✗")
        lines.append(f"| {f['law']} | {f['asked']:g} {f['unit']} | {reached} |".replace("  ", " "))
    before, _, rest = DOCS.read_text("utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    DOCS.write_text("\n".join([before + MARKS[0], *lines, MARKS[1] + after]), encoding="utf-8")
    terminalreporter.write_line("\n".join(lines))
