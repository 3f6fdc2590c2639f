"""Tests run in float64 and ask XLA for quick compiles: most programs run for less time than they build.

Kernels are kept in a folder of this test run's own, which its processes share.
"""

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from law_table import DEFAULT, key, table

from backflip.experiments.base import save_result
from backflip.experiments.tables import put_table

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["BACKFLIP_CACHE"] = tempfile.mkdtemp(prefix="backflip-kernels-")
    atexit.register(shutil.rmtree, os.environ["BACKFLIP_CACHE"], ignore_errors=True)

import jax

jax.config.update("jax_enable_x64", True)


@pytest.fixture
def law(record_property):
    """Hold a figure against its bar, and keep it for the table that `make laws` writes."""

    def check(name: str, asked: float, measured, unit: str = "", solver: str = DEFAULT) -> None:
        measured = float(measured)
        figure = {"law": name, "solver": solver, "asked": asked, "measured": measured, "unit": unit}
        record_property("law", figure)
        assert measured <= asked, f"{name}: {measured:.3g} {unit}, asked {asked:g}"

    return check


def pytest_addoption(parser):
    parser.addoption(
        "--laws",
        type=Path,
        metavar="FILE",
        help="write law figures to FILE; those of laws not run stay",
    )
    parser.addoption("--laws-page", type=Path, metavar="FILE", help="put their table into this page too")


def pytest_terminal_summary(terminalreporter, config):
    file = config.getoption("laws")
    if not file:
        return
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    figures = [figure for r in reports for key, figure in r.user_properties if key == "law"]
    worst = {key(f): f for f in json.loads(file.read_text("utf-8"))["laws"]} if file.is_file() else {}
    for figure in sorted(figures, key=lambda f: f["measured"]):
        worst[key(figure)] = figure | {"ok": figure["measured"] <= figure["asked"]}
    laws = [worst[key] for key in sorted(worst)]
    save_result(file, "laws", {"laws": laws}, seed=0, seconds=sum(r.duration for r in reports))
    text = table(laws)
    if page := config.getoption("laws_page"):
        put_table(page, "laws", text)
    terminalreporter.write_line(text)
