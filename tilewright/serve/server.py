"""A judge at work: warm processes, which have imported everything and fork for each submission, and its two doors,
lines of JSON on standard input and HTTP on this machine alone, with a token.
"""

from __future__ import annotations

import gc
import hmac
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Lock
from time import process_time
from typing import Any, BinaryIO, TextIO

from tilewright.errors import ToolError
from tilewright.process import hold, one_blas_thread
from tilewright.serve.confine import Child, Died, Say, Unaware, Walls, confined, read_here, silenced, whole
from tilewright.serve.judge import Loads, answer, is_at_hand, no_results, refusal, settle
from tilewright.serve.submission import Submission, read_json

MOST_BYTES = 8 << 20  # of a request
MORE_SECONDS = 10.0  # than a submission asks for: to compile, and to compare
OWN_BYTES = 4 << 30  # address space that Python and NumPy reserve without using it
HEADER = struct.Struct("<Qdq?")  # of a request: its length, its limits, and whether it holds Python


def work(loads: Loads, walls: Walls, requests: int, answers: BinaryIO) -> None:
    """A worker's life: an answer in a line of JSON for each request, until these end. requests: a file.

    A child reads each request, judges it and ends. Of one that has died the answer is why, a text.
    """
    _warm(loads, walls)
    requests = os.dup(requests)  # a child's standard input is another one
    with one_blas_thread():
        while header := _exactly(requests, HEADER.size):
            bounds = RequestBounds(*HEADER.unpack(header))
            child = Child(partial(_judged, bounds, loads, walls, requests), quiet=False, keep=(requests,))
            answer = child.answer(bounds.seconds)
            said = answer.said if isinstance(answer, Died) else answer
            *lines, _ = said.split(b"\n")
            if not lines:
                return  # nobody knows how much of the request was read
            answers.write((lines[-1] or json.dumps(str(answer)).encode()) + b"\n")
            answers.flush()


@dataclass(frozen=True, slots=True)
class RequestBounds:
    """What a worker knows of a request before it is read. length: of its text. python: does it hold code of an author
    that runs? seconds, nbytes: for its process.
    """

    length: int
    seconds: float
    nbytes: int
    python: bool

    @classmethod
    def of(cls, request: Any, length: int) -> RequestBounds:
        """Those that a request asks for, if it is one."""
        fields = request if isinstance(request, dict) else {"seconds": 1.0}
        asked, nbytes = fields.get("seconds", 20.0), fields.get("nbytes")
        seconds = asked if isinstance(asked, (int, float)) and 0 < asked <= 3600 else 1.0
        room = nbytes if type(nbytes) is int and 0 < nbytes <= 1 << 40 else 2 << 30
        return cls(length, seconds + MORE_SECONDS, room + OWN_BYTES, fields.get("language") not in ("cu", "ptx"))


def _judged(bounds: RequestBounds, loads: Loads, walls: Walls, requests: int, say: Say) -> None:
    """In the child: says an empty line once the request is read, then its answer in a line."""
    unaware = Unaware() if bounds.python else None  # before the request is there
    line = _exactly(requests, bounds.length)
    os.close(requests)  # the next ones are none of its business
    say(b"\n")
    hold(seconds=whole(bounds.seconds), nbytes=bounds.nbytes)
    request = read_json(line)

    def refer(work: Callable[[], bytes], submission: Submission) -> bytes:
        """In this process, which has nothing left to do but to compare."""
        error = no_results(f"its process has ended, or it took longer than {submission.seconds:g} s")
        say(_line(refusal(request, error.what, "refused", str(error.given))))  # what holds if nothing follows
        silenced([2])
        confined(seconds=whole(process_time() + submission.seconds), nbytes=bounds.nbytes)
        return work()

    judged = answer(request, loads, walls, unaware.read if unaware else read_here, refer)
    say(_line(judged))
    if unaware:
        unaware.end()


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, default=str).encode() + b"\n"


def _exactly(file: int, nbytes: int) -> bytes:
    """So many bytes, or none where the file ends."""
    parts = list[bytes]()
    while nbytes and (part := os.read(file, nbytes)):
        parts.append(part)
        nbytes -= len(part)
    return b"" if nbytes else b"".join(parts)


WARMING = """
from tilewright import T


@T.prim_func
def turned(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    T.cta_id([1])
    row = T.alloc_shared((32,), "float32")
    tid = T.thread_id([32])
    if tid < n:
        row[tid] = A[tid]
    T.cuda.cta_sync()
    if tid < n:
        B[tid] = row[n - 1 - tid]
"""
WARMING_CUDA = """
__global__ void turned(const float* A, float* B, int n) {
    __shared__ float row[32];
    if (threadIdx.x < n) row[threadIdx.x] = A[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) B[threadIdx.x] = row[n - 1 - threadIdx.x];
}
"""
ROW = {"dtype": "float32", "shape": ["n"]}
TURNED = {"sizes": {"n": 32}, "arguments": [{"name": "A", **ROW}, {"name": "B", **ROW, "role": "out"}],
          "reference": "def reference(A, **sizes): return A[::-1]"}  # fmt: skip


def _warm(loads: Loads, walls: Walls) -> None:
    """Judge kernels here, and read one without walls: what that imports and remembers, each fork finds done."""
    warmed = answer({**TURNED, "language": "py", "source": WARMING}, loads, walls)
    assert warmed["status"] == "clean", warmed
    by_value = [*TURNED["arguments"], {"name": "n", "value": "n"}]
    cuda = {"language": "cu", "source": WARMING_CUDA, "arguments": by_value, "launch": {"block": [32]}}
    answer({**TURNED, **cuda}, loads, walls)  # refused where NVRTC is missing
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "warming.py"
        file.write_text(WARMING, encoding="utf-8")
        loads["py"](str(file), [])
    if is_at_hand():
        import triton.compiler  # noqa: F401  # so that each fork has it
    settle()
    gc.collect()
    gc.freeze()  # a fork shares what no collection touches


class Workers:
    """As many workers as jobs; ``ask`` waits for a free one. May be called by several threads."""

    def __init__(self, jobs: int) -> None:
        if not hasattr(os, "fork"):
            raise ToolError("a judge that serves needs processes that fork", hint="Linux, macOS, or WSL on Windows")
        self._free: SimpleQueue[_Worker] = SimpleQueue()
        self._all = [_Worker() for _ in range(jobs)]
        for worker in self._all:
            self._free.put(worker)

    def ask(self, request: Any) -> dict[str, Any]:
        """The answer to one request."""
        worker = self._free.get()
        try:
            return worker.ask(request)
        finally:
            self._free.put(worker)

    @property
    def processes(self) -> list[int]:
        """The numbers of their processes."""
        return [worker.process for worker in self._all]

    def close(self) -> None:
        """End all workers."""
        for worker in self._all:
            worker.end()


class _Worker:
    """A process that works, for one request at a time; where it has died it is started again."""

    def __init__(self) -> None:
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tilewright", "serve", "--worker"]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # threads that each fork would end, and start again
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone)

    @property
    def process(self) -> int:
        return self._process.pid

    def ask(self, request: Any) -> dict[str, Any]:
        try:
            answer = self._asked(request)
            return refusal(request, answer) if isinstance(answer, str) else answer
        except (OSError, ValueError):
            self.end()
            self._process = self._started()
            return refusal(request, "the worker has died; another one was started")

    def _asked(self, request: Any) -> dict[str, Any] | str:
        assert self._process.stdin is not None, "it was asked for"
        assert self._process.stdout is not None, "it was asked for"
        line = json.dumps(request).encode()
        self._process.stdin.write(HEADER.pack(*astuple(RequestBounds.of(request, len(line)))) + line)
        self._process.stdin.flush()
        answer: dict[str, Any] | str = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


WAITING = 4  # requests a job that are read and not answered yet


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Its lines; of one that is too long only the beginning, which is refused."""
    while line := stream.readline(MOST_BYTES + 2):
        yield line
        while not line.endswith(b"\n") and (line := stream.readline(MOST_BYTES)):
            pass


def by_lines(workers: Workers, requests: Iterable[bytes], answers: TextIO, jobs: int) -> None:
    """Answer each line; answers come as they are ready, and ``id`` says whose they are."""
    lock, room = Lock(), BoundedSemaphore(WAITING * jobs)

    def one(line: bytes) -> None:
        try:
            text = json.dumps(_asked(workers, line))
            with lock:
                answers.write(text + "\n")
                answers.flush()
        finally:
            room.release()

    with ThreadPoolExecutor(jobs) as pool:
        for line in requests:
            if line.strip():
                room.acquire()
                pool.submit(one, line)


def _asked(workers: Workers, text: bytes) -> dict[str, Any]:
    if len(text) > MOST_BYTES + 1:
        return refusal(None, "the request is too long", "refused", f"more than {MOST_BYTES:,} bytes")
    try:
        return workers.ask(read_json(text))
    except (ValueError, RecursionError) as error:
        return refusal(None, "the request is no JSON", "refused", str(error))


class HttpDoor(ThreadingHTTPServer):
    """``POST /judge`` with ``Authorization: Bearer TOKEN`` and a submission as the body; ``GET /health`` without.

    It listens on 127.0.0.1 only.
    """

    daemon_threads = True

    def __init__(self, workers: Workers, port: int, token: str) -> None:
        self.workers, self.token = workers, token
        super().__init__(("127.0.0.1", port), _Request)


PLACES = {"/health": "GET, HEAD", "/judge": "POST"}
"""What is served, and by which methods."""


class _Request(BaseHTTPRequestHandler):
    server: HttpDoor
    timeout = 30  # seconds for a client to send its request

    def do_GET(self) -> None:
        if self._is_served():
            self._send(200, {"status": "ready"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        if not self._is_served():
            return
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.server.token.encode()):
            message = "Authorization: Bearer TOKEN, with the token that the server was started with"
            self._send(401, {"message": message}, {"WWW-Authenticate": "Bearer"})
            return
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > MOST_BYTES:
            self._send(413, {"message": f"a body of {MOST_BYTES:,} bytes at most, with its Content-Length"})
            return
        self._send(200, _asked(self.server.workers, self.rfile.read(int(length))))

    def _is_served(self) -> bool:
        """Is there this place, by this method? Else it is answered."""
        if (allowed := PLACES.get(self.path)) is None:
            self._send(404, {"message": "GET /health, or POST /judge"})
        elif self.command not in allowed.split(", "):
            self._send(405, {"message": f"{allowed} {self.path}"}, {"Allow": allowed})
        return allowed is not None and self.command in allowed.split(", ")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses: a method that it knows of no place (501), or a request that is none."""
        if code == 501:
            self._is_served()
        else:
            self._send(code, {"message": message or "no request"})

    def _send(self, code: int, fields: dict[str, Any], headers: Mapping[str, str] = {}) -> None:
        body = json.dumps(fields).encode()
        self.send_response(code)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is asked is nobody else's business."""
