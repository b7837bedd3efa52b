"""The two doors of a judge: lines of JSON on standard input, and HTTP on this machine alone, with a token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from tilewright.serve.judge import refusal
from tilewright.serve.submission import read_json
from tilewright.serve.workers import MOST_BYTES

if TYPE_CHECKING:
    from tilewright.serve.workers import Workers


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
