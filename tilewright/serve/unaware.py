"""A process that knows nothing of a request: forked before that is read, it is told of the submission's file alone.

Whatever an author's code finds in its own process, by frames or by objects of others, no reference is there, no inputs,
no seed of them, and no tolerance.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
from collections.abc import Callable
from contextlib import suppress

from tilewright.serve.apart import Died, apart, end_with_parent

Work = Callable[[], bytes]
"""A function of a module with arguments that are data: what a pickle can name."""
Read = Callable[[Work, float, int], "bytes | Died"]
"""How work is done behind walls: with so many seconds, and bytes of address space."""


def read_here(work: Work, seconds: float, nbytes: int) -> bytes | Died:
    """In a child of this process, which knows what this one knows."""
    return apart(work, seconds=seconds, nbytes=nbytes, walls=True)


class Unaware:
    """The process. It does one work, which a child of the process that has forked it may ask for."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._said, say = os.pipe()
        self.files = (self._ask, self._said)
        self._process = os.fork()
        if self._process == 0:
            os.close(self._ask)
            os.close(self._said)
            _once(asked, say)
        os.close(asked)
        os.close(say)

    def read(self, work: Work, seconds: float, nbytes: int) -> bytes | Died:
        """What the work returns, done by a child of the process, behind walls."""
        data = pickle.dumps((work, seconds, nbytes))
        _write(self._ask, struct.pack("<Q", len(data)) + data)
        with os.fdopen(os.dup(self._said), "rb") as pipe:
            kind, answer = pipe.read(1), pipe.read()
        if kind == b"D":
            return Died(*struct.unpack("<?i", answer))
        return answer if kind == b"A" else Died(late=False, code=1)

    def end(self) -> None:
        """End it, whether it was asked or not."""
        for file in self.files:
            os.close(file)
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


def _once(asked: int, say: int) -> None:
    """In the process: it never returns."""
    try:
        end_with_parent()
        with os.fdopen(asked, "rb") as pipe:
            (length,) = struct.unpack("<Q", pipe.read(8))
            work, seconds, nbytes = pickle.loads(pipe.read(length))
        answer = apart(work, seconds=seconds, nbytes=nbytes, walls=True)
        _write(say, b"D" + struct.pack("<?i", answer.late, answer.code) if isinstance(answer, Died) else b"A" + answer)
    finally:
        os._exit(0)


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
