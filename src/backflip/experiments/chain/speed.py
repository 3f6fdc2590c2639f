"""How long 30 updates of a chain's masses take, by the analytic gradient and by differences."""

import time
from collections.abc import Callable
from typing import Any

from backflip.experiments.base import Progress

ALL_LINKS = (2, 5, 10, 20, 40)
UPDATES = 30
RATE, MOST, NUDGE = 0.01, 100.0, 1e-2
"""learning rate and clip of the paper; [kg] by which differences are taken"""
TAKES = 3
"""the least of so many counts: whatever else runs only ever adds"""

Watch = Callable[[dict[str, Any]], Any]
"""masses to the positions that are recorded, (steps, channels)"""


def run_times(watch: Watch, true: float, first: float, links: int, progress: Progress) -> dict[str, float]:
    """[s] of processor time for 30 updates of one mass per link from `first` [kg], once compiled: three ways.

    analytic: reverse mode. numeric: one simulation after the other, links + 1 for each update.
    numeric at once: the same simulations as lanes of one batch.
    """
    import jax
    import jax.numpy as jnp

    recorded = watch({"mass": jnp.asarray(true)})

    def mse(mass):
        return jnp.square(watch({"mass": mass}) - recorded).mean()

    one, many, both = jax.jit(mse), jax.jit(jax.vmap(mse)), jax.jit(jax.value_and_grad(mse))
    nudged = NUDGE * jnp.eye(links)

    def one_by_one(mass):
        at = one(mass)
        return jnp.stack([(one(mass + by) - at) / NUDGE for by in nudged])

    def at_once(mass):
        values = many(jnp.concatenate([mass[None], mass + nudged]))
        return (values[1:] - values[0]) / NUDGE

    ways: dict[str, Callable[[Any], Any]] = {
        "analytic": lambda mass: both(mass)[1],
        "numeric": one_by_one,
        "numeric at once": at_once,
    }
    with progress.task(f"run time, {links} links", total=TAKES * len(ways)) as task:
        return {name: _best_time(slope, jnp.full(links, first), task) for name, slope in ways.items()}


def _best_time(slope: Callable[[Any], Any], mass: Any, task: Any) -> float:
    """[s] for 30 updates by gradient descent, the least of some takes."""
    import jax
    import jax.numpy as jnp

    jax.block_until_ready(slope(mass))
    counts = []
    for _ in range(TAKES):
        began, at = time.process_time(), mass
        for _ in range(UPDATES):
            at = at - RATE * jnp.clip(slope(at), -MOST, MOST)
        jax.block_until_ready(at)
        counts.append(time.process_time() - began)
        task.advance(1, seconds=counts[-1])
    return min(counts)
