"""The disk cache trusts the user alone, and leaves files alone that are no entries."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.test_cache import KEYS, TEXT, made
from tilewright.cuda import cache, nvrtc
from tilewright.cuda.cache import Cache, assemble
from tilewright.cuda.nvrtc import Assembly
from tilewright.errors import TilewrightWarning, ToolError

KEY = KEYS[0]


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    kept = Cache(tmp_path / "kernels")
    kept.save(KEY, made())
    return kept


def changed(store: Cache, uid: int, where: Callable[[Path], bool]) -> Callable[..., os.stat_result]:
    """os.fstat as if those files belonged to another user."""
    inodes = {os.stat(path).st_ino for path in (store.directory, store.path(KEY)) if where(path)}
    real = os.fstat

    def stat(file: int) -> os.stat_result:
        seen = real(file)
        return os.stat_result((*seen[:4], uid, *seen[5:])) if seen.st_ino in inodes else seen

    return stat


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_can_write_is_not_read(store: Cache, mode: int) -> None:
    store.path(KEY).chmod(mode)

    assert store.load(KEY) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_can_write_is_not_read_and_not_written(store: Cache, mode: int) -> None:
    store.directory.chmod(mode)

    assert store.load(KEY) is None
    with pytest.warns(TilewrightWarning, match="others can write there"):
        Cache(store.directory).save(KEYS[1], made())
    assert not store.path(KEYS[1]).exists()


@pytest.mark.parametrize("part", ["folder", "entry"])
def test_what_belongs_to_somebody_else_is_not_read(store: Cache, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    stat = changed(store, os.geteuid() + 1, lambda path: path.is_dir() is (part == "folder"))
    monkeypatch.setattr(os, "fstat", stat)

    assert store.load(KEY) is None


def test_a_new_folder_is_the_user_s_own_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        store = Cache(tmp_path / "new")
        store.save(KEY, made())
    finally:
        os.umask(umask)

    assert store.directory.stat().st_mode & 0o777 == 0o700
    assert store.load(KEY) == made()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    place = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(place)


def link_to_an_entry(path: Path) -> None:
    path.symlink_to(path.with_name(f"{KEY}.kernel"))


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


ODD = [fifo, bound_socket, link_to_an_entry, dangling_link, Path.mkdir]


@pytest.mark.parametrize("make", ODD)
def test_what_is_no_file_under_the_name_of_an_entry_is_left_alone(store: Cache, make: Callable[[Path], Any]) -> None:
    path = store.path(KEYS[1])
    make(path)
    before = os.lstat(path)
    found: list[Assembly | None] = []
    reader = threading.Thread(target=lambda: found.append(store.load(KEYS[1])), daemon=True)

    reader.start()
    reader.join(5)
    with pytest.warns(TilewrightWarning, match="not kept"):
        Cache(store.directory, most_bytes=10**6).save(KEYS[1], made())

    assert found == [None], "it hangs"
    assert os.lstat(path).st_mode == before.st_mode
    assert len(list(store.directory.iterdir())) == 2
    cache._warn_once.cache_clear()


def test_a_folder_that_is_a_link_to_the_user_s_own_is_as_good(store: Cache, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.directory)

    assert Cache(tmp_path / "link").load(KEY) == made()


@pytest.mark.parametrize("name", ["notes.kernel", "old.unfinished", f"{KEY}.kernel.bak", f"{KEY[:-1]}G.kernel", "x"])
def test_files_that_are_not_entries_are_never_deleted(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(b"x" * 5000)
    os.utime(file, (1, 1))
    store = Cache(tmp_path, most_bytes=2500)

    for key in KEYS:
        store.save(key, made(1000))

    assert file.read_bytes() == b"x" * 5000
    assert len(list(tmp_path.glob("*"))) <= 3


HEADS = [
    b"",
    b"{}",
    b"[1]",
    b"null",
    b"\xff",
    b"[" * 100_000,
    json.dumps({"arch": "sm_90a", "lengths": [1, 2]}).encode(),
    json.dumps({"arch": "sm_90a", "lengths": [1, 2, 4]}).encode(),
    json.dumps({"arch": "sm_90a", "lengths": [-1, 2, 2]}).encode(),
    json.dumps({"arch": "sm_90a", "lengths": ["a", None, 2]}).encode(),
    json.dumps({"arch": "sm_90a", "lengths": 3}).encode(),
    json.dumps({"lengths": [1, 1, 1]}).encode(),
]


@pytest.mark.parametrize("head", HEADS)
def test_a_right_checksum_over_a_bad_head_is_a_damaged_entry(store: Cache, head: bytes) -> None:
    rest = head + b"\nabc"
    store.path(KEY).write_bytes(hashlib.sha256(KEY.encode() + rest).digest() + rest)

    assert store.load(KEY) is None
    store.save(KEY, made())
    assert store.load(KEY) == made()


def test_a_right_checksum_over_text_that_is_none_is_a_damaged_entry(store: Cache) -> None:
    rest = json.dumps({"arch": "sm_90a", "lengths": [1, 1, 1]}).encode() + b"\na\xff\xff"
    store.path(KEY).write_bytes(hashlib.sha256(KEY.encode() + rest).digest() + rest)

    assert store.load(KEY) is None


def test_an_entry_larger_than_the_cache_is_not_read_into_memory(store: Cache) -> None:
    with store.path(KEY).open("r+b") as file:
        file.truncate(2**40)  # a hole: no disk is that large

    assert store.load(KEY) is None


def refused(number: int) -> Callable[..., Any]:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("step", ["NamedTemporaryFile", "_use"])
def test_a_folder_without_room_or_leave_costs_a_warning(
    store: Cache, monkeypatch: pytest.MonkeyPatch, number: int, step: str
) -> None:
    cache._warn_once.cache_clear()
    monkeypatch.setattr(cache, step, refused(number))

    with pytest.warns(TilewrightWarning, match=os.strerror(number)):
        store.save(KEYS[1], made())

    assert store.load(KEY) == made()
    assert [path.name for path in store.directory.iterdir()] == [store.path(KEY).name]


ODD_FOLDERS = [
    "/dev/null",
    "/proc/self/mem",
    "/dev/null/below",
    "x" * 5000,
    "/proc/1/x",
]


@pytest.mark.parametrize("folder", ODD_FOLDERS)
def test_a_variable_that_names_no_folder_costs_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str
) -> None:
    cache._warn_once.cache_clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", folder)
    monkeypatch.setattr(nvrtc, "assemble", lambda source, arch, **options: Assembly(arch, b"cubin", "", ""))
    monkeypatch.setattr(cache, "_nvrtc_version", lambda: "13.0")

    with pytest.warns(TilewrightWarning, match="not kept"):
        assert assemble(TEXT, "sm_90a").cubin == b"cubin"

    assert not list(tmp_path.iterdir())


def test_the_home_of_an_unknown_user_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "~nobody-of-this-name/kernels")

    with pytest.raises(ToolError, match="the home of an unknown user"):
        Cache.of_environment()


def test_an_entry_replaced_while_it_is_read_is_read_as_it_was(store: Cache) -> None:
    """Replaced by another process: the open file stays what it is."""
    stop = threading.Event()

    def write() -> None:
        other = Cache(store.directory)
        while not stop.is_set():
            other.save(KEY, made(4000))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [store.load(KEY) for _ in range(200)]
    finally:
        stop.set()
        writer.join()

    assert all(entry in (made(), made(4000)) for entry in found)
