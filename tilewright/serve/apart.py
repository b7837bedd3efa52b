"""Work in a process of its own, forked from a warm one, and its answer as bytes."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep

from tilewright.process import hold
from tilewright.serve.confine import confined

MOST_BYTES = 1 << 30  # of an answer
MOST_FILES = 1 << 16  # numbers of open files beyond are closed by nobody; nothing here has so many
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Died:
    """A process that gave no answer. late: its seconds were over; else ``code`` is how it ended."""

    late: bool
    code: int = 0

    def __str__(self) -> str:
        if self.late:
            return "it took too long"
        if self.code < 0:
            return f"its process was ended by {signal.Signals(-self.code).name}"
        return f"its process ended by itself, code {self.code}"


def apart(
    work: Callable[[], bytes], *, seconds: float, nbytes: int, walls: bool, keep: Sequence[int] = ()
) -> bytes | Died:
    """What ``work`` returns, done in a child that ends with it, or at the limits of time and address space.

    walls: confine the child, too; it then has no output either. keep: files that stay open in it. An exception of
    ``work`` ends the child with code 1.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _do(work, write, seconds, nbytes, walls, keep)
    os.close(write)
    try:
        return _answer(read, child, seconds)
    finally:
        os.close(read)


def _do(work: Callable[[], bytes], write: int, seconds: float, nbytes: int, walls: bool, keep: Sequence[int]) -> None:
    """In the child: it never returns."""
    code = 1
    try:
        os.setsid()
        end_with_parent()
        nothing = os.open(os.devnull, os.O_RDWR)
        for own in (0, 1, 2) if walls else (0, 1):
            os.dup2(nothing, own)
        start = 3
        for file in sorted((write, *keep)):  # no answer but this one can be written to
            os.closerange(start, file)
            start = file + 1
        os.closerange(start, MOST_FILES)
        whole = int(seconds) + 2
        if walls:
            confined(seconds=whole, nbytes=nbytes)
        else:
            hold(seconds=whole, nbytes=nbytes)
        data = memoryview(work())
        while data:
            data = data[os.write(write, data) :]
        code = 0
    finally:
        os._exit(code)


def end_with_parent() -> None:
    """This process ends where the one that has forked it ends, on Linux."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _answer(read: int, child: int, seconds: float) -> bytes | Died:
    """In the parent: all bytes, once the child has ended well."""
    end, parts, nbytes = monotonic() + seconds, list[bytes](), 0
    while select.select([read], [], [], max(0.0, end - monotonic()))[0]:
        part = os.read(read, 1 << 20)
        nbytes += len(part)
        if not part or nbytes > MOST_BYTES:
            break
        parts.append(part)
    if nbytes > MOST_BYTES:
        os.kill(child, signal.SIGKILL)
    code = _ended(child, end)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # what it has left running
    return b"".join(parts) if code == 0 else Died(code is None, code or 0)


def _ended(child: int, end: float) -> int | None:
    """Its exit code, or minus the signal that ended it; None where it had to be ended."""
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        sleep(0.0005)
