"""What was observed: readings at even times, with gaps, of one run or of several."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.learn.rollout import Trajectory
from backflip.model import State


class Recording(eqx.Module):
    """Readings of one run, or of several with a leading axis (runs,) on every array.

    Sample k is taken after (k + 1)·`every` steps of the scheme. NaN is a sample that is missing.
    """

    observed: Array
    """(samples, channels), or (runs, samples, channels)"""
    controls: Array | None = None
    """(steps, controls) what was asked before every step, or (runs, steps, controls); None: u = 0"""
    start: State | None = None
    """where the run began, or one state for every run; None: at rest(model)"""
    every: int = eqx.field(static=True, default=1)
    averaged: tuple[int, ...] = eqx.field(static=True, default=())
    """channels that are means over the steps since the last sample, as an accelerometer's may be"""
    angles: tuple[int, ...] | None = eqx.field(static=True, default=None)
    """channels that are angles [rad], and jump by 2π where they pass π: they are made continuous. None: what
    `Sensor.angles` says, where the model's sensors are what is compared"""

    def __check_init__(self):
        _check_kind(self.observed)
        if not isinstance(self.every, int) or self.every < 1:
            raise ValueError(f"Recording: every is {self.every!r}; give a number of steps from 1 up")
        if not isinstance(self.averaged, tuple):
            raise ValueError(f"Recording: averaged is {self.averaged!r}; give a tuple of channels")
        if not isinstance(self.angles, tuple | None):
            raise ValueError(f"Recording: angles is {self.angles!r}; give a tuple of channels, or None")
        if wrong := [c for c in self.averaged if not 0 <= c < jnp.shape(self.observed)[-1]]:
            raise ValueError(f"Recording: there is no channel {wrong[0]} to be averaged; count them from 0")
        if wrong := [c for c in self.angles or () if not 0 <= c < jnp.shape(self.observed)[-1]]:
            raise ValueError(f"Recording: there is no channel {wrong[0]} that is an angle; count them from 0")

    @property
    def steps(self) -> int:
        """Steps that one run takes."""
        return self.observed.shape[-2] * self.every

    def windows(self, states: State, length: int) -> "Recording":
        """Cut one run into windows of `length` samples, each from the state that was recorded there.

        `states` has one state per sample, as `trajectory.state` has where every step is sampled; the first
        window starts where the recording does. Samples left over at the end are dropped. Use short windows
        where a long run is chaotic: an error in theta has no time to grow (multiple shooting with known
        starts).
        """
        if self.observed.ndim != 2 or self.start is None:
            raise ValueError("windows: give the recording of one run, with its start")
        count = self.observed.shape[0] // length if length >= 1 else 0
        if count < 1:
            raise ValueError(f"windows: length is {length}; give 1 to {self.observed.shape[0]} samples")
        have, samples = states.p_WB.shape[0], self.observed.shape[0]
        if have != samples:
            raise ValueError(f"windows: there are {have} states for {samples} samples; give one for each")

        def cut(x: Array, per: int) -> Array:
            return x[: count * per].reshape(count, per, *x.shape[1:])

        begin = np.arange(1, count) * length - 1
        start = jax.tree.map(lambda first, x: jnp.concatenate([first[None], x[begin]]), self.start, states)
        controls = self.controls
        if controls is not None:
            controls = cut(controls, length * self.every)
        return Recording(cut(self.observed, length), controls, start, self.every, self.averaged, self.angles)


def as_runs(recorded: Any) -> Recording:
    """A recording with a leading axis (runs,); an array is taken for the readings of one run."""
    if not isinstance(recorded, Recording):
        _check_kind(recorded)
        recorded = Recording(jnp.asarray(recorded))
    if recorded.controls is not None:
        recorded = eqx.tree_at(lambda r: r.controls, recorded, jnp.asarray(recorded.controls))
    observed = jnp.asarray(recorded.observed, jnp.result_type(float))
    _check_readings(np.asarray(observed))
    _check_start(recorded.start, observed.shape[:-2])
    runs = eqx.tree_at(lambda r: r.observed, recorded, observed)
    if observed.ndim == 2:
        runs = jax.tree.map(lambda x: jnp.asarray(x)[None], runs)
    steps = runs.steps
    if runs.controls is not None and runs.controls.shape[:2] != (runs.observed.shape[0], steps):
        raise ValueError(
            f"identify: controls have shape {recorded.controls.shape}; the readings span {steps} steps "
            f"({recorded.every} per sample): give one row for each{_thinned(runs, runs.controls)}"
        )
    return runs


def _thinned(runs: Recording, controls: Array) -> str:
    """The remedy where controls are several times as many as samples, else ""."""
    samples, rows = runs.observed.shape[1], controls.shape[1] if controls.ndim == 3 else 0
    every = round(rows / samples) if samples else 0
    if every < 2 or every == runs.every or abs(rows - every * samples) >= every:
        return ""
    return (
        f"; if a sample was taken after every {every} steps, give every={every} (sample 0 is after "
        f"step {every}: readings[{every - 1}::{every}])"
    )


def _check_kind(observed: Any) -> None:
    """Refuse a trajectory or a state where readings belong."""
    if isinstance(observed, Trajectory):
        raise ValueError(
            "identify: a Trajectory was given where readings belong; give what its sensors read: "
            "Recording(jax.vmap(bf.observe, (None, 0))(model, path.state), path.u, path.start)"
        )
    if isinstance(observed, State | dict):
        given = type(observed).__name__
        raise ValueError(
            f"identify: a {given} was given where readings belong; give an array (samples, channels)"
        )


def _check_readings(observed: np.ndarray) -> None:
    if observed.ndim not in (2, 3):
        raise ValueError(
            f"identify: the readings have shape {observed.shape}; give (samples, channels), "
            "or (runs, samples, channels)"
        )
    if np.isinf(observed).any():
        raise ValueError("identify: there are infinite readings; put NaN where a sample is missing")
    if np.isnan(observed).all():
        raise ValueError("identify: every reading is missing (NaN); record something")


def _check_start(start: Any, runs: tuple[int, ...]) -> None:
    """One state for a single run, where `runs` is (); else one for each of (runs,)."""
    if not isinstance(start, State | None):
        raise ValueError(f"identify: start is a {type(start).__name__}; give a State, or None")
    if start is not None and jnp.shape(start.p_WB)[:-2] != runs:
        count = f"are {runs[0]} runs" if runs else "is one run"
        raise ValueError(
            f"identify: start.p_WB has shape {jnp.shape(start.p_WB)}, but there {count}; give one state for "
            "every run"
        )
