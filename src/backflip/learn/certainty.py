"""How well data determine parameters: from the Jacobian at the solution."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

UNSURE = 1.0
"""standard error of a free number (the logarithm of a positive parameter, or a plain one in units of its
first guess) from which on the data say nothing of it"""
TAKES_PART = 0.3
"""weight of a free number in a direction that cannot be seen, from which on its parameter is named"""
DIGITS = 7
"""of a value at most: single precision has no more"""
SMALLEST = 7
"""decimals from which on values are written as powers of ten"""


@dataclass(frozen=True)
class Certainty:
    """What is known of each of p parameters."""

    names: tuple[str, ...]
    value: np.ndarray
    """(p,)"""
    error: np.ndarray
    """(p,) standard error; ∞ where the data cannot tell, NaN where the fit does not explain the data"""
    correlation: np.ndarray
    """(p, p) of the errors, between those that the data can tell; NaN elsewhere"""
    condition: float
    """of the Jacobian with columns of unit length: 1 all apart, ∞ some not at all; NaN: it is not finite"""
    hidden: tuple[tuple[str, ...], ...]
    """parameters that cannot be identified: those of one group only together, or not at all"""

    def without_errors(self) -> "Certainty":
        """The same, with NaN for every error that is finite: for a fit that does not explain the data."""
        return replace(self, error=np.where(np.isfinite(self.error), np.nan, self.error))

    @property
    def findings(self) -> list[str]:
        """Sentences that name what cannot be identified."""
        sentences = []
        if np.isnan(self.condition):
            sentences.append(
                "no standard errors: the derivative of the readings at the solution is not finite; record "
                "shorter runs, or another motion"
            )
        for group in self.hidden:
            names = ", ".join(f'"{name}"' for name in group)
            if len(group) == 1:
                sentences.append(
                    f"{names} cannot be identified: it hardly changes what is observed; "
                    "hold it fixed, or record a motion that depends on it"
                )
            else:
                sentences.append(
                    f"{names} cannot be told apart: only a combination of them shows; "
                    "hold one fixed, or record a motion that moves them apart"
                )
        return sentences

    def report(self) -> str:
        """A table to read: value, standard error, and the parameter it is most entangled with."""
        rows = [("parameter", "value", "std. error", "entangled with")]
        rows += [self._row(i) for i in range(len(self.names))]
        name, value, error, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [f"{a:{name}}  {b:>{value}}  {c:>{error}}  {d}".rstrip() for a, b, c, d in rows]
        return "\n".join([*lines, f"condition {self.condition:.2g}", *self.findings])

    def _row(self, i: int) -> tuple[str, str, str, str]:
        """Name, value, standard error and closest tie of one parameter, as text."""
        name, value, error = self.names[i], float(self.value[i]), float(self.error[i])
        if np.isinf(error) or any(name in group for group in self.hidden):
            return name, f"{value:.3g}", "unknown", ""
        others = np.abs(np.where(np.arange(len(self.names)) == i, 0, np.nan_to_num(self.correlation[i])))
        k = int(np.argmax(others))
        tie = f"{self.names[k]} ({self.correlation[i, k]:+.2f})" if others[k] > 0.5 else ""
        return name, *_with_error(value, error), tie


def _with_error(value: float, error: float) -> tuple[str, str]:
    """A value with as many digits as its error warrants: 2.013 and 0.012."""
    if not (np.isfinite(value) and 0 < error < np.inf):
        return f"{value:.4g}", "-" if np.isnan(error) else f"{error:.2g}"
    size = int(np.floor(np.log10(abs(value)))) if value else 0
    # power of ten of the last digit
    last = max(int(np.floor(np.log10(error))) - 1, size + 1 - DIGITS)
    if last < -SMALLEST:
        return f"{value:.{max(size - last, 0)}e}", f"{error:.1e}"
    decimals = max(-last, 0)
    value, rounded = round(value, -last), round(error, -last)
    return f"{value:.{decimals}f}", f"{rounded:.{decimals}f}" if rounded else f"{error:.1e}"


def certainty(names: tuple[str, ...], value: Any, slope: Any, J: Any, noise: float) -> Certainty:
    """Certainty of parameters with values (p,), of which free numbers with slopes (p,) were fitted.

    J (m, p) is the Jacobian of the residuals with respect to the free numbers, and `noise` their variance s²,
    in any one unit: C = s² (JᵀJ)⁻¹.
    """
    tiny = float(np.sqrt(np.finfo(np.asarray(J).dtype).eps))
    J = np.asarray(J, float)
    p = J.shape[1]
    if not np.isfinite(J).all():
        unknown = np.full((p, p), np.nan)
        return Certainty(names, np.asarray(value, float), unknown[0], unknown, np.nan, ())
    length = np.linalg.norm(J, axis=0)
    seen = length > tiny * max(length.max(), np.finfo(float).tiny)
    hidden = [(names[i],) for i in np.flatnonzero(~seen)]
    # rows of zeros, so that there is a direction for every parameter even where there are fewer samples
    units = np.concatenate([J[:, seen] / length[seen], np.zeros((seen.sum(), seen.sum()))])
    _, singular, directions = np.linalg.svd(units, full_matrices=False)
    blind = singular < tiny * singular[0] if singular.size else np.zeros(0, bool)
    which = np.flatnonzero(seen)
    # of a direction that cannot be seen, rounding turns about this part towards the next that can
    turned = max(singular[blind], default=0) / min(singular[~blind], default=1)
    groups = [which[_part_of(np.where(np.abs(d) > turned, d, 0) / length[seen])] for d in directions[blind]]
    hidden += [tuple(names[i] for i in group) for group in groups]
    dark = ~seen
    for group in groups:
        dark[group] = True
    # a direction that cannot be seen is as uncertain as rounding allows, for all that take part in it
    floor = tiny * singular[0] if singular.size else 1.0
    inverse = (directions.T / np.maximum(singular, floor) ** 2) @ directions
    spread = np.full(p, np.inf)
    spread[seen] = np.sqrt(noise * np.diag(inverse)) / length[seen]
    hidden += [(names[i],) for i in np.flatnonzero(~dark & (spread > UNSURE))]
    spread[dark] = np.inf
    correlation = np.full((p, p), np.nan)
    root = np.sqrt(np.maximum(np.diag(inverse), np.finfo(float).tiny))
    correlation[np.ix_(which, which)] = inverse / np.outer(root, root)
    correlation[dark] = correlation[:, dark] = np.nan
    worst = singular[0] / singular[-1] if seen.all() and not blind.any() else np.inf
    error = np.abs(np.asarray(slope, float)) * spread
    return Certainty(names, np.asarray(value, float), error, correlation, float(worst), tuple(hidden))


def _part_of(direction: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.abs(direction) > TAKES_PART * np.abs(direction).max())
