"""An identification, checked and made ready: what is compared, in which units, and for which optimizer."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics import Scheme
from backflip.learn.angles import angle_channels, made_continuous
from backflip.learn.least_squares import Problem, built_model, is_first_order, look
from backflip.learn.parameters import Layout
from backflip.learn.recording import Recording
from backflip.learn.residual_cost import ResidualCost, Square
from backflip.model import Model, rest
from backflip.sense import observe

OWN = ("update", "cost", "seconds", "start", "samples")
"""names of figures that rows have of their own"""
DAMPING = 1e-2
"""of the first step, relative to the largest curvature"""


def check_functions(scheme: Any, theta_to_model: Any) -> None:
    """Arguments that are swapped."""
    if not isinstance(scheme, Scheme):
        given = type(scheme).__name__
        raise TypeError(f"identify: a {given} was given where a Scheme belongs; mind the order")
    if not callable(theta_to_model):
        given = type(theta_to_model).__name__
        raise TypeError(f"identify: a {given} was given where theta_to_model belongs; give a function")


def make_problem(
    scheme: Scheme, theta_to_model: Callable, layout: Layout, free: Array, runs: Recording,
    sense: Callable, noise: Any, cost: ResidualCost, prior: float | None = None,
) -> Problem:  # fmt: skip
    """What is compared with what, checked; residuals are not scaled yet, see scaled()."""
    if clash := sorted(set(OWN) & set(layout.names)):
        raise ValueError(f'identify: the log has a figure "{clash[0]}"; give that parameter another name')
    if not isinstance(cost, ResidualCost):
        raise ValueError(f"identify: cost is {cost!r}; give Square(), Huber() or Cauchy()")
    if noise is None and not isinstance(cost, Square):
        raise ValueError(
            "identify: a robust cost must know what is far off; give noise, the readings' standard deviation"
        )
    if prior is not None and not 0 < prior < np.inf:
        raise ValueError(f"identify: prior is {prior!r}; give a positive number such as 0.3, or None")
    model = _check_channels(theta_to_model, layout, free, runs, sense)
    angles = runs.angles
    if angles is None:
        angles = angle_channels(model) if sense is observe else ()
    angles = tuple(c for c in angles if c not in runs.averaged)
    runs = made_continuous(runs, angles)
    observed = np.asarray(runs.observed)
    present = np.isfinite(observed)
    filled = eqx.tree_at(lambda r: r.observed, runs, jnp.asarray(np.where(present, observed, 0)))
    dtype = free.dtype
    return Problem(
        scheme=scheme,
        recorded=filled,
        present=jnp.asarray(present, dtype),
        noise=jnp.asarray(_noise(observed, noise), dtype),
        scale=jnp.ones((), dtype),
        first=free,
        trust=jnp.asarray(0.0 if prior is None else 1 / prior, dtype),
        residual_cost=cost,
        layout=layout,
        theta_to_model=theta_to_model,
        sense=sense,
        angles=angles,
    )


def _check_channels(theta_to_model: Callable, layout: Layout, free: Array, runs: Recording, sense) -> Model:
    """The model without its numbers, if it can be built and observes as many numbers as were recorded."""

    def build_and_read(free: Array) -> tuple[Model, Array]:
        model = built_model(theta_to_model, layout.theta(free))
        if not isinstance(model, Model):
            raise ValueError(f"identify: theta_to_model returned {type(model).__name__}; return a Model")
        return model, sense(model, rest(model))

    model, reading = eqx.filter_eval_shape(build_and_read, free)
    wanted = reading.shape
    have = runs.observed.shape[-1]
    if wanted != (have,):
        raise ValueError(
            f"identify: readings have {have} channels, but the model's sensors give {wanted}; "
            "record what they give, or say with `sense` what was recorded"
        )
    return model


def _noise(observed: np.ndarray, noise: Any) -> np.ndarray:
    """(channels,) what residuals are divided by."""
    channels = observed.shape[-1]
    if noise is None:
        flat = observed.reshape(-1, channels)
        empty = np.isnan(flat).all(0)
        spread = np.nanstd(np.where(empty, 0.0, flat), axis=0)
        most = spread.max()
        # a channel that does not move is counted by those that do
        return np.where(spread > 1e-6 * most, spread, most if most > 0 else 1.0)
    given = np.asarray(noise, float)
    if given.shape not in ((), (channels,)) or not np.all(np.isfinite(given) & (given > 0)):
        raise ValueError(f"identify: noise is {noise!r}; give one positive number, or {channels}")
    return np.broadcast_to(given, (channels,)).copy()


def scaled(problem: Problem, free: Array) -> Problem:
    """The problem with residuals scaled so that damping 1 is DAMPING of the largest curvature."""
    r, J = look(problem, free)
    size = float(jnp.linalg.norm(J, 2)) if bool(jnp.all(jnp.isfinite(J))) else np.nan
    if not (np.isfinite(size) and bool(jnp.all(jnp.isfinite(r)))):
        raise ValueError(
            "identify: the simulation of theta0, or its derivative, is not finite; start from another guess, "
            "or record shorter runs"
        )
    if size == 0:
        raise ValueError(
            "identify: nothing in theta0 changes what is observed; does theta_to_model use it, and do the "
            "sensors see it?"
        )
    scale = jnp.asarray(1 / (size * DAMPING**0.5), free.dtype)
    return eqx.tree_at(lambda p: p.scale, problem, scale)


def check_optimizer(optimizer: Any) -> Any:
    """The optimizer, or levenberg_marquardt() for None."""
    import optimistix as optx

    from backflip.learn.levenberg import levenberg_marquardt

    if optimizer is None:
        return levenberg_marquardt()
    if is_first_order(optimizer) or isinstance(optimizer, optx.AbstractLeastSquaresSolver):
        return optimizer
    raise ValueError(
        f"identify: optimizer is {optimizer!r}; give levenberg_marquardt(), another least-squares solver of "
        "optimistix, or an optimiser of optax"
    )
