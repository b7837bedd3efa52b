"""Warm workers: processes that have imported everything, and fork for each submission."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from tilewright.errors import ToolError
from tilewright.serve.apart import Died, apart
from tilewright.serve.jitted import is_at_hand
from tilewright.serve.judge import answer, refusal
from tilewright.serve.reading import Loads, settle
from tilewright.serve.submission import read_json
from tilewright.serve.unaware import Unaware

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tilewright.serve.confine import Walls

MOST_BYTES = 8 << 20  # of a request
MORE_SECONDS = 10.0  # than a submission asks for: to compile, and to compare
OWN_BYTES = 4 << 30  # address space that Python and NumPy reserve without using it


def work(loads: Loads, walls: Walls, requests: BinaryIO, answers: BinaryIO) -> None:
    """A worker's life: a line of JSON for each request, and one for each answer, until the requests end."""
    _warm(loads, walls)
    while True:
        unaware = Unaware()  # before the request is there
        try:
            if not (line := requests.readline()):
                return
            answers.write(_answered(line, loads, walls, unaware) + b"\n")
            answers.flush()
            del line  # the next one shall not find it either
        finally:
            unaware.end()


WARMING = """
from tilewright import T


@T.prim_func
def copied(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    T.cta_id([1])
    row = T.alloc_shared((32,), "float32")
    tid = T.thread_id([32])
    row[tid] = A[tid]
    T.cuda.cta_sync()
    B[tid] = row[31 - tid]
"""


def _warm(loads: Loads, walls: Walls) -> None:
    """Judge a kernel here, and read it without walls: what that imports and remembers, each fork finds done."""
    shape = {"dtype": "float32", "shape": [32]}
    arguments = [{"name": "A", **shape}, {"name": "B", **shape, "role": "out"}]
    reference = "def reference(A): return A[::-1]"
    made = answer({"language": "py", "source": WARMING, "arguments": arguments, "reference": reference}, loads, walls)
    assert made["status"] == "clean", made
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "warming.py"
        file.write_text(WARMING, encoding="utf-8")
        loads["py"](str(file), [])
    if is_at_hand():
        import triton.compiler  # noqa: F401  # so that each fork has it
    settle()
    gc.collect()
    gc.freeze()  # a fork shares what no collection touches


def _answered(line: bytes, loads: Loads, walls: Walls, unaware: Unaware) -> bytes:
    try:
        given = read_json(line)
    except (ValueError, RecursionError) as error:
        return json.dumps(refusal(None, "the request is no JSON", "refused", str(error))).encode()
    identity = given.get("id") if isinstance(given, dict) else None
    asked = given.get("seconds", 20.0) if isinstance(given, dict) else 1.0
    seconds = (asked if isinstance(asked, (int, float)) and 0 < asked <= 3600 else 1.0) + MORE_SECONDS
    nbytes = given.get("nbytes") if isinstance(given, dict) else None
    room = (nbytes if type(nbytes) is int and 0 < nbytes <= 1 << 40 else 2 << 30) + OWN_BYTES

    def judged() -> bytes:
        return json.dumps(answer(given, loads, walls, unaware.read), default=str).encode()

    result = apart(judged, seconds=seconds, nbytes=room, walls=False, keep=unaware.files)
    return json.dumps(refusal(identity, str(result))).encode() if isinstance(result, Died) else result


class Workers:
    """As many workers as jobs; ``ask`` waits for a free one. May be called by several threads."""

    def __init__(self, jobs: int) -> None:
        if not hasattr(os, "fork"):
            raise ToolError("a judge that serves needs processes that fork", hint="Linux, macOS, or WSL on Windows")
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._all = [_Worker() for _ in range(jobs)]
        for each in self._all:
            self._free.put(each)

    def ask(self, given: Any) -> dict[str, Any]:
        """The answer to one request."""
        with self._lent() as worker:
            return worker.ask(given)

    @contextmanager
    def _lent(self) -> Iterator[_Worker]:
        worker = self._free.get()
        try:
            yield worker
        finally:
            self._free.put(worker)

    @property
    def processes(self) -> list[int]:
        """The numbers of their processes."""
        return [each.process for each in self._all]

    def close(self) -> None:
        """End all workers."""
        for each in self._all:
            each.end()


class _Worker:
    """A process that works; where it has died it is started again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tilewright", "serve", "--worker"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def process(self) -> int:
        return self._process.pid

    def ask(self, given: Any) -> dict[str, Any]:
        with self._lock:
            try:
                return self._asked(json.dumps(given).encode() + b"\n")
            except (OSError, ValueError):
                self.end()
                self._process = self._started()
                identity = given.get("id") if isinstance(given, dict) else None
                return refusal(identity, "the worker has died; another one was started")

    def _asked(self, line: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None, "it was asked for"
        assert self._process.stdout is not None, "it was asked for"
        self._process.stdin.write(line)
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
