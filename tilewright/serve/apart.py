"""Work in a process of its own, forked from a warm one, and its answer as bytes; such a process, too, that knows
nothing of the request.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep

from tilewright.process import hold
from tilewright.serve.confine import confined

MOST_BYTES = 1 << 30  # of an answer
MOST_FILES = 1 << 16  # numbers of open files beyond are closed by nobody; nothing here has so many
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Died:
    """A process that gave no answer. seconds: it was ended after so many; else ``code`` is how it ended. said: what it
    had written by then.
    """

    seconds: float | None = None
    code: int = 0
    said: bytes = b""

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"it took longer than {self.seconds:g} s"
        if self.code < 0:
            return f"its process was ended by {signal.Signals(-self.code).name}"
        return f"its process ended by itself, code {self.code}"


Say = Callable[[bytes], None]
"""Writes bytes of an answer."""


class Child:
    """A process forked from this one, which does its work and ends."""

    def __init__(self, work: Callable[[Say], None], *, quiet: bool, keep: Sequence[int] = ()) -> None:
        """An exception of ``work`` ends it with code 1. quiet: errors are not printed either. keep: files that stay
        open in it.
        """
        self._read, write = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _do(work, write, quiet, keep)
        os.close(write)

    def end(self) -> None:
        """End it, unheard."""
        os.close(self._read)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    def answer(self, seconds: float) -> bytes | Died:
        """All that it says, once it has ended well; it is ended after so many seconds."""
        end, parts, nbytes = monotonic() + seconds, list[bytes](), 0
        while select.select([self._read], [], [], max(0.0, end - monotonic()))[0]:
            part = os.read(self._read, 1 << 20)
            nbytes += len(part)
            if not part or nbytes > MOST_BYTES:
                break
            parts.append(part)
        if nbytes > MOST_BYTES:
            os.kill(self._process, signal.SIGKILL)  # before nobody reads any more, which would end it, too
        os.close(self._read)
        code = _ended(self._process, end)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process, signal.SIGKILL)  # what it has left running
        said = b"".join(parts)
        return said if code == 0 else Died(seconds if code is None else None, code or 0, said)


def apart(
    work: Callable[[], bytes], *, seconds: float, nbytes: int, walls: bool, reads: Sequence[str] = ()
) -> bytes | Died:
    """What ``work`` returns, done in a child that ends with it, or at the limits of time and address space.

    walls: confine the child, too; it then has no output either, and of folders reads those of libraries and ``reads``.
    """

    def bounded(say: Say) -> None:
        if walls:
            confined(seconds=whole(seconds), nbytes=nbytes, reads=reads)
        else:
            hold(seconds=whole(seconds), nbytes=nbytes)
        say(work())

    return Child(bounded, quiet=walls).answer(seconds)


def whole(seconds: float) -> int:
    """Of processor time, for a process that is ended after so many seconds."""
    return int(seconds) + 2


def written(file: int, data: bytes) -> None:
    """Write all of it."""
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _do(work: Callable[[Say], None], write: int, quiet: bool, keep: Sequence[int]) -> None:
    """In the child: it never returns."""
    code = 1
    try:
        os.setsid()
        end_with_parent()
        silenced((0, 1, 2) if quiet else (0, 1))
        start = 3
        for file in sorted((write, *keep)):  # no answer but this one can be written to
            os.closerange(start, file)
            start = file + 1
        os.closerange(start, MOST_FILES)
        work(partial(written, write))
        code = 0
    finally:
        os._exit(code)


def silenced(files: Iterable[int]) -> None:
    """These files of this process hold nothing, and take all that is written."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in files:
        os.dup2(nothing, file)


def end_with_parent() -> None:
    """This process ends where the one that has forked it ends, on Linux."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _ended(child: int, end: float) -> int | None:
    """Its exit code, or minus the signal that ended it; None where it had to be ended."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if monotonic() >= end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        sleep(0.0005)


# A process that knows nothing of a request: forked before that is read, it is told of the submission's file alone.
#
# Whatever an author's code finds in its own process, by frames or by objects of others, no reference is there, no
# inputs, no seed of them, and no tolerance.


Work = Callable[[], bytes]
"""A function of a module with arguments that are data: what a pickle can name."""
Read = Callable[[Work, float, int, str], "bytes | Died"]
"""How work is done behind walls: with so many seconds, bytes of address space, and a folder to read."""


def read_here(work: Work, seconds: float, nbytes: int, folder: str) -> bytes | Died:
    """In a child of this process, which knows what this one knows."""
    return apart(work, seconds=seconds, nbytes=nbytes, walls=True, reads=[folder])


class Unaware:
    """The process. It does one work, or ends with the one that has forked it."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._child: Child | None = Child(partial(_once, asked), quiet=True, keep=(asked,))
        os.close(asked)

    def read(self, work: Work, seconds: float, nbytes: int, folder: str) -> bytes | Died:
        """What the work returns, done behind walls."""
        with os.fdopen(self._ask, "wb") as pipe:
            pipe.write(pickle.dumps((work, seconds, nbytes, folder)))
        child, self._child = self._child, None
        assert child is not None, "it does one work"
        return child.answer(seconds)

    def end(self) -> None:
        """End it where it was not asked."""
        if self._child is not None:
            self._child.end()


def _once(asked: int, say: Say) -> None:
    """In the process: the work that it is told."""
    with os.fdopen(asked, "rb") as pipe:
        work, seconds, nbytes, folder = pickle.load(pipe)
    confined(seconds=whole(seconds), nbytes=nbytes, reads=[folder])
    say(work())
