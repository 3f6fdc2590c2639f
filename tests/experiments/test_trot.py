"""What the walking experiments begin with."""

import jax.numpy as jnp
import numpy as np

import backflip as bf
from backflip.experiments.quadruped import trot

KICKING = trot.Trot(hip=0.35, knee=0.2, bend=-0.5, lead=2.4, lean=0.05, beat=0.4, beat_lead=0.2)


def test_a_network_plays_its_trot() -> None:
    angles = np.asarray(trot.controls(trot.network(3, KICKING), trot.STRIDE))
    clock = np.asarray(bf.clock(trot.STRIDE, trot.DT, trot.FREQUENCY))
    swings, means = KICKING.weights
    np.testing.assert_allclose(angles, clock @ swings.T + means + KICKING.beats(clock), atol=0.03)


def test_left_does_half_a_stride_later_what_right_does_now() -> None:
    policy = trot.symmetric(
        lambda clock, memory: (jnp.sin(jnp.arange(8.0) + 3 * clock.sum() + clock[0]), memory)
    )
    now, later = (trot.controls(policy, 50, ahead=ahead) for ahead in (0.0, 0.5))
    np.testing.assert_allclose(later, now[:, trot.OTHER_SIDE], atol=1e-12)
