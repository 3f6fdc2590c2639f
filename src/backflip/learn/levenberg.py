"""Optimistix's Levenberg-Marquardt with short steps. Importing it takes a while: only who needs it does."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optimistix as optx


class _Short(optx.AbstractDescent):
    """Steps of another descent, shortened so that no free number moves farther than `longest`."""

    inner: optx.AbstractDescent
    longest: float

    def init(self, y, f_info_struct):
        return self.inner.init(y, f_info_struct)

    def query(self, y, f_info, state):
        return self.inner.query(y, f_info, state)

    def step(self, step_size, state):
        move, result = self.inner.step(step_size, state)
        most = jnp.max(jnp.abs(move))
        far = most > self.longest
        return jnp.where(far, self.longest / jnp.where(far, most, 1), 1) * move, result


def levenberg_marquardt(
    *, rtol: float = 1e-5, atol: float = 1e-6, longest: float = 2.0, ease: float = 10.0
) -> optx.AbstractLeastSquaresSolver:
    """Optimistix's Levenberg-Marquardt, for physical parameters.

    No update multiplies a positive parameter by more than e^`longest`: far from the goal a Gauss-Newton step
    in logarithms can be wild. Damping falls by `ease` after a good update, and rises tenfold after a bad one:
    faster than is usual, as simulations are dear. Where parameters differ much in how well they show, more
    ease gets sooner to those that show least.
    """
    if not longest > 0:
        raise ValueError(f"levenberg_marquardt: longest is {longest!r}; give a positive number")
    if not ease > 1:
        raise ValueError(f"levenberg_marquardt: ease is {ease!r}; give a number above 1")
    search: Any = optx.ClassicalTrustRegion(
        high_cutoff=0.5, low_cutoff=0.01, high_constant=ease, low_constant=0.1
    )
    method: Any = optx.LevenbergMarquardt(rtol, atol)
    return eqx.tree_at(lambda m: (m.descent, m.search), method, (_Short(method.descent, longest), search))
