"""What every pair reports: the candidate touching points of two shapes."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from backflip.math import dot, unit

# gap of a candidate that is not there [m]: out of reach of any contact at any speed worth simulating,
# yet small enough that float32 sums with it still see a tenth of a millimetre
ABSENT = 1e3


class Touch(NamedTuple):
    """The k candidates of one pair A, B; k is fixed by the kinds.

    gap    (k,)   [m], signed distance of the surfaces, negative when they overlap; ABSENT if not there
    normal (k, 3) unit, in W, from A to B
    point  (k, 3) [m], in W, half-way between the surfaces along the normal
    """

    gap: Array
    normal: Array
    point: Array

    def with_rest_if(self, there: Array) -> "Touch":
        """The first candidate, and the others if they are there."""
        rest = jnp.where(there, self.gap[1:], ABSENT)
        return self._replace(gap=jnp.concatenate([self.gap[:1], rest]))


def touch_balls(p: Array, radius_p: Array, q: Array, radius_q: Array, fallback: Array) -> Touch:
    """Balls about p and q (k, 3), in W; where the centres coincide the normal is `fallback` (3,)."""
    n = unit(q - p, jnp.broadcast_to(fallback, p.shape))
    # n · (q − p) is |q − p|, and keeps a slope where the centres coincide
    gap = dot(n, q - p) - radius_p - radius_q
    return Touch(gap, n, p + n * (radius_p + gap / 2)[:, None])


def touch_plane(p: Array, radius: Array, p_WA: Array, R_WA: Array) -> Touch:
    """Balls about p (k, 3), in W, over the plane through p_WA whose normal is the z axis of R_WA."""
    n = jnp.broadcast_to(R_WA[:, 2], p.shape)
    gap = dot(n, p - p_WA) - radius
    return Touch(gap, n, p - n * (radius + gap / 2)[:, None])
