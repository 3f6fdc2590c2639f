"""Weights as .npz: arrays by name, nothing that could be executed."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from backflip.storage.files import write_atomically


def save_weights(path: str | Path, tree: Any) -> Path:
    """Write the arrays of a pytree by name; functions and other leaves stay in the code."""
    path = Path(path)
    with write_atomically(path) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: _plain(leaf) for name, leaf in _arrays(tree)})
    return path


def load_weights(path: str | Path, like: Any) -> Any:
    """A pytree like `like` with the arrays of a file; nothing in the file is ever executed."""
    with np.load(path, allow_pickle=False) as file:
        stored = {name: file[name] for name in file.files}
    wanted = dict(_arrays(like))
    if stored.keys() != wanted.keys():
        raise ValueError(f"{path}: names do not fit: {', '.join(sorted(stored.keys() ^ wanted.keys()))}")
    for name, leaf in wanted.items():
        if stored[name].shape != _plain(leaf).shape:
            raise ValueError(f"{path}: {name} has shape {stored[name].shape}; {_plain(leaf).shape} is wanted")

    def fill(place: Any, leaf: Any) -> Any:
        name = jax.tree_util.keystr(place)
        if name not in wanted:
            return leaf
        if _is_key(leaf):
            return jax.random.wrap_key_data(jnp.asarray(stored[name]), impl=jax.random.key_impl(leaf))
        array = stored[name]
        # numpy does not know bfloat16 and the like, and stores their bytes
        return jnp.asarray(array.view(leaf.dtype) if array.dtype.kind == "V" else array, leaf.dtype)

    return jax.tree_util.tree_map_with_path(fill, like)


def _arrays(tree: Any) -> list[tuple[str, Any]]:
    """(name, array) of every array leaf; a name is its place in the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves if eqx.is_array(leaf)]


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
