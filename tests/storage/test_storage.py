"""What a run leaves behind is whole, safe to open, and fits or is refused."""

import json
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import backflip as bf
from backflip.storage import Logbook, write_atomically

KEY = jax.random.key(3)


def network(hidden=(4,), **options) -> bf.MLP:
    return bf.MLP(2, 1, hidden, key=KEY, **options)


def test_weights_come_back_bitwise(tmp_path):
    tree = {
        "net": network(),
        "half": jnp.full((2,), 1 / 3, jnp.float16),
        "count": jnp.array(7),
        "key": jax.random.key(5),
        "name": "stays in the code",
    }
    blank = jax.tree.map(lambda x: jnp.zeros_like(x) if hasattr(x, "dtype") and x.ndim else x, tree)
    back = bf.load_weights(bf.save_weights(tmp_path / "new folder" / "weights.npz", tree), blank)
    assert back["name"] == tree["name"]
    assert jnp.array_equal(jax.random.key_data(back["key"]), jax.random.key_data(tree["key"]))
    for one in ("net", "half", "count"):
        for a, b in zip(jax.tree.leaves(back[one]), jax.tree.leaves(tree[one]), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def test_weights_are_plain_arrays_by_name(tmp_path):
    file = bf.save_weights(tmp_path / "weights.npz", network())
    with np.load(file, allow_pickle=False) as arrays:
        assert set(arrays.files) == {".hidden[0].weight", ".hidden[0].bias", ".top.weight", ".top.bias"}
    assert all(name.endswith(".npy") for name in zipfile.ZipFile(file).namelist())


def test_pickles_are_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("boom").touch, ())

    np.savez(tmp_path / "evil.npz", **{"['b']": np.array([Bomb()], object)})
    with pytest.raises(ValueError, match=r"evil\.npz: \['b'\] holds Python objects"):
        bf.load_weights(tmp_path / "evil.npz", {"b": jnp.zeros(1)})
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"hidden": (5,)}, r"weights\.npz: \.hidden\[0\]\.weight has shape \(4, 2\); \(5, 2\) is wanted"),
        ({"skip": True}, r"weights\.npz: names do not fit: \.skip\.bias, \.skip\.weight"),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, other, message):
    file = bf.save_weights(tmp_path / "weights.npz", network())
    with pytest.raises(ValueError, match=message):
        bf.load_weights(file, network(**other))


def test_weights_in_half_precision_of_another_kind_come_back(tmp_path):
    tree = {"w": jnp.full((3,), 1.5, jnp.bfloat16)}
    back = bf.load_weights(bf.save_weights(tmp_path / "weights.npz", tree), tree)
    np.testing.assert_array_equal(back["w"], tree["w"])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    file = tmp_path / "file"
    file.write_text("old")
    with pytest.raises(KeyboardInterrupt), write_atomically(file) as draft:
        draft.write_text("ne")
        assert file.read_text() == "old"
        raise KeyboardInterrupt
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]
    with write_atomically(file) as draft:
        draft.write_text("new")
    assert file.read_text() == "new" and list(tmp_path.iterdir()) == [file]


def write(folder, updates):
    book = Logbook(folder)
    for i in updates:
        book.add({"update": i, "cost": 1.0 / (i + 1)})
    book.close()
    return folder / "log.jsonl"


def test_a_row_is_on_its_way_to_the_disk_at_once(tmp_path):
    book = Logbook(tmp_path)
    book.add({"update": 0, "cost": 2.5})
    assert json.loads((tmp_path / "log.jsonl").read_text()) == {"update": 0, "cost": 2.5}
    book.close()


@pytest.mark.parametrize("damage", ['{"update": 3, "co', "\0\0\0\0", '{"update": 3, "cost": 0.1'])
def test_a_line_cut_short_is_dropped(tmp_path, damage):
    file = write(tmp_path, range(3))
    with file.open("a") as log:
        log.write(damage)
    book = Logbook(tmp_path, done=3)
    book.add({"update": 3, "cost": 0.25})
    book.close()
    assert [json.loads(line)["update"] for line in file.read_text().splitlines()] == [0, 1, 2, 3]
    assert [row["update"] for row in book.rows] == [0, 1, 2, 3]


def test_rows_later_than_the_checkpoint_are_dropped(tmp_path):
    file = write(tmp_path, range(5))
    Logbook(tmp_path, done=2).close()
    assert [json.loads(line)["update"] for line in file.read_text().splitlines()] == [0, 1]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = Logbook(None)
    book.add({"update": 0, "cost": 1.0})
    book.close()
    assert len(book.rows) == 1 and not list(tmp_path.iterdir())


def test_progress_is_on_stderr_and_says_what_it_knows(capsys):
    progress = bf.Progress()
    with progress.task("walking", total=4, done=1) as task:
        task.advance(1, cost=0.123456)
        task.say("[a remark]")
    out, err = capsys.readouterr()
    assert not out
    assert all(part in err for part in ("walking", "2/4", "left", "cost 0.1235", "[a remark]"))
    assert progress.figures == {"cost": 0.123456}


def test_quiet_progress_says_nothing(capsys):
    with bf.Progress(quiet=True).task("walking") as task:
        task.advance(cost=1.0)
        task.say("a remark")
    assert capsys.readouterr() == ("", "")
