"""How well a fit explains what was recorded."""

from dataclasses import dataclass

import numpy as np

EXPLAINED = 4.0
"""reduced χ² up to which a fit explains the readings: what is left is at most twice the noise"""
OVERSTATED = 0.25
"""reduced χ² below which the noise given was too large"""
EXACT = 1e-4
"""part of the readings' variance below which what is left does not matter: 1 % of the motion"""
TREND = 0.5
"""correlation of a residual with the next from which on it is no noise, but a motion that the model lacks"""
PAIRS = 8
"""residuals with a next one that it takes to see a trend"""
HARDLY_MOVED = 1e-2
"""change of a free number, about 1 % of a positive parameter, below which a search has not left its guess"""
SHORTEST = 20
"""samples from which on growing horizons make sense"""


@dataclass(frozen=True)
class FitQuality:
    """What is left of the readings after a fit."""

    chi2: float
    """reduced χ²: mean square of what is left, in units of the noise; 1 is expected. NaN: noise not given"""
    unexplained: float
    """part of the readings' variance that is left"""
    correlation: float
    """of what is left in one sample with the next; noise has 0. NaN: too few samples"""

    @property
    def explained(self) -> bool:
        """Whether what is left may be noise."""
        if np.isfinite(self.chi2):
            return self.chi2 <= EXPLAINED
        return self.unexplained <= EXACT or (self.unexplained < 0.5 and not self.correlation > TREND)

    @property
    def findings(self) -> list[str]:
        """Sentences, the gravest first."""
        verdict = "explains" if self.explained else "does not explain"
        sentences = [f"{self._measured()}: the fit {verdict} the readings"]
        if not self.explained:
            sentences.append("no standard errors: they hold only for a fit that explains the readings")
        elif self.chi2 < OVERSTATED:
            sentences.append("less is left than the noise given: give a smaller noise")
        return sentences

    def _measured(self) -> str:
        left = f"{100 * self.unexplained:.2g} % of the readings' variance is left"
        if np.isfinite(self.chi2):
            return f"reduced χ² {self.chi2:.3g} (1 is expected), {left}"
        trend = f", from sample to sample correlated by {self.correlation:.2f}"
        return f"{left}{trend if np.isfinite(self.correlation) else ''} (noise is not given)"


def fit_quality(off: np.ndarray, observed: np.ndarray, present: np.ndarray, chi2: float) -> FitQuality:
    """From residuals and readings (runs, samples, channels), both in units of the noise; present: 1 or 0."""
    count = np.maximum(present.sum((0, 1)), 1)
    mean = (observed * present).sum((0, 1)) / count
    variance = float(np.sum(present * (observed - mean) ** 2))
    left = float(np.sum(present * off**2))
    both = present[:, 1:] * present[:, :-1]
    now, after = off[:, :-1] * both, off[:, 1:] * both
    power = np.sqrt(np.sum(now**2) * np.sum(after**2))
    enough = both.sum() >= PAIRS and power > 0
    correlation = float(np.sum(now * after) / power) if enough else np.nan
    return FitQuality(chi2, left / variance if variance > 0 else float(left > 0), correlation)


@dataclass(frozen=True)
class Attempt:
    """How a search was made, for advice on what was not tried."""

    updates: int
    starts: int
    spread: float
    stages: tuple[int, ...]
    """samples compared, one number for each horizon"""
    all_updates_done: bool
    """whether the updates ended before the search did"""
    moved: float
    """largest change of a free number from its guess: of a logarithm, or in units of a plain parameter"""

    @property
    def hardly_moved(self) -> bool:
        """Whether it ended where it began."""
        return self.moved < HARDLY_MOVED

    def advice(self) -> str:
        """What to try after a search that does not explain the readings: what was not tried, first."""
        remedies = []
        if self.all_updates_done:
            remedies.append(f"more updates (updates={2 * self.updates})")
        if self.starts == 1:
            remedies.append("several starts (starts=8)")
        if len(self.stages) == 1 and (samples := self.stages[-1]) >= SHORTEST:
            remedies.append(f"growing horizons (horizons=({samples // 10}, {samples // 3}))")
        if self.starts > 1:
            remedies.append(f"wider and more starts (starts={2 * self.starts}, spread={2 * self.spread:g})")
        if len(self.stages) > 1:
            remedies.append(f"a shorter first horizon than {self.stages[0]} samples")
        remedies += ["shorter windows (Recording.windows)", "a model that can do what was recorded"]
        return f"try: {', '.join(remedies[:-1])}, or {remedies[-1]}"
