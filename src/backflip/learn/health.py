"""How healthy a gradient is: where in time it comes from, what a step does to it, what stands in its way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
from jax import Array

from backflip.dynamics import servo_torque
from backflip.learn.differences import AGREES, Slope, slope_along
from backflip.learn.fall import Fall, find_fall
from backflip.learn.findings import (
    UNREACHED,
    Finding,
    describe,
    no_gradient,
    no_progress,
    skipped,
    still_gains,
    stuck,
    wild,
)
from backflip.learn.probe import look_into, value_of
from backflip.learn.sensitivity import largest_singular_value
from backflip.learn.train import Log
from backflip.model import Model

SAMPLES = 32
"""steps along the rollout whose Jacobian is looked at"""
FULL = 0.99
"""of its torque: from here on a servo counts as saturated"""
GROWS, FADES = 1e3, 1e-3
"""ratio of the gradient at the start to that at the end, from which on it is said to explode or vanish"""
DEAD = 1e-9
"""norm of the policy's gradient, relative to the cost, from which on it is lost in rounding"""
STRONGER = "give them more torque, or ask less of them"
"""what to try where servos are saturated"""
NORMAL, NORMAL_SERVO = 300.0, 3.0
"""largest singular value of a step that is normal: at a landing, and per 1/s of a servo's gain"""


@dataclass(frozen=True)
class Health:
    """What was measured along one rollout."""

    norm: np.ndarray
    """(steps,) norm of the cost's gradient with respect to the state after each step; 0 where none came back,
    NaN or infinity where it is not finite"""
    sampled: np.ndarray
    """(k,) steps at which the next two were measured"""
    growth: np.ndarray
    """(k,) largest singular value of the Jacobian of a step, for changes that keep the joints closed, in m,
    rad, m/s and rad/s; NaN where the Jacobian is not finite"""
    saturated: np.ndarray
    """(k,) part of the servos that give all their torque; NaN where there are none"""
    normal_growth: float = NORMAL
    """what is normal for the largest of `growth`"""
    nonfinite_state: int | None = None
    """the first step after which the state is not finite"""
    fall: Fall | None = None
    """where the robot falls for good"""
    dt: float = np.nan
    """[s] of a step"""
    log: Log | None = None
    """of the training, if it was given"""
    cost: float = np.nan
    policy_norm: float = np.nan
    """norm of the cost's gradient with respect to the policy"""
    slope: Slope | None = None
    """of the cost along that gradient, by differences"""

    @property
    def diagnosis(self) -> list[Finding]:
        """What stands out, with what to try; first what explains most.

        Nothing is learned from numbers that are not finite, nor without a gradient; then what spoils the
        gradient or the rollout; then that the training does not gain; then remarks.
        """
        checks = (
            self._broken_state(), self._broken_gradient(), self._broken_jacobian(),
            self._no_gradient() or self._dead_gradient(), self._of_log(no_gradient), self._of_log(skipped),
            self._ratio(), self._fallen(), self._unlike(), self._of_log(no_progress), self._of_log(stuck),
            self._weak(), self._steep(), self._of_log(wild),
        )  # fmt: skip
        seen = [finding for finding in checks if finding is not None]
        remedies = [finding.remedy for finding in seen]
        return [finding for i, finding in enumerate(seen) if finding.remedy not in remedies[:i]]

    def _of_log(self, check: Callable[[Log], Finding | None]) -> Finding | None:
        return None if self.log is None else check(self.log)

    @property
    def findings(self) -> list[str]:
        """Sentences, first what explains most."""
        if seen := self.diagnosis:
            return [str(finding) for finding in seen]
        unread = "; give log=... to have the training looked at too" if self.log is None else ""
        return [f"nothing stands out in this rollout{unread}"]

    @property
    def next_step(self) -> str:
        """The next thing to try; empty where nothing stands out and the training is not known."""
        if seen := self.diagnosis:
            return seen[0].remedy
        if self.log is None:
            return ""
        if still_gains(self.log):
            return "go on from log.best with more updates: the training still gains"
        return "a harder task (a longer rollout, other starts), or a tenth of the learning rate from log.best"

    @property
    def largest_growth(self) -> float:
        """The largest of `growth`, of the steps whose Jacobian is finite; NaN where none is."""
        finite = self.growth[np.isfinite(self.growth)]
        return float(finite.max()) if finite.size else np.nan

    def _broken_state(self) -> Finding | None:
        if self.nonfinite_state is None:
            return None
        what = f"the state is not finite after step {self.nonfinite_state}"
        return Finding(what, "look at what the policy asks for there; a smaller time step, or more sweeps")

    def _broken_gradient(self) -> Finding | None:
        broken = np.flatnonzero(~np.isfinite(self.norm))
        if not broken.size:
            return None
        what = f"the gradient is not finite from step {broken[-1]} backwards"
        return Finding(what, "look for a root, a norm or a division at zero in the cost")

    def _broken_jacobian(self) -> Finding | None:
        broken = self.sampled[~np.isfinite(self.growth)]
        if not broken.size:
            return None
        return Finding(
            f"the Jacobian of step {broken[0]} is not finite",
            "look at the state before it and start a little beside it; a joint, shape or solver of your own "
            "may have a root, a norm or a division at zero there",
        )

    def _no_gradient(self) -> Finding | None:
        if self.norm.any():
            return None
        return Finding("no gradient came back", "make the cost depend on the trajectory through the policy")

    def _dead_gradient(self) -> Finding | None:
        if not self.policy_norm <= DEAD * abs(self.cost):
            return None
        what = f"nothing the policy does reaches the cost (its gradient's norm is {self.policy_norm:.1g})"
        if (self.saturated >= 1).all():
            return Finding(f"{what}, as all servos are saturated all the time", STRONGER)
        return Finding(what, UNREACHED)

    def _ratio(self) -> Finding | None:
        live = self.norm[np.isfinite(self.norm) & (self.norm > 0)]
        if not live.size:
            return None
        tenth = max(live.size // 10, 1)
        ratio = live[:tenth].max() / np.median(live[-tenth:])
        if ratio > GROWS:
            remedy = (
                "gradients.clip(1.0) or gradients.fade(0.95) as hooks of the rollout if they are not there "
                "yet, or a shorter one"
            )
            return Finding(f"the gradient grows {ratio:.1e} times towards the start", remedy)
        if ratio < FADES:
            remedy = "less fading, or a cost that counts what happens early on"
            return Finding(
                f"the gradient shrinks to {ratio:.1e} towards the start, where it teaches nothing", remedy
            )
        return None

    def _unlike(self) -> Finding | None:
        if self.slope is None:
            return None
        seconds = f"over {len(self.norm) * self.dt:.2g} s"
        shorter = "a shorter rollout, and contacts solved to the end (a solver with a smaller residual)"
        if self.slope.agreement > AGREES:
            return Finding(f"differences of the cost {seconds} agree at no step: it is too rough", shorter)
        if self.slope.ratio <= 0:
            return Finding(f"along its gradient {seconds} the cost falls, by differences", shorter)
        return None

    def _steep(self) -> Finding | None:
        if not self.largest_growth > self.normal_growth:
            return None
        at = int(self.sampled[np.nanargmax(self.growth)])
        return Finding(
            f"step {at} multiplies a small change by {self.largest_growth:.3g}, where up to "
            f"{self.normal_growth:.3g} is normal for this robot",
            "it is a hit, or contacts that are not solved: more sweeps, a smaller time step, and "
            "gradients.clip(1.0) as a hook of the rollout if it is not there yet",
        )

    def _fallen(self) -> Finding | None:
        if self.fall is None:
            return None
        body, step, before, after = self.fall
        return Finding(
            f'"{body}" is on the floor from step {step} on ({step * self.dt:.2g} s), at a height of '
            f"{after:.2g} m in the end, from {before:.2g} m",
            f"roll out {max(step, 1)} steps at most until it stands so long, then more; a cost for "
            "height and tilt; a first policy that holds a posture",
        )

    def _weak(self) -> Finding | None:
        if not (self.saturated > 0.5).mean() > 0.5:
            return None
        what = "most servos are saturated most of the time"
        return Finding(what, STRONGER)

    def _differences(self) -> str:
        ratio, agreement, reach = self.slope or (np.nan,) * 3
        if agreement > AGREES:
            return "differences of the cost along it: they agree at no step"
        return (
            f"differences of the cost along it: {ratio:.3g} of its norm, within {100 * AGREES:.0f} % for "
            f"changes of the policy up to {reach:.0e} of its size"
        )

    def report(self) -> str:
        """A few lines to read."""
        norm = self.norm[np.isfinite(self.norm)]
        first, last = (norm[0], norm[-1]) if norm.size else (np.nan, np.nan)
        part = 100 * np.mean(self.saturated)
        return "\n".join(
            [
                f"cost: {self.cost:.3g}",
                f"gradient with respect to the policy: norm {self.policy_norm:.3g}",
                *([] if self.slope is None else [self._differences()]),
                f"gradient with respect to the state: {first:.3g} at the first step, {last:.3g} at the last",
                f"largest singular value of a step: median {np.median(self.growth):.3g}, "
                f"largest {self.largest_growth:.3g}; up to {self.normal_growth:.3g} is normal",
                *([f"saturated servos: {part:.0f} %"] if np.isfinite(part) else []),
                *([] if self.log is None else [describe(self.log)]),
                *self.findings,
                *([f"next: {self.next_step}"] if self.next_step else []),
            ]
        )


def health(cost: Callable[[Any, Array], Any], policy: Any, key: Array, log: Log | None = None) -> Health:
    """Look into the first rollout of `cost(policy, key)` and its gradient with respect to the policy.

    With the `log` of a training its findings are about that too.
    """
    probe = look_into(cost, policy, key)
    if not probe.records:
        raise ValueError("health: the cost did not call rollout, or it is compiled; give one that calls it")
    records = [probe.records[t] for t in range(max(probe.records) + 1)]
    steps = len(records)
    broken = next((t for t, record in enumerate(records) if not record.finite), None)
    befores = [eqx.combine(record.arrays, probe.facts) for record in records]
    sampled = np.unique(np.linspace(0, steps - 1, min(SAMPLES, steps)).astype(int))
    growth, saturated = zip(*(_look(probe.scheme, *befores[t]) for t in sampled), strict=True)
    model = befores[0][0]
    return Health(
        norm=np.array([0.0 if record.gradient is None else record.gradient for record in records]),
        sampled=sampled,
        growth=np.array(growth),
        saturated=np.array(saturated),
        normal_growth=NORMAL + NORMAL_SERVO * float(np.max(np.asarray(model.gain), initial=0)),
        nonfinite_state=broken,
        fall=find_fall(model, [state for _, state, _ in befores]) if broken is None else None,
        dt=float(probe.scheme.dt),
        log=log,
        cost=probe.cost,
        policy_norm=probe.policy_norm,
        slope=slope_along(lambda policy: value_of(cost)(policy, key), policy, probe.gradient),
    )


def _look(scheme: Any, model: Model, state: Any, u: Array) -> tuple[float, float]:
    """Largest singular value of one step, and the part of the servos that are saturated in it."""
    growth, after = largest_singular_value(scheme, model, state, u)
    torque = np.abs(np.asarray(servo_torque(model, after)))
    most = np.asarray(model.max_torque)
    return growth, float(np.mean(torque >= FULL * most)) if most.size else np.nan
