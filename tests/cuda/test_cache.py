"""The disk cache of assembled kernels: found, not found, broken, written by many at once, kept within its bound."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

import pytest

from tilewright.cuda import cache, nvrtc
from tilewright.cuda.cache import Cache, assemble, entry_key
from tilewright.cuda.nvrtc import Assembly
from tilewright.errors import TilewrightWarning, ToolError

TEXT = 'extern "C" __global__ void empty() {}'
KEYS = [f"{number:064x}" for number in range(8)]


def made(size: int = 100, fill: bytes = b"c") -> Assembly:
    return Assembly("sm_90a", fill * size, "ptx", "log: ä")


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "kernels")


@pytest.fixture
def assembled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own, and the texts that NVRTC was asked to assemble."""
    asked: list[str] = []

    def fake(source: str, arch: str, *, fast_math: bool, options: tuple[str, ...]) -> Assembly:
        asked.append(source)
        return Assembly(arch, source.encode(), "ptx", f"log {fast_math} {options}")

    monkeypatch.setattr(nvrtc, "assemble", fake)
    monkeypatch.setattr(cache, "_nvrtc_version", lambda: "13.0")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_CACHE_BYTES", raising=False)
    return asked


def test_an_entry_is_found_again(store: Cache) -> None:
    store.save(KEYS[0], made())

    assert store.load(KEYS[0]) == made()
    assert store.load(KEYS[1]) is None


@pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA publishes no wheels for macOS")
def test_what_nvrtc_made_comes_back_as_it_was(store: Cache) -> None:
    assembly = nvrtc.assemble(TEXT, "sm_90a")
    store.save(KEYS[0], assembly)

    found = store.load(KEYS[0])

    assert found is not None
    assert found == assembly
    assert found.resources("empty") == assembly.resources("empty")


def test_a_text_is_assembled_once(assembled: list[str]) -> None:
    first, second = assemble(TEXT, "sm_90a"), assemble(TEXT, "sm_90a")

    assert first == second
    assert assembled == [TEXT]


def test_text_architecture_and_options_each_make_another_entry(assembled: list[str]) -> None:
    assemble(TEXT, "sm_90a")
    assemble(TEXT + " ", "sm_90a")
    assemble(TEXT, "sm_90")
    assemble(TEXT, "sm_90a", fast_math=True)
    assemble(TEXT, "sm_90a", options=("-G",))

    assert len(assembled) == 5


def test_another_nvrtc_and_another_emitter_make_another_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {entry_key(TEXT, "sm_90a")}
    monkeypatch.setattr(cache, "_nvrtc_version", lambda: "14.0")
    keys.add(entry_key(TEXT, "sm_90a"))
    monkeypatch.setattr(cache, "emitter_version", lambda: "mended")
    keys.add(entry_key(TEXT, "sm_90a"))

    assert len(keys) == 3


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_broken_entry_is_made_again(store: Cache, assembled: list[str], tmp_path: Path, damage: bytes | None) -> None:
    assemble(TEXT, "sm_90a")
    (path,) = tmp_path.glob("*.kernel")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?" if damage is None else damage)

    assemble(TEXT, "sm_90a")

    assert assembled == [TEXT, TEXT]
    assert path.read_bytes() == whole


def test_an_entry_that_another_kernel_s_has_replaced_is_made_again(store: Cache) -> None:
    store.save(KEYS[0], made())
    store.save(KEYS[1], made(200))

    store.path(KEYS[1]).write_bytes(store.path(KEYS[0]).read_bytes())

    assert store.load(KEYS[0]) == made()
    assert store.load(KEYS[1]) is None


def test_the_entry_used_longest_ago_goes_first(tmp_path: Path) -> None:
    store = Cache(tmp_path, most_bytes=3500)
    for age, key in enumerate(KEYS[:3]):
        store.save(key, made(1000))
        os.utime(store.path(key), (time.time() - 100 + age, time.time() - 100 + age))
    store.load(KEYS[0])  # used now

    store.save(KEYS[3], made(1000))

    assert [store.load(key) is not None for key in KEYS[:4]] == [True, False, True, True]


def test_uses_that_follow_each_other_at_once_keep_their_order(tmp_path: Path) -> None:
    """File systems themselves count time in milliseconds."""
    store = Cache(tmp_path, most_bytes=7500)
    for key in KEYS[:6]:
        store.save(key, made(1000))
    for key in reversed(KEYS[:6]):
        store.load(key)

    for key in KEYS[6:]:
        store.save(key, made(1000))

    assert [store.load(key) is not None for key in KEYS] == [True] * 4 + [False, False, True, True]


def test_the_bound_holds_while_others_write_too(tmp_path: Path) -> None:
    stores = [Cache(tmp_path, most_bytes=20_000) for _ in range(4)]

    for turn in range(40):
        for number, store in enumerate(stores):
            store.save(f"{turn:032x}{number:032x}", made(1000))

    assert 10_000 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000


def test_the_bound_holds_for_what_other_processes_wrote(tmp_path: Path) -> None:
    for key in KEYS[:4]:
        Cache(tmp_path, most_bytes=2**20).save(key, made(1000))

    Cache(tmp_path, most_bytes=2500).save(KEYS[4], made(1000))

    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2500
    assert Cache(tmp_path).load(KEYS[4]) is not None


def test_a_first_write_among_many_entries_looks_at_a_part_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run had to look at 80,000 files, for two seconds, until it could begin."""
    monkeypatch.setattr(cache, "FEW", 4)
    keys = [f"{number:064x}" for number in range(40)]
    for key in keys:
        Cache(tmp_path, most_bytes=2**20).save(key, made(1000))
    looks, is_own = list[os.stat_result](), cache._is_own

    def noted(seen: os.stat_result) -> bool:
        looks.append(seen)
        return is_own(seen)

    monkeypatch.setattr(cache, "_is_own", noted)

    Cache(tmp_path, most_bytes=2**20).save(KEYS[0], made(1000))
    few = len(looks)
    Cache(tmp_path, most_bytes=40_000).save(KEYS[1], made(1000))

    assert few <= 1 + 2 * 4  # the folder, and some files
    assert 20_000 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 30_000


def test_what_a_crash_left_unfinished_goes(tmp_path: Path) -> None:
    old, new = (tmp_path / f"{key}.abcd1234.unfinished" for key in KEYS[:2])
    for path in (old, new):
        path.write_bytes(b"x")
    os.utime(old, (1, 1))

    Cache(tmp_path).save(KEYS[0], made())

    assert not old.exists()
    assert new.exists()


def write_and_read(directory: str, number: int) -> int:
    """In a process of its own: write the same entries as all others, count entries that are not whole."""
    broken = 0
    for turn in range(40):
        store = Cache(Path(directory), most_bytes=20_000)
        key = KEYS[(turn + number) % len(KEYS)]
        store.save(key, made(4000, key[-1].encode()))
        found = store.load(key)  # another process may have evicted it by now
        broken += found is not None and found != made(4000, key[-1].encode())
    return broken


def test_processes_that_write_the_same_entries_at_once_never_read_half_of_one(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        broken = pool.starmap(write_and_read, [(str(tmp_path), number) for number in range(3)])

    assert broken == [0, 0, 0]
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_directory_that_cannot_be_written_costs_a_warning(
    assembled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file"))

    with pytest.warns(TilewrightWarning, match="not kept in .*file"):
        assert assemble(TEXT, "sm_90a").cubin == TEXT.encode()


def test_a_full_disk_costs_one_warning_and_leaves_nothing_behind(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", source)

    monkeypatch.setattr(os, "replace", full)

    with pytest.warns(TilewrightWarning, match=r"not kept in .*\(No space left on device\)"):
        store.save(KEYS[0], made())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.save(KEYS[1], made())

    assert not list(store.directory.iterdir())


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_without_a_home_nothing_is_kept(
    assembled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None
) -> None:
    for name in ("TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    for _ in range(2):
        assemble(TEXT, "sm_90a")

    assert assembled == [TEXT, TEXT]
    assert not list(tmp_path.iterdir())


def test_a_bound_of_nothing_turns_the_cache_off(
    assembled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assemble(TEXT, "sm_90a")
    (entry,) = tmp_path.iterdir()
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")

    assemble(TEXT, "sm_90a")
    assemble(TEXT + " ", "sm_90a")

    assert assembled == [TEXT, TEXT, TEXT + " "]
    assert list(tmp_path.iterdir()) == [entry]


def test_a_bound_that_is_no_number_is_an_error(assembled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "1GiB")

    with pytest.raises(ToolError, match=r"(?s)a number of bytes.*given: +1GiB"):
        assemble(TEXT, "sm_90a")
