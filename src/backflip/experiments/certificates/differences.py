"""Slopes from central differences over many steps, extrapolated where a law of their error holds best."""

import numpy as np

STEPS = tuple(1e-3 / 10 ** (k / 4) for k in range(21))
"""of the central differences, 1e-3 to 1e-8, in scales of what is changed"""
LAWS = ((0,), (0, 2), (0, 2, 4), (0, 1, 2))
"""Powers of its step that a central difference has. Even ones, where the function is smooth; the first too
where its second derivative jumps at the very point, as it does at rest and where a box lies flat"""
SPARE = 2
"""so many more steps than powers are fitted, which tells how well a law holds"""
NOISIEST = 0.9
"""quantile of the functions' slopes from which their rounding is taken: some do not change at all, and in few
even the smallest steps straddle an event"""


def plateau(slopes: np.ndarray) -> np.ndarray:
    """Slopes (n,) from differences (k, n) over STEPS, from the steps and by the law with the least doubt.

    Too large a step feels curvature and events nearby, too small a one rounding. That is of the function,
    hence alike for all n; what the smallest steps show of it keeps steps from being believed that agree by
    chance. The gradient has no say.
    """
    h = np.array(STEPS)
    rounding = h[-1] * np.quantile(np.abs(slopes[-1] - slopes[-2]), NOISIEST)
    fits = [
        _extrapolate(law, h[first : first + len(law) + SPARE], slopes[first:], rounding)
        for law in LAWS
        for first in range(len(h) - len(law) - SPARE + 1)
    ]
    found, doubt = (np.stack(x) for x in zip(*fits, strict=True))
    return np.take_along_axis(found, doubt.argmin(0)[None], 0)[0]


def _extrapolate(
    law: tuple[int, ...], h: np.ndarray, slopes: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray]:
    """Slopes (n,) at step 0 by a law fitted to steps h, the first of `slopes`, and their doubt (n,)."""
    # rounding goes with 1 / step: times its step, every difference has as much
    powers = h[:, None] * (h[:, None] / h[0]) ** np.array(law)
    changes = h[:, None] * slopes[: len(h)]
    inverse = np.linalg.pinv(powers)
    coefficients = inverse @ changes
    misfit = np.linalg.norm(changes - powers @ coefficients, axis=0)
    doubt = np.maximum(misfit, rounding) * np.linalg.norm(inverse[0])
    return coefficients[0], np.where(np.isfinite(doubt), doubt, np.inf)
