"""How healthy a gradient is: where in time it comes from, what a step does to it, what stands in its way."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from backflip.dynamics import Scheme, servo_torque, step
from backflip.learn.probe import Probe, probing, value_of
from backflip.math import matmul, orthonormal, rotate, transpose
from backflip.model import Model, State

SAMPLES = 32
"""steps along the rollout whose Jacobian is looked at"""
FULL = 0.99
"""of its torque: from here on a servo counts as saturated"""
GROWS, FADES = 1e3, 1e-3
"""ratio of the gradient at the start to that at the end, from which on it is said to explode or vanish"""


@dataclass(frozen=True)
class Health:
    """What was found along one rollout."""

    norm: np.ndarray
    """(steps,) norm of the cost's gradient with respect to the state after each step; NaN: none came back"""
    sampled: np.ndarray
    """(k,) steps at which the next two were measured"""
    growth: np.ndarray
    """(k,) largest singular value of the Jacobian of a step, in m, rad, m/s and rad/s"""
    saturated: np.ndarray
    """(k,) share of the servos that give all their torque; NaN where there are none"""

    @property
    def findings(self) -> list[str]:
        """Sentences, the gravest first."""
        finite = np.isfinite(self.norm)
        told = []
        if not finite.any():
            return ["no gradient came back: does the cost depend on the trajectory?"]
        if not finite.all():
            told.append(f"the gradient is not finite before step {int(np.argmax(finite))}")
        live = self.norm[finite & (self.norm > 0)]
        if live.size:
            ratio = live[: max(live.size // 10, 1)].max() / np.median(live[-max(live.size // 10, 1) :])
            if ratio > GROWS:
                told.append(
                    f"it grows {ratio:.1e} times towards the start: fade or cut it, or shorten the rollout"
                )
            elif ratio < FADES:
                told.append(f"it shrinks to {ratio:.1e} towards the start: early steps learn nothing")
        if (self.saturated > 0.5).mean() > 0.5:
            told.append("most servos are saturated most of the time: give them torque, or ask less of them")
        return told or ["nothing stands out"]

    def report(self) -> str:
        """A few lines to read."""
        norm = self.norm[np.isfinite(self.norm)]
        first, last = (norm[0], norm[-1]) if norm.size else (np.nan, np.nan)
        share = 100 * np.mean(self.saturated)
        return "\n".join(
            [
                f"gradient with respect to the state: {first:.3g} at the first step, {last:.3g} at the last",
                f"largest singular value of a step: median {np.median(self.growth):.3g}, "
                f"most {self.growth.max():.3g}",
                *([f"saturated servos: {share:.0f} %"] if np.isfinite(share) else []),
                *self.findings,
            ]
        )


def health(cost: Callable[[Any, Array], Any], policy: Any, key: Array) -> Health:
    """Look into the first rollout of `cost(policy, key)` and its gradient with respect to the policy."""
    with probing(Probe(look=True)) as probe:
        jax.block_until_ready(eqx.filter_jit(eqx.filter_grad(value_of(cost)))(policy, key))
        jax.effects_barrier()
    if not probe.records:
        raise ValueError("health: the cost did not call rollout, or it is compiled; give one that calls it")
    steps = max(probe.records) + 1
    back = [probe.records[t].gradient for t in range(steps)]
    sampled = np.unique(np.linspace(0, steps - 1, min(SAMPLES, steps)).astype(int))
    befores = [eqx.combine(probe.records[t].arrays, probe.facts) for t in sampled]
    grown, full = zip(*(_look(probe.scheme, *before) for before in befores), strict=True)
    return Health(
        np.array([np.nan if g is None else g for g in back]), sampled, np.array(grown), np.array(full)
    )


def _look(scheme: Scheme, model: Model, state: State, u: Array) -> tuple[float, float]:
    """Largest singular value of one step, and the share of servos that are saturated in it."""
    J, after = _jacobian(scheme, model, state, u)
    torque = np.abs(np.asarray(servo_torque(model, after)))
    most = np.asarray(model.max_torque)
    share = float(np.mean(torque >= FULL * most)) if most.size else np.nan
    return float(np.linalg.norm(np.nan_to_num(np.asarray(J, float)), 2)), share


@eqx.filter_jit
def _jacobian(scheme: Scheme, model: Model, state: State, u: Array) -> tuple[Array, State]:
    """(12 n, 12 n): how poses and twists after a step follow those before; and the state after."""

    def moved(by: Array) -> tuple[Array, State]:
        after = step(scheme, model, _nudged(state, by), u)
        turn = matmul(after.R_WB, transpose(jax.lax.stop_gradient(after.R_WB)))
        # the rotation vector of a small turn is the odd part of its matrix
        theta = jnp.stack([turn[:, i, k] - turn[:, k, i] for i, k in ((2, 1), (0, 2), (1, 0))], -1) / 2
        return jnp.stack([after.p_WB, theta, after.v_WB, after.w_WB]).reshape(-1), after

    return jax.jacfwd(moved, has_aux=True)(jnp.zeros(4 * state.p_WB.size, state.p_WB.dtype))


def _nudged(state: State, by: Array) -> State:
    """The state moved by (4, n, 3), flat: positions, rotation vectors, velocities and spins."""
    p, theta, v, w = by.reshape(4, *state.p_WB.shape)
    R = orthonormal(rotate(theta, state.R_WB))
    return eqx.tree_at(
        lambda s: (s.p_WB, s.R_WB, s.v_WB, s.w_WB), state, (state.p_WB + p, R, state.v_WB + v, state.w_WB + w)
    )
