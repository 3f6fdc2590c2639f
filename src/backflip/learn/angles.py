"""Angles that pass π: readings jump by 2π there, and are made continuous before they are compared."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.recording import Recording
from backflip.model import Model
from backflip.sense import reading_sizes

TURN = 2 * np.pi
JUMP = 1.5 * np.pi
"""[rad] from one sample to the next that is taken for a turn"""
SLACK = 0.5
"""[rad] that noise may add to π; readings beyond are continuous already"""


def angle_channels(model: Model) -> tuple[int, ...]:
    """Channels of observe(model) that are angles, as the sensors describe themselves."""
    facts = model.topology
    wraps: list[bool] = []
    for name, sensor, size in zip(facts.sensor_names, facts.sensors, reading_sizes(model), strict=True):
        own = sensor.angles(facts)
        if len(own) != size:
            raise ValueError(
                f"sensor {name}: angles() has {len(own)} entries but its size() is {size}; give one for each"
            )
        wraps += own
    return tuple(np.flatnonzero(wraps).tolist())


def made_continuous(runs: Recording, channels: tuple[int, ...]) -> Recording:
    """A recording (runs, samples, channels) whose angles do not jump; a warning names the jumps."""
    observed = np.array(runs.observed)
    jumps = []
    for run in range(observed.shape[0]):
        for channel in channels:
            seen = np.flatnonzero(np.isfinite(observed[run, :, channel]))
            turns = _turns(observed[run, seen, channel])
            observed[run, seen, channel] += TURN * np.cumsum(turns)
            jumps += [(run, int(sample), channel) for sample in seen[turns != 0]]
    if jumps:
        run, sample, channel = jumps[0]
        warnings.warn(
            f"identify: an angle passes π: channel {channel} of run {run} jumps at sample {sample}"
            f"{f', and there are {len(jumps) - 1} more jumps' if len(jumps) > 1 else ''}; "
            "taken for a turn that goes on. If it is no angle, give Recording(..., angles=())",
            stacklevel=4,
        )
    return eqx.tree_at(lambda r: r.observed, runs, jnp.asarray(observed, runs.observed.dtype))


def _turns(angle: np.ndarray) -> np.ndarray:
    """(samples,) +1 where an angle passes π upwards, −1 downwards; 0 all along where it goes on beyond π."""
    turns = np.zeros(angle.size, int)
    if angle.size and np.abs(angle).max() <= np.pi + SLACK:
        jump = np.diff(angle)
        turns[1:] = np.where(np.abs(jump) > JUMP, -np.sign(jump), 0)
    return turns


def nearest_turn(simulated: Array, observed: Array, present: Array) -> Array:
    """Continuous angles (samples, channels), by whole turns so that the first sample present is nearest."""
    first = jnp.argmax(present > 0, 0)
    channels = jnp.arange(simulated.shape[1])
    apart = observed[first, channels] - simulated[first, channels]
    return simulated + TURN * jax.lax.stop_gradient(jnp.round(apart / TURN))
