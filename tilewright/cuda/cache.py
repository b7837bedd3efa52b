"""Assembled kernels on disk, found by a hash of their inputs.

An entry's name is the SHA-256 of everything that decides what NVRTC makes: the text, the architecture, the options, the
version of NVRTC and the version of this room, which is the hash of its own sources. An entry never changes, so no lock
is needed: it is written under another name and moved into place, and a reader sees all of it or none. Its first bytes
are a checksum of the rest: an entry that a full disk or a crash has cut short is assembled again.

An entry is code that will run: it is read only where it and its folder belong to the user and no one else can write
them; the checksum finds accidents, not forgeries. Files that are no entries are neither read nor replaced nor deleted.

TILEWRIGHT_CACHE_DIR: where (``~/.cache/tilewright``; no cache where there is no HOME). TILEWRIGHT_CACHE_BYTES: how much
(1 GiB; 0 for no cache).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import accumulate
from pathlib import Path
from tempfile import NamedTemporaryFile

from tilewright.cuda import nvrtc
from tilewright.cuda.nvrtc import Assembly
from tilewright.errors import TilewrightWarning, ToolError

DEFAULT_BYTES = 2**30
SUFFIX = ".kernel"
NOTE = ".note"
UNFINISHED = ".unfinished"  # what is being written, until it is moved into place
ABANDONED_AFTER = 3600.0  # seconds: the process that wrote it has ended
FEW = 1024  # files whose sizes are looked at in a moment; the names of entries are hashes, and so in no order
CHECKSUM_BYTES = 32
ENTRY = re.compile(r"[0-9a-f]{64}" + f"({re.escape(SUFFIX)}|{re.escape(NOTE)})")
LEFT_OVER = re.compile(r"[0-9a-f]{64}\.\w+" + re.escape(UNFINISHED))
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
HAS_OWNERS = hasattr(os, "geteuid")  # elsewhere the system protects a user's own folder
READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def assemble(source: str, arch: str, *, fast_math: bool = False, options: tuple[str, ...] = ()) -> Assembly:
    """`tilewright.cuda.nvrtc.assemble`, with its results kept on disk.

    On a hit NVRTC is not even loaded. A directory that cannot be written costs a warning, never the kernel.
    """
    store = Cache.of_environment()
    key = entry_key(source, arch, fast_math=fast_math, options=options)
    assembly = store.load(key)
    if assembly is None:
        assembly = nvrtc.assemble(source, arch, fast_math=fast_math, options=options)
        store.save(key, assembly)
    return assembly


def entry_key(source: str, arch: str, *, fast_math: bool = False, options: tuple[str, ...] = ()) -> str:
    """The name of the entry for this text, in hexadecimal."""
    return key_of(source, arch, fast_math, options, emitter_version())


def key_of(*decides: object) -> str:
    """The name of the entry for what NVRTC makes of these values of JSON, in hexadecimal."""
    return hashlib.sha256(json.dumps([*decides, _nvrtc_version()]).encode()).hexdigest()


def emitter_version() -> str:
    """A hash of this room's sources: a changed emitter never reads an entry of the one before."""
    return sources_version(Path(__file__).parent)


@cache
def sources_version(room: Path) -> str:
    """A hash of the sources of a room."""
    digest = hashlib.sha256()
    for path in sorted(room.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _nvrtc_version() -> str:
    """The version of NVRTC, from the installed package where there is one: that loads no library."""
    try:
        return metadata.version("nvidia-cuda-nvrtc")
    except metadata.PackageNotFoundError:
        return nvrtc.version()


def _default_directory() -> Path | None:
    """The user's own folder for caches; None where no variable names one, since code must not go to a shared one."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = _below_home("Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else _below_home(".cache")
    return Path(base, "tilewright") if os.path.isabs(base) else None


def _below_home(*parts: str) -> str:
    home = os.environ.get("HOME", "")
    return os.path.join(home, *parts) if home else ""


class Cache:
    """A directory of entries that stays below ``most_bytes``: the entry used longest ago goes first."""

    def __init__(self, directory: Path, most_bytes: int = DEFAULT_BYTES) -> None:
        self.directory = directory
        self.most_bytes = most_bytes
        self._unseen_bytes = 0  # how many may be written before the directory, where others write too, is read again

    @staticmethod
    def of_environment() -> Cache:
        """The cache that the environment names; one per directory and bound, so that it knows its size."""
        limit = os.environ.get("TILEWRIGHT_CACHE_BYTES", "")
        if limit and not re.fullmatch(r"[0-9]{1,18}", limit):
            raise ToolError(
                "TILEWRIGHT_CACHE_BYTES is a number of bytes",
                given=limit,
                allowed=f"{DEFAULT_BYTES}, or 0 for no cache",
            )
        named = os.environ.get("TILEWRIGHT_CACHE_DIR")
        directory = Path(os.path.expanduser(named)) if named else _default_directory()
        if directory is not None and directory.parts[:1] and directory.parts[0].startswith("~"):
            raise ToolError(
                "TILEWRIGHT_CACHE_DIR names the home of an unknown user", given=named, allowed="a folder of your own"
            )
        if directory is None:
            return _cache_at(Path(), 0)
        return _cache_at(directory, int(limit) if limit else DEFAULT_BYTES)

    def path(self, key: str) -> Path:
        return self.directory / f"{key}{SUFFIX}"

    def load(self, key: str) -> Assembly | None:
        """The entry, which counts as used now; None where there is no complete one."""
        if not self.most_bytes:
            return None
        try:
            data = self._read(self.path(key))
        except OSError:
            return None
        return None if data is None else _unpacked(key, data)

    def _read(self, path: Path) -> bytes | None:
        """The bytes of a file that only the user can have written; None for any other file. Opening never waits."""
        file = _opened(path)
        if file is None:
            return None
        with open(file, "rb") as stream:
            seen = os.fstat(file)
            if not stat.S_ISREG(seen.st_mode) or not _is_own(seen) or seen.st_size > self.most_bytes:
                return None
            data = stream.read()
        with suppress(OSError):  # a directory that is read-only will do
            _use(path)
        return data

    def save(self, key: str, assembly: Assembly) -> None:
        """Save an entry, and keep the directory within its bound."""
        self._save(self.path(key), _packed(key, assembly))

    def _save(self, path: Path, data: bytes) -> None:
        if not self.most_bytes:
            return
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own(os.stat(self.directory)):
                raise PermissionError(0, "others can write there, or own it")
            self._put(path, data)
            self._keep_bound(len(data))
        except OSError as error:
            _warn_once(str(self.directory), error.strerror or str(error))

    def note(self, key: str) -> str | None:
        """The text that `keep_note` has kept under this name; None where there is none."""
        try:
            data = self._read(self.directory / f"{key}{NOTE}") if self.most_bytes else None
        except OSError:
            return None
        return None if data is None else data.decode(errors="replace")

    def keep_note(self, key: str, text: str) -> None:
        """Keep a short text: a choice that was measured. A reader must validate it."""
        self._save(self.directory / f"{key}{NOTE}", text.encode())

    def _put(self, path: Path, data: bytes) -> None:
        """Write an entry as a whole or not at all."""
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise FileExistsError(0, f"{path.name} is no file")
        with NamedTemporaryFile(dir=self.directory, prefix=f"{path.stem}.", suffix=UNFINISHED, delete=False) as file:
            try:
                file.write(data)
                file.close()
                _use(Path(file.name))
                os.replace(file.name, path)
            except OSError:  # a full disk
                Path(file.name).unlink(missing_ok=True)
                raise

    def _keep_bound(self, written: int) -> None:
        """The directory is read at the first write, where it may be full, and at least each 16th part of the bound. Of
        many files a part says about how much all take; where that is near the bound, they are then left some room.
        """
        self._unseen_bytes -= written
        if self._unseen_bytes >= 0:
            return
        items, most = [*os.scandir(self.directory)], self.most_bytes
        if (step := len(items) // FEW) > 1:
            if step * sum(size for _, size, _ in self._entries(items[::step])) < most // 8 * 7:
                self._unseen_bytes = most // 16
                return
            most = most // 4 * 3
        entries = sorted(self._entries(items))
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= most:
                break
            path.unlink(missing_ok=True)
            total -= size
        self._unseen_bytes = min(self.most_bytes - total, self.most_bytes // 16)

    def _entries(self, items: Iterable[os.DirEntry[str]]) -> list[tuple[int, int, Path]]:
        """(last use in nanoseconds, bytes, path) of each that is an entry; old unfinished files are deleted."""
        entries = []
        for item in items:
            with suppress(FileNotFoundError):  # another process was quicker
                seen = item.stat(follow_symlinks=False)
                if not stat.S_ISREG(seen.st_mode) or not _is_own(seen):
                    continue
                if ENTRY.fullmatch(item.name):
                    entries.append((seen.st_mtime_ns, seen.st_size, Path(item.path)))
                elif LEFT_OVER.fullmatch(item.name) and time.time() - seen.st_mtime > ABANDONED_AFTER:
                    os.unlink(item.path)
        return entries


@cache
def _cache_at(directory: Path, most_bytes: int) -> Cache:
    return Cache(directory, most_bytes)


@cache
def _warn_once(directory: str, reason: str) -> None:
    warnings.warn(
        f"assembled kernels are not kept in {directory} ({reason}); set TILEWRIGHT_CACHE_DIR",
        TilewrightWarning,
        stacklevel=2,
    )


def _opened(path: Path) -> int | None:
    """The file, opened by its folder, so that neither can be replaced in between; None where others may write in it."""
    if not HAS_OWNERS:
        return os.open(path, READ)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return os.open(path.name, READ, dir_fd=folder) if _is_own(os.fstat(folder)) else None
    finally:
        os.close(folder)


def _is_own(seen: os.stat_result) -> bool:
    """Does it belong to the user, and can no one else write it?"""
    return not HAS_OWNERS or (seen.st_uid == os.geteuid() and not seen.st_mode & OTHERS_WRITE)


def _use(path: Path) -> None:
    """Set the time of use to now: file systems themselves count in ticks of some milliseconds."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))


# An entry: checksum of its name and the rest; one line of JSON; cubin, PTX and log, of the lengths that it says.


def _packed(key: str, assembly: Assembly) -> bytes:
    parts = [assembly.cubin, assembly.ptx.encode(), assembly.log.encode()]
    head = json.dumps({"arch": assembly.arch, "lengths": [len(part) for part in parts]}).encode() + b"\n"
    rest = b"".join([head, *parts])
    return _checksum(key, rest) + rest


def _checksum(key: str, rest: bytes) -> bytes:
    return hashlib.sha256(key.encode() + rest).digest()


def _unpacked(key: str, data: bytes) -> Assembly | None:
    checksum, rest = data[:CHECKSUM_BYTES], data[CHECKSUM_BYTES:]
    if _checksum(key, rest) != checksum:
        return None
    line, _, body = rest.partition(b"\n")
    try:
        head = json.loads(line)
        (cubin, ptx, log), arch = _parts(head["lengths"], body), str(head["arch"])
        return Assembly(arch, cubin, ptx.decode(), log.decode())
    except (ValueError, KeyError, TypeError, RecursionError):  # a body that this version never wrote
        return None


def _parts(lengths: list[int], body: bytes) -> list[bytes]:
    """The body cut to these lengths. Raises ValueError where they are not those of all of it."""
    ends = list(accumulate(lengths))
    if min(lengths, default=0) < 0 or ends[-1:] != [len(body)]:
        raise ValueError("lengths that are not those of the body")
    return [body[end - length : end] for length, end in zip(lengths, ends, strict=True)]
