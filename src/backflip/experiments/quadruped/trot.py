"""Controllers of the walking experiments: a clock, and a network that begins as a trot."""

from typing import NamedTuple

import numpy as np

DT, STRIDE = 0.01, 200
"""[s]; steps that make whole strides, over which a posture is the mean"""
FREQUENCY = 1.5
"""[Hz]"""
POSTURE = 0.5
"""how much of its mean angle a servo is given. Rectifiers are all bias: without this a step of the weights
moves the posture several times as far as the swing, and the robot leans until it falls"""
LEGS = (0.0, np.pi, np.pi, 0.0)
"""[rad] phases: front left, front right, back left, back right"""
OTHER_SIDE = np.array([2, 3, 0, 1, 6, 7, 4, 5])
"""the servo that is this one's mirror image"""


class Trot(NamedTuple):
    """Diagonal legs together; all in rad."""

    hip: float
    knee: float
    """swings"""
    bend: float
    """of the knees, mean"""
    lead: float
    """of the knee before the hip"""
    lean: float
    """of the hips, mean"""
    beat: float = 0.0
    """swing of the knees at twice the frequency: they bend under the body too, and kick off"""
    beat_lead: float = 0.0
    """of the beat before the hip"""

    @property
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """(8, 2) and (8,): what a dense layer on sine and cosine needs to trot, but for the beat."""
        swings, means = [], []
        for phase in LEGS:
            for swing, ahead, mean in (
                (self.hip, phase, self.lean),
                (self.knee, phase + self.lead, self.bend),
            ):
                swings.append([-swing * np.sin(ahead), swing * np.cos(ahead)])
                means.append(mean)
        return np.array(swings), np.array(means)

    def beats(self, clock: np.ndarray) -> np.ndarray:
        """(times, 8) the beat alone, for sine and cosine (times, 2)."""
        angle = np.arctan2(*clock.T)[:, None] + np.array(LEGS)
        knees = self.beat * np.sin(2 * angle + self.beat_lead)
        return np.stack([0 * knees, knees], -1).reshape(len(clock), 8)


SLOW = Trot(hip=0.3, knee=0.3, bend=-0.15, lead=2.5, lean=0.05)
"""a shuffle. Training from standing still does not work, for that is a saddle: all legs are alike, no small
change of one lifts a foot, and what the gradient finds is to lean forward, and fall"""


def network(seed: int, trot: Trot = SLOW):
    """2-128-128-8 with skip, 17,952 weights; the skip layer trots, the output layer beats or is silent."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import backflip as bf

    silent = bf.MLP(2, 8, (128, 128), key=jax.random.key(seed), skip=True)
    features = stride = bf.clock(STRIDE, DT, FREQUENCY)
    for layer in silent.hidden:
        features = silent.activation(jax.vmap(layer)(features))
    # rectifiers of a sine and a cosine are many and alike: without a bound their weights would be huge
    beating = np.linalg.lstsq(np.asarray(features), trot.beats(np.asarray(stride)), rcond=1e-3)[0].T
    swings, means = trot.weights
    start = (jnp.asarray(x, jnp.zeros(()).dtype) for x in (swings, means / POSTURE, beating))
    return eqx.tree_at(lambda p: (p.skip.weight, p.skip.bias, p.top.weight), silent, tuple(start))


def controls(policy, steps: int, times: int = 1, ahead=0.0):
    """(steps, 8) what a policy does with the clock, which may be `ahead` by a part of a stride.

    Steps are `times` as short as DT.
    """
    import backflip as bf

    dt = DT / times
    stride = bf.open_loop(policy, bf.clock(times * STRIDE, dt, FREQUENCY)).mean(0)
    return bf.open_loop(policy, bf.clock(steps, dt, FREQUENCY, ahead)) - (1 - POSTURE) * stride


def symmetric(policy):
    """The policy with the right side half a stride behind the left: the mean of it and its mirror image."""

    def both(clock, memory):
        (here, memory), (there, _) = policy(clock, memory), policy(-clock, memory)
        return (here + there[OTHER_SIDE]) / 2, memory

    return both
