"""Kept kernels: found again, never trusted unchecked, and never in the user's way."""

import ast
import errno
import os
import stat
import subprocess
import sys
import threading
import time
import warnings
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backflip.lanes import store

KEY, OTHER = sha256(b"a kernel").hexdigest(), sha256(b"another").hexdigest()
KERNEL = b"\x7fELF\n\x00" + bytes(range(256))
DAY = 24 * 3600

# one folder serves all examples of a test: each starts by writing the file anew
examples = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
posix = pytest.mark.skipif(os.name != "posix", reason="owner, mode and links as POSIX has them")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh folder for kernels, with a home of its own beside it; no warning goes unseen."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("BACKFLIP_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setattr(store, "_warned", set())
    return tmp_path / "kernels"


def never() -> bytes:
    raise AssertionError("built, though a kernel was kept")


def keep(key: str = KEY, kernel: bytes = KERNEL) -> Path:
    """Keep a kernel, and prove that it is found again."""
    assert store.fetch(key, lambda: kernel) == kernel
    assert store.fetch(key, never) == kernel
    place = store.folder()
    assert place is not None
    return place / f"{key}.kernel"


def is_rebuilt(key: str = KEY) -> bool:
    """Whether a kernel is built anew; if so, the new one is returned."""
    calls: list[bytes] = []

    def build() -> bytes:
        calls.append(b"new")
        return b"new"

    kernel = store.fetch(key, build)
    assert (kernel == b"new") == bool(calls)
    return bool(calls)


def is_rebuilt_and_kept() -> bool:
    return is_rebuilt() and store.fetch(KEY, never) == b"new"


def names(place: Path) -> set[str]:
    return {file.name for file in place.iterdir()}


# --- found again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, b"", b"\n", b"\n" * 9, bytes(10**6)], ids=len)
def test_a_kept_kernel_is_found_again(kernel: bytes) -> None:
    keep(KEY, kernel)
    keep(OTHER, b"of its own")
    assert store.fetch(KEY, never) == kernel


def test_a_build_that_fails_says_so_and_keeps_nothing(place: Path) -> None:
    def fail() -> bytes:
        raise OSError("the compiler is missing")

    with pytest.raises(OSError, match="compiler is missing"):
        store.fetch(KEY, fail)
    assert names(place) == set()


@pytest.mark.parametrize("key", ["", "../" + KEY, KEY.upper(), KEY + "\n", "/etc/passwd", "kernel"])
def test_a_key_that_is_no_hex_digest_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="hex digest"):
        store.fetch(key, never)


@posix
def test_folder_and_files_are_private() -> None:
    old = os.umask(0)
    try:
        file = keep()
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


# --- damaged or foreign -------------------------------------------------------------------------------------


@examples
@given(where=st.integers(0, 10**6), bits=st.integers(1, 255))
def test_a_flipped_bit_anywhere_is_noticed(where: int, bits: int) -> None:
    file = keep_afresh()
    content = bytearray(file.read_bytes())
    content[where % len(content)] ^= bits
    file.write_bytes(content)
    assert is_rebuilt_and_kept()


@examples
@given(where=st.integers(0, 10**6))
def test_a_truncated_file_is_noticed(where: int) -> None:
    file = keep_afresh()
    content = file.read_bytes()
    file.write_bytes(content[: where % len(content)])
    assert is_rebuilt_and_kept()


@examples
@given(content=st.binary())
def test_a_foreign_file_is_noticed(content: bytes) -> None:
    keep_afresh().write_bytes(content)
    assert is_rebuilt_and_kept()


def keep_afresh() -> Path:
    place = store.folder()
    assert place is not None
    (place / f"{KEY}.kernel").unlink(missing_ok=True)
    return keep()


DAMAGE = {
    "empty": lambda content: b"",
    "nothing but ELF": lambda content: KERNEL,
    "longer": lambda content: content + b"\0",
    "twice": lambda content: content * 2,
    "blank line first": lambda content: b"\n" + content,
    "other version": lambda content: content.replace(b"kernel 1 ", b"kernel 2 "),
    "other key": lambda content: content.replace(KEY.encode(), OTHER.encode()),
    "other length": lambda content: content.replace(b" %d " % len(KERNEL), b" %d " % (len(KERNEL) + 1)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_repaired(damage) -> None:
    file = keep()
    before = file.read_bytes()
    file.write_bytes(damage(before))
    assert file.read_bytes() != before
    assert is_rebuilt_and_kept()


def test_a_renamed_kernel_is_not_taken_for_another() -> None:
    keep(OTHER).rename(keep())
    assert is_rebuilt_and_kept()


def test_a_file_beyond_the_bound_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = keep()
    monkeypatch.setattr(store, "MAX_BYTES", file.stat().st_size - 1)
    assert is_rebuilt()


@posix
def test_a_link_is_not_followed_and_its_target_left_alone(tmp_path: Path) -> None:
    file, target = keep(), tmp_path / "elsewhere"
    file.rename(target)
    before = target.read_bytes()
    file.symlink_to(target)
    assert is_rebuilt_and_kept()
    assert not file.is_symlink()
    assert target.read_bytes() == before


@posix
def test_a_pipe_does_not_make_us_wait() -> None:
    file = keep()
    file.unlink()
    os.mkfifo(file)
    assert is_rebuilt_and_kept()


@posix
def test_what_comes_through_a_pipe_is_not_used() -> None:
    file = keep()
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file, 0o600)
    pipe = os.open(file, os.O_RDWR)
    try:
        os.write(pipe, content)
        assert is_rebuilt_and_kept()
    finally:
        os.close(pipe)


def test_a_folder_in_the_place_of_a_file_is_passed_over() -> None:
    file = keep()
    file.unlink()
    file.mkdir()
    assert is_rebuilt()
    assert names(file.parent) == {file.name}


# --- written by others --------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_a_file_that_others_can_write_is_replaced(mode: int) -> None:
    file = keep()
    file.chmod(mode)
    assert is_rebuilt_and_kept()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@posix
def test_a_file_that_others_can_only_read_is_used() -> None:
    keep().chmod(0o644)
    assert not is_rebuilt()


@posix
def test_a_file_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    true_fstat = os.fstat

    def fstat(fd: int) -> os.stat_result:
        facts = list(true_fstat(fd))
        facts[stat.ST_UID] += 1
        return os.stat_result(facts)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fstat)
        assert is_rebuilt()
    assert store.fetch(KEY, never) == b"new"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away")
def test_a_file_given_away_is_not_used() -> None:
    file = keep()
    os.chown(file, 12345, -1)
    assert is_rebuilt_and_kept()
    assert file.stat().st_uid == os.getuid()


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_not_used(mode: int) -> None:
    file = keep()
    file.parent.chmod(mode)
    with pytest.warns(UserWarning, match=r"not stored.*kernels.*chmod go-w.*BACKFLIP_CACHE=off"):
        assert is_rebuilt()
    with warnings.catch_warnings(action="error"):  # said once
        assert is_rebuilt(OTHER)
        assert store.folder() is None
    file.parent.chmod(0o755)
    assert not is_rebuilt()
    assert names(file.parent) == {file.name}


@posix
def test_a_folder_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    file, me = keep(), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.warns(UserWarning, match=rf"belongs to user {me}, not to you.*BACKFLIP_CACHE"):
        assert is_rebuilt()
    assert is_rebuilt(OTHER)
    assert names(file.parent) == {file.name}


@posix
def test_without_users_and_modes_kernels_are_still_kept_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for absent in ("getuid", "O_NOFOLLOW", "O_NONBLOCK"):  # as on Windows
        monkeypatch.delattr(os, absent)
    file = keep()
    file.chmod(0o666)
    file.parent.chmod(0o777)
    assert not is_rebuilt()
    file.write_bytes(file.read_bytes()[:-1])
    assert is_rebuilt_and_kept()


# --- where --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("off", ["off", "OFF", "0"])
def test_off_keeps_nothing(off: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFLIP_CACHE", off)
    monkeypatch.chdir(tmp_path)
    assert store.folder() is None
    assert is_rebuilt() and is_rebuilt()
    assert names(tmp_path) == set()


def test_the_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.folder() == tmp_path / "kernels"
    monkeypatch.setenv("BACKFLIP_CACHE", "~/mine")
    assert store.folder() == tmp_path / "home" / "mine"
    monkeypatch.setenv("BACKFLIP_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.folder() == tmp_path / "xdg" / "backflip" / "lanes"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(sys, "platform", "linux")
    assert store.folder() == tmp_path / "home" / ".cache" / "backflip" / "lanes"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert store.folder() == tmp_path / "home" / "Library" / "Caches" / "backflip" / "lanes"


@pytest.mark.parametrize("below", ["file", "file/kernels", "\udcff/" * 3000, "x" * 300])
def test_where_no_folder_can_be_made_kernels_are_built(below: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BACKFLIP_CACHE", str(tmp_path / below))
    with warnings.catch_warnings(action="error"):
        assert store.folder() is None
        assert is_rebuilt() and is_rebuilt()


def test_without_a_home_kernels_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFLIP_CACHE", "~nobody-of-this-name/kernels")
    assert store.folder() is None
    assert is_rebuilt() and is_rebuilt()


# --- XLA's own ----------------------------------------------------------------------------------------------


def test_xla_has_a_folder_beside_ours_or_below_the_one_that_is_named(place: Path, monkeypatch) -> None:
    assert store.xla_folder() == place / "xla"
    monkeypatch.delenv("BACKFLIP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.parent))
    assert store.xla_folder() == place.parent / "backflip" / "xla"
    monkeypatch.setenv("BACKFLIP_CACHE", "off")
    assert store.xla_folder() is None


@posix
def test_a_folder_of_xla_that_others_can_write_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    place = store.xla_folder()
    assert place is not None
    place.chmod(0o777)
    with pytest.warns(UserWarning, match=r"XLA programs are not stored.*remove it"):
        assert store.xla_folder() is None
    place.chmod(0o700)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    monkeypatch.setattr(store, "_warned", set())
    with pytest.warns(UserWarning, match=rf"belongs to user {me}, not to you"):
        assert store.xla_folder() is None


@posix
def test_programs_of_xla_that_others_could_have_written_are_removed(tmp_path: Path) -> None:
    place = store.xla_folder()
    assert place is not None
    for name, mode in (("mine", 0o600), ("open", 0o666)):
        (place / name).write_bytes(b"program")
        (place / name).chmod(mode)
    (place / "link").symlink_to(tmp_path)
    store.xla_folder()
    assert names(place) == {"mine", "open"}  # nobody else can enter
    place.chmod(0o755)
    assert store.xla_folder() == place
    assert names(place) == {"mine"} and stat.S_IMODE(place.stat().st_mode) == 0o700


# --- trouble with the disk ----------------------------------------------------------------------------------


def fail_with(code: int):
    def fail(*args, **options):
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EMFILE])
def test_a_folder_that_takes_no_file_still_gives_those_it_has(code: int, monkeypatch) -> None:
    file = keep()
    true_open = os.open

    def open_to_read(path, flags, *args, **options):
        return (fail_with(code) if flags & os.O_CREAT else true_open)(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", open_to_read)
    monkeypatch.setattr(os, "utime", fail_with(code))
    assert not is_rebuilt()
    assert is_rebuilt(OTHER) and is_rebuilt(OTHER)
    assert names(file.parent) == {file.name}


@posix
def test_a_read_only_folder_still_gives_what_it_has() -> None:
    file = keep()
    file.parent.chmod(0o500)
    try:
        if os.access(file.parent, os.W_OK):
            pytest.skip("root writes everywhere")
        assert not is_rebuilt()
        assert is_rebuilt(OTHER) and is_rebuilt(OTHER)
    finally:
        file.parent.chmod(0o700)


def test_an_unreadable_file_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail_with(errno.EIO))
        assert is_rebuilt()
    assert store.fetch(KEY, never) == b"new"


@posix
def test_a_disk_that_fills_up_half_way_leaves_no_file(place: Path) -> None:
    """The limit on file sizes stops a write in the middle, as a full disk does."""
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        f"assert store.fetch('{KEY}', lambda: bytes(50_000)) == bytes(50_000)"
    )
    run = start(code)
    assert run.wait(timeout=30) == 0
    assert names(place) == set()


@pytest.mark.parametrize("step", ["replace", "scandir", "unlink"])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_failing_step_of_a_write_is_survived(step: str, code: int, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail_with(code))
        assert is_rebuilt()
    assert store.fetch(KEY, lambda: b"new") == b"new"


@pytest.mark.parametrize("step", ["replace", "open"])
def test_ctrl_c_in_a_write_leaves_no_file(step: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_step = getattr(os, step)

    def interrupt(*args, **options):
        if step == "open":
            os.close(true_step(*args, **options))
        raise KeyboardInterrupt

    def build() -> bytes:
        monkeypatch.setattr(os, step, interrupt)
        return KERNEL

    with pytest.raises(KeyboardInterrupt):
        store.fetch(KEY, build)
    assert names(place) == set()


# --- bounded ------------------------------------------------------------------------------------------------


def key_of(number: int) -> str:
    return f"{number:064x}"


def test_the_least_recently_used_go_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = keep(key_of(0), bytes(1000)).stat().st_size
    monkeypatch.setattr(store, "MAX_BYTES", 4 * size)
    now = time.time()
    for k in range(4):
        file = keep(key_of(k), bytes(1000))
        os.utime(file, (now - 100 + k, now - 100 + k))
    store.fetch(key_of(0), never)  # the oldest, but used just now
    keep(key_of(4), bytes(1000))
    assert names(place) == {f"{key_of(k)}.kernel" for k in (0, 2, 3, 4)}
    keep(key_of(5), bytes(2000))
    assert names(place) == {f"{key_of(k)}.kernel" for k in (0, 4, 5)}


def test_a_kernel_beyond_the_bound_drives_out_no_other(place: Path, monkeypatch) -> None:
    file = keep()
    monkeypatch.setattr(store, "MAX_BYTES", 2000)
    assert len(store.fetch(OTHER, lambda: bytes(2000))) == 2000
    assert names(place) == {file.name}


def test_files_of_others_are_neither_counted_nor_removed(place: Path, monkeypatch) -> None:
    file = keep()
    strangers = {"thesis.tex", "linux.kernel", "notes.tmp", f"{KEY}.kernel.bak"}
    for name in strangers:
        (place / name).write_bytes(bytes(5000))
        os.utime(place / name, (0, 0))
    monkeypatch.setattr(store, "MAX_BYTES", 2000)
    keep(OTHER)
    assert names(place) == strangers | {file.name, f"{OTHER}.kernel"}


def test_files_that_vanish_while_we_tidy_are_tolerated(place: Path, monkeypatch) -> None:
    for k in range(6):
        keep(key_of(k), bytes(1000))
    monkeypatch.setattr(store, "MAX_BYTES", 2500)
    true_unlink = os.unlink

    def unlink_behind_our_back(path, **options):
        true_unlink(path, **options)
        true_unlink(path, **options)

    monkeypatch.setattr(os, "unlink", unlink_behind_our_back)
    keep(OTHER, bytes(1000))
    assert len(names(place)) == 2


def test_stale_temporary_files_are_swept_and_fresh_ones_are_not(place: Path) -> None:
    keep()
    old, fresh = place / f"{'a' * 32}.kernel.tmp", place / f"{'b' * 32}.kernel.tmp"
    for file, age in ((old, DAY + 60), (fresh, DAY - 60)):
        file.write_bytes(b"half a ker")
        os.utime(file, (time.time() - age,) * 2)
    keep(OTHER)
    assert names(place) == {f"{KEY}.kernel", f"{OTHER}.kernel", fresh.name}


# --- many at once -------------------------------------------------------------------------------------------

LOAD = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("store", {store.__file__!r})
store = importlib.util.module_from_spec(spec)
spec.loader.exec_module(store)
"""
"""The store by itself: its package would load JAX, eight times over."""

READY = """
key, mine = sys.argv[1], bytes([int(sys.argv[2])]) * 300_000
place = store.folder()
print("ready", flush=True)
sys.stdin.read()  # until the starter closes the pipe

def is_whole(kernel):
    return kernel == kernel[:1] * len(mine) and kernel[0] < 8

def never():
    raise AssertionError("a kernel was missing or torn")
"""

OVERWRITE = """
for turn in range(20):
    store._write(place / f"{key}.kernel", store._header(key, mine) + mine)
    assert is_whole(store.fetch(key, never))
"""

REMOVE = """
store.MAX_BYTES = 1_500_000  # four kernels: each write drives others out
for turn in range(20):
    name = key if turn % 2 else f"{turn:064x}"
    assert is_whole(store.fetch(name, lambda: mine))
    if turn % 3 == 0:
        store._remove(place / f"{name}.kernel")
"""


def start(code: str, *args: str) -> subprocess.Popen:
    """Another Python, with the same environment."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", LOAD + code, *args], text=True, **pipes)


def run_eight(code: str) -> None:
    """Eight processes that begin together, once all are ready, and end well."""
    runs = [start(READY + code, KEY, str(k)) for k in range(8)]
    assert [run.stdout.readline() for run in runs] == ["ready\n"] * 8
    for run in runs:
        run.stdin.close()
    assert [run.wait(timeout=60) for run in runs] == [0] * 8


def test_eight_processes_overwrite_a_kernel_and_each_read_finds_one_whole(place: Path) -> None:
    run_eight(OVERWRITE)
    assert len(set(store.fetch(KEY, never))) == 1
    assert names(place) == {f"{KEY}.kernel"}


def test_eight_processes_remove_each_others_kernels_and_none_minds(place: Path) -> None:
    run_eight(REMOVE)
    assert not list(place.glob("*.tmp"))
    assert sum(file.stat().st_size for file in place.iterdir()) <= 1_500_000


def test_eight_threads_write_the_same_kernel(place: Path) -> None:
    together, kernels = threading.Barrier(8), []

    def build(mine: bytes) -> bytes:
        together.wait(timeout=10)  # nobody has written before all have missed
        return mine

    def work(k: int) -> None:
        kernels.append(store.fetch(KEY, lambda: build(bytes([k]) * 300_000)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernels) == 8
    assert store.fetch(KEY, never) in kernels
    assert names(place) == {f"{KEY}.kernel"}


def test_the_store_needs_the_standard_library_alone() -> None:
    tree = ast.parse(Path(store.__file__).read_text("utf-8"))
    plain = [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
    named = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert {name.split(".")[0] for name in plain + named} <= sys.stdlib_module_names
