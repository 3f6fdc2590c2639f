"""Pictures of the chain experiment, as in Figure 1 of Belbute-Peres et al."""

from pathlib import Path
from typing import Any

THEIRS = {
    "analytic": {2: 34.0, 5: 97.0, 10: 183.0, 20: 356.0},
    "numeric": {2: 40.0, 5: 169.0, 10: 836.0, 20: 2580.0},
}
"""[s] of processor time for the same 30 updates by the authors' public engine, one core of a 2.8 GHz Xeon"""


def draw(out: Path, single: dict, every: dict, hills: dict, times: dict) -> list[str]:
    """All figures; returns their names."""
    _curves(out / "mass.png", single, "mass", "Mass of a link over updates", "mass [kg]", log=False)
    _curves(out / "mse.png", single, "mse", "How far positions are off", "MSE [m²]", log=True)
    _curves(
        out / "all-at-once.png", every, "mse", "Masses, friction, restitution at once", "MSE [m²]", log=True
    )
    _landscape(out / "landscape.png", hills)
    _times(out / "run-time.png", times)
    return ["mass.png", "mse.png", "all-at-once.png", "landscape.png", "run-time.png"]


def _curves(path: Path, runs: dict, what: str, title: str, y: str, log: bool) -> None:
    from backflip.view.colour import INK
    from backflip.view.plots import figure

    with figure(path, title=title, x="updates", y=y) as axes:
        for links, run in runs.items():
            axes.plot(range(1, len(run[what]) + 1), run[what], marker=".", label=f"{links} links")
        if log:
            axes.set_yscale("log")
        else:
            axes.axhline(7.0, color=INK, linestyle="--", linewidth=1)


def _landscape(path: Path, hills: dict[str, Any]) -> None:
    from backflip.view.colour import INK, PALETTE
    from backflip.view.plots import figure

    with figure(path, title="What there is to descend", x="mass of a link [kg]", y="MSE [m²]") as axes:
        for ball, style in (("heavy", "-"), ("light", ":")):
            for k, (horizon, mse) in enumerate(hills[ball]["mse"].items()):
                axes.plot(hills["mass"], mse, style, color=PALETTE[k], label=f"{ball} ball, {horizon}")
        axes.axvline(7.0, color=INK, linestyle="--", linewidth=1)
        axes.set(xscale="log", yscale="log", ylim=(1e-8, 1e8))


def _times(path: Path, times: dict[int, dict[str, float]]) -> None:
    from backflip.view.colour import PALETTE
    from backflip.view.plots import figure

    links = list(times)
    title = "30 updates, one mass per link, 10 s simulated"
    with figure(path, title=title, x="links", y="processor time [s]") as axes:
        for k, name in enumerate(("analytic", "numeric", "numeric at once")):
            axes.plot(
                links,
                [times[n][name] for n in links],
                marker="o",
                color=PALETTE[k],
                label=f"backflip, {name}",
            )
        for k, (name, theirs) in enumerate(THEIRS.items()):
            label = f"authors' engine, {name}"
            axes.plot(list(theirs), list(theirs.values()), "--", marker="s", color=PALETTE[k], label=label)
        axes.set(xscale="log", yscale="log", ylim=(0.1, 1e5))
        axes.minorticks_off()
        axes.set_xticks(links, [str(n) for n in links])
