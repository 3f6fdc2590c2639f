"""Plots in the house style, drawn without a display."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backflip.view.colour import INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e7ec",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "savefig.dpi": 160,
}


@contextmanager
def figure(
    path: str | Path, *, title: str, x: str, y: str, size: tuple[float, float] = (6.4, 4.0)
) -> Iterator["Axes"]:
    """Axes to draw on; the picture is written to `path` when the block ends well.

    title, x, y: texts, with units; size: [inch]
    """
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # a Figure of our own, not pyplot's: no display, no global state, nothing to close
    with mpl.rc_context({**STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
        sheet = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(sheet)
        axes = sheet.subplots()
        axes.set(title=title, xlabel=x, ylabel=y)
        yield axes
        if len(axes.get_legend_handles_labels()[1]) > 1:
            axes.legend()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        sheet.savefig(path)


def convergence_plot(
    path: str | Path,
    curves: Mapping[str, Sequence[float]],
    *,
    title: str,
    x: str = "evaluations",
    y: str = "error",
    goal: float | None = None,
) -> Path:
    """Errors against evaluations on a log scale, one curve for each method; `goal` is a dashed line."""
    with figure(path, title=title, x=x, y=y) as axes:
        for name, errors in curves.items():
            axes.plot(range(1, len(errors) + 1), errors, label=name)
        if goal is not None:
            axes.axhline(goal, color=INK, linestyle="--", linewidth=1, label="goal")
        axes.set_yscale("log")
    return Path(path)
