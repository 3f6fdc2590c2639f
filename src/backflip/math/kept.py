"""What is dear to compute and constant to derivatives is computed once, and kept for them."""

from jax import Array
from jax.ad_checkpoint import checkpoint_name, checkpoint_policies
from jax.lax import stop_gradient

NAME = "constant"
"""by which `lanes` know it too"""

keeping = checkpoint_policies.save_only_these_names(NAME)
"""Policy of a jax.checkpoint that stores nothing else"""


def keep(x: Array) -> Array:
    """x without a derivative; stored for the backward pass."""
    return checkpoint_name(stop_gradient(x), NAME)
