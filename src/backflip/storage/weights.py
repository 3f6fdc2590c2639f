"""Weights as .npz: arrays by name, nothing that could be executed.

A file is not trusted: names and sizes are compared with what is wanted before anything is unpacked, an
array's type and shape before its numbers are read, and the checksum of every array after that.
"""

import io
import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib import format as npy

from backflip.storage.files import DamagedFile, MisfitFile, write_atomically

HEADER = 10_000
"""[bytes] that the header of an array may take"""


def save_weights(path: str | Path, tree: Any) -> Path:
    """Write the arrays of a pytree by name; functions and other leaves stay in the code."""
    path = Path(path)
    with write_atomically(path) as draft:
        write_arrays(draft, tree)
    return path


def write_arrays(path: Path, tree: Any) -> None:
    """The arrays of a pytree, as they are saved."""
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{name: _plain(leaf) for name, leaf in _arrays(tree)})


def load_weights(path: str | Path, like: Any) -> Any:
    """A pytree like `like` with the arrays of a file; nothing in the file is ever executed.

    Raises DamagedFile where the file cannot be read, and MisfitFile where it holds something else than
    `like` does; both are ValueErrors. Floats of 4 and 8 bytes are converted into each other, and so are
    integers.
    """
    wanted = {name: _plain(leaf) for name, leaf in _arrays(like)}
    with Path(path).open("rb") as file:
        stored = _read(file, Path(path), wanted)

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


def _read(file: BinaryIO, path: Path, wanted: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The wanted arrays of an archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_members(path, members, wanted)
            return {m.filename.removesuffix(".npy"): _read_array(path, archive, m, wanted) for m in members}
    except (DamagedFile, MisfitFile):
        raise
    # whatever zipfile, zlib and numpy say to nonsense
    except Exception as error:
        raise DamagedFile(f"{path}: damaged, or no file of weights: {error}") from error


def _check_members(path: Path, members: list[zipfile.ZipInfo], wanted: dict[str, np.ndarray]) -> None:
    """Names and sizes, as the archive's table says, before anything is unpacked."""
    names = [member.filename.removesuffix(".npy") for member in members]
    if set(names) != wanted.keys() or len(names) != len(wanted):
        differ = sorted(set(names) ^ wanted.keys()) or sorted(n for n in names if names.count(n) > 1)
        more = f" and {len(differ) - 8} more" if len(differ) > 8 else ""
        raise MisfitFile(f"{path}: names do not fit: {', '.join(differ[:8])}{more}", differ)
    for member, name in zip(members, names, strict=True):
        most = wanted[name].size * max(wanted[name].itemsize, 8) + HEADER
        if member.file_size > most:
            raise MisfitFile(
                f"{path}: {name} has {member.file_size:,} bytes; at most {most:,} are wanted", [name]
            )


def _read_array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, wanted: dict) -> np.ndarray:
    """One array: its header first, then its numbers, then the checksum."""
    name = member.filename.removesuffix(".npy")
    like = wanted[name]
    with archive.open(member) as stream:
        raw = stream.read(member.file_size + 1)  # to the end: only there the checksum is compared
    data = io.BytesIO(raw)
    version = npy.read_magic(data)
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read_header(data, max_header_size=HEADER)
    if dtype.hasobject:
        raise MisfitFile(f"{path}: {name} holds Python objects, which are never loaded", [name])
    if shape != like.shape:
        raise MisfitFile(f"{path}: {name} has shape {shape}; {like.shape} is wanted", [name])
    if not _converts(dtype, npy.descr_to_dtype(npy.dtype_to_descr(like.dtype))):
        raise MisfitFile(f"{path}: {name} has type {dtype}; {like.dtype} is wanted", [name])
    if len(raw) - data.tell() != math.prod(shape) * dtype.itemsize:
        raise DamagedFile(f"{path}: {name} has another size than its header says")
    flat = np.frombuffer(raw, dtype, offset=data.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _converts(stored: np.dtype, wanted: np.dtype) -> bool:
    """Whether numbers may be taken over: of the same type, or of 4 and 8 bytes of the same kind."""
    if stored == wanted:
        return True
    return (
        stored.kind == wanted.kind and stored.kind in "fiu" and {stored.itemsize, wanted.itemsize} <= {4, 8}
    )


def _arrays(tree: Any) -> list[tuple[str, Any]]:
    """(name, array) of every array leaf; a name is its place in the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves if eqx.is_array(leaf)]


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
