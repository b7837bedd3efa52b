"""A process that knows nothing of a request: forked before that is read, it is told of the submission's file alone.

Whatever an author's code finds in its own process, by frames or by objects of others, no reference is there, no inputs,
no seed of them, and no tolerance.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import partial

from tilewright.serve.apart import Child, Died, Say, apart, whole
from tilewright.serve.confine import confined

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
