"""Arguments of the wrong kind, named before anything is made of them."""

import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


def check_key(who: str, key: Any) -> None:
    """Raise ValueError where `key` is not one random key."""
    typed = eqx.is_array(key) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    plain = eqx.is_array(key) and key.dtype == jnp.uint32
    if not ((typed and key.ndim == 0) or (plain and key.ndim == 1)):
        given = f"an array {key.dtype}{list(key.shape)}" if eqx.is_array(key) else repr(key)
        raise ValueError(f"{who}: key is {given}; give one key, such as jax.random.key(0)")


def check_sizes(who: str, smallest: int = 1, **sizes: Any) -> None:
    """Raise ValueError where a size is no whole number from `smallest` up."""
    for name, size in sizes.items():
        try:
            fits = operator.index(size) >= smallest
        except TypeError:
            fits = False
        if not fits:
            given = repr(size) if isinstance(size, int | float | str | None) else f"a {type(size).__name__}"
            raise ValueError(f"{who}: {name} is {given}; give a whole number from {smallest} up")


def check_layers(who: str, hidden: Any) -> tuple[int, ...]:
    """The sizes of hidden layers; ValueError where they are none."""
    try:
        sizes = tuple(hidden)
    except TypeError:
        remedy = f"({hidden!r},)" if isinstance(hidden, int) else "(128, 128)"
        raise ValueError(
            f"{who}: hidden is {hidden!r}; give the sizes of all hidden layers, such as hidden={remedy}"
        ) from None
    check_sizes(who, **{f"hidden[{i}]": size for i, size in enumerate(sizes)})
    return sizes
