"""Readers answer nonsense with an error that names the file, never with a crash or with wrong numbers."""

import io
import json
import os
import subprocess
import sys
import warnings
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import backflip as bf
from backflip.storage import (
    DamagedFile,
    Logbook,
    clear_folder,
    hold_folder,
    load_checkpoint,
    save_checkpoint,
    write_atomically,
)
from backflip.storage.logbook import read_log

TREE = {"w": jnp.linspace(0.0, 1.0, 6, dtype=jnp.float32).reshape(2, 3), "n": jnp.array(3, jnp.int32)}
FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    return bf.save_weights(tmp_path_factory.mktemp("good") / "weights.npz", TREE).read_bytes()


def load_or_refuse(path, data: bytes) -> None:
    """Either the very numbers that were saved, or a ValueError that names the file."""
    path.write_bytes(data)
    try:
        tree = bf.load_weights(path, TREE)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert all(np.array_equal(tree[name], TREE[name]) for name in TREE)


@FAST
@given(st.data())
def test_a_flipped_byte_is_noticed_or_harmless(good, tmp_path, data):
    place, byte = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 255))
    load_or_refuse(tmp_path / "weights.npz", good[:place] + bytes([byte]) + good[place + 1 :])


@FAST
@given(st.data())
def test_a_truncated_file_is_refused(good, tmp_path, data):
    load_or_refuse(tmp_path / "weights.npz", good[: data.draw(st.integers(0, len(good) - 1))])


@FAST
@given(st.binary(max_size=200))
@example(b"")
@example(b"PK\x03\x04")
@example(b"PK\x05\x06" + 18 * b"\0")
@example(b"\x93NUMPY\x01\x00")
def test_random_bytes_are_refused(tmp_path, data):
    load_or_refuse(tmp_path / "weights.npz", data)


def archive(path, **members: bytes):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_another_type_is_refused_even_with_a_valid_checksum(tmp_path):
    half = npy(np.zeros(4, np.float32)).replace(b"<f4", b"<f2")
    with pytest.raises(ValueError, match=r"weights\.npz: \['w'\] has type float16; float32 is wanted"):
        bf.load_weights(archive(tmp_path / "weights.npz", **{"['w'].npy": half}), {"w": jnp.zeros(4, "f4")})


def test_wider_floats_are_converted(tmp_path):
    file = archive(tmp_path / "weights.npz", **{"['w'].npy": npy(np.full(4, 0.5, np.float64))})
    back = bf.load_weights(file, {"w": jnp.zeros(4, jnp.float32)})["w"]
    assert back.dtype == jnp.float32 and np.all(back == 0.5)


def test_what_is_too_large_is_never_unpacked(tmp_path, monkeypatch):
    file = archive(tmp_path / "bomb.npz", **{"['w'].npy": npy(np.zeros(1_000_000, np.float32))})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked before it was looked at"))
    with pytest.raises(ValueError, match=r"bomb\.npz: \['w'\] has 4,000,128 bytes; at most 10,032"):
        bf.load_weights(file, {"w": jnp.zeros(4, jnp.float32)})
    with pytest.raises(ValueError, match=r"bomb\.npz: names do not fit: \['v'\], \['w'\]"):
        bf.load_weights(file, {"v": jnp.zeros(1_000_000, jnp.float32)})


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        bf.load_weights(tmp_path / "nothing.npz", TREE)


def saved(folder, *numbers: int) -> None:
    for n in numbers:
        save_checkpoint(folder, {"n": jnp.array(n)})


def test_a_damaged_checkpoint_gives_way_to_the_older_one(tmp_path):
    saved(tmp_path, 1, 2, 3)
    (tmp_path / "checkpoint.npz").write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match=r"checkpoint\.npz: damaged.*going on from the older"):
        assert load_checkpoint(tmp_path, {"n": jnp.array(0)})["n"] == 2
    (tmp_path / "checkpoint-older.npz").write_bytes(b"nonsense")
    with pytest.raises(DamagedFile, match=r"checkpoint\.npz: damaged.*remove it to begin anew"):
        load_checkpoint(tmp_path, {"n": jnp.array(0)})


def test_a_checkpoint_of_something_else_is_refused_not_replaced(tmp_path):
    saved(tmp_path, 1, 2)
    with pytest.raises(ValueError, match="names do not fit"):
        load_checkpoint(tmp_path, {"m": jnp.array(0)})


def test_a_kill_while_a_checkpoint_is_replaced_leaves_the_older_one(tmp_path):
    saved(tmp_path, 1, 2)
    (tmp_path / "checkpoint.npz").unlink()
    assert load_checkpoint(tmp_path, {"n": jnp.array(0)})["n"] == 1
    assert load_checkpoint(tmp_path / "elsewhere", {"n": jnp.array(0)}) is None


def test_a_bad_line_of_a_log_costs_one_row_and_is_reported(tmp_path):
    lines = [json.dumps({"update": i, "cost": 1.0}) for i in range(5)]
    lines[2] = lines[2][:-4] + "\xff"
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="latin-1")
    with pytest.warns(
        UserWarning, match=r"log\.jsonl: cannot read line 3; 1 of 5 rows are missing \(update 2"
    ):
        book = Logbook(tmp_path, done=5)
    book.close()
    assert [row["update"] for row in book.rows] == [0, 1, 3, 4]


@FAST
@given(st.binary(max_size=120))
@example(b"[" * 100_000)
@example(b'{"update": true}\n{"update": 1e400}\n9\n{"update": 1}')
def test_any_bytes_can_be_read_as_a_log(tmp_path, data):
    (tmp_path / "log.jsonl").write_bytes(data)
    rows, unreadable = read_log(tmp_path / "log.jsonl")
    assert len(rows) + len(unreadable) <= data.count(b"\n") + 1
    assert all(type(row["update"]) is int for row in rows)


DEAD = 2**22 + 1
"""a process number above what Linux gives"""


def test_drafts_of_killed_processes_are_removed(tmp_path):
    left, other, mine = (tmp_path / f".{n}.tmp" for n in (f"a.{DEAD}-1", f"b.{DEAD}-1", f"a.{os.getpid()}-1"))
    for file in (left, other, mine):
        file.touch()
    with write_atomically(tmp_path / "a") as draft:
        draft.touch()
    assert left.exists(), "young drafts may be those of another machine"
    os.utime(left, (0, 0))
    with write_atomically(tmp_path / "a") as draft:
        draft.touch()
    assert not left.exists() and other.exists() and mine.exists()
    with hold_folder(tmp_path):
        assert not other.exists() and mine.exists()


def test_a_folder_is_held_by_one_run_at_a_time(tmp_path):
    with hold_folder(tmp_path):
        with pytest.raises(ValueError, match=f"{tmp_path}: process {os.getpid()} is using this folder"):
            hold_folder(tmp_path).__enter__()
        code = f"from backflip.storage.files import *; hold_folder(Path({str(tmp_path)!r})).__enter__()"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"process {os.getpid()} is using this folder" in other.stderr
    with hold_folder(tmp_path):
        pass


def test_a_cleared_folder_is_empty_and_what_a_link_leads_to_is_left_as_it_was(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert not list(clear_folder(tmp_path / "link").iterdir())
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "real" / "file").exists()
    assert not list(clear_folder(tmp_path / "real").iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not list(clear_folder(tmp_path / "new").iterdir())


def test_a_fresh_run_does_not_go_on_with_what_a_link_leads_to(tmp_path):
    from backflip.experiments.training import train_seeds

    (tmp_path / "earlier" / "0").mkdir(parents=True)
    (tmp_path / "earlier" / "0" / "checkpoint.npz").touch()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "seed").symlink_to(tmp_path / "earlier")

    def train(s, folder, **_):
        assert not folder.exists()
        return None, None

    train_seeds(tmp_path, 0, None, None, train, count=1)
    assert (tmp_path / "earlier" / "0" / "checkpoint.npz").exists()
