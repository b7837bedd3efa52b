"""The commands that serve other programs: a judge of submissions, and tools for agents."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def serve(
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Submissions judged at once.")] = 1,
    http: Annotated[int | None, typer.Option(min=0, max=65535, help="A port on 127.0.0.1; 0: any free one.")] = None,
    token: Annotated[str | None, typer.Option(help="That HTTP asks for; left out, one is made and shown.")] = None,
    worker: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Judge submissions for a program: a line of JSON in, a line of JSON out; or over HTTP on this machine.

    A submission is a kernel (in tilewright's language, CUDA, PTX or Triton), a declaration of its arguments and a
    reference in NumPy. It runs on the simulator under every check, on shapes that are drawn from the declaration.
    Python code of a submission runs in a process of its own behind limits of time and memory, without network and
    without a way to change files, where the system has that; each answer says what it has not. Results come from what
    the kernel did to memory. docs/serve.md has the fields.

    \b
    Examples:
      tilewright serve --jobs 2 < submissions.jsonl
      tilewright serve --jobs 4 --http 8080 --token 5f1d...
      curl -H 'Authorization: Bearer 5f1d...' -d @submission.json http://127.0.0.1:8080/judge
    """
    from tilewright.cli.kernels import LOADS
    from tilewright.serve.confine import Walls
    from tilewright.serve.workers import Workers, work
    from tilewright.view.terminal import complain

    if worker:
        work(LOADS, Walls.here(), sys.stdin.fileno(), sys.stdout.buffer)
        return
    workers = Workers(jobs)
    for text in Walls.here().missing():
        complain(f"warning: {text}")
    try:
        if http is None:
            from tilewright.serve.server import by_lines, lines_of

            by_lines(workers, lines_of(sys.stdin.buffer), sys.stdout, jobs)
        else:
            _over_http(workers, http, token)
    finally:
        workers.close()


def _over_http(workers: object, port: int, token: str | None) -> None:
    import secrets

    from tilewright.errors import ArgumentError
    from tilewright.serve.server import HttpDoor
    from tilewright.serve.workers import Workers
    from tilewright.view.terminal import complain

    assert isinstance(workers, Workers)
    chosen = token or secrets.token_urlsafe(24)
    try:
        door = HttpDoor(workers, port, chosen)
    except OSError as error:
        raise ArgumentError(f"cannot listen on port {port}", given=str(error), allowed="a free one; 0: any") from None
    complain(f"http://127.0.0.1:{door.server_address[1]}/judge" + ("" if token else f", token {chosen}"))
    try:
        door.serve_forever()
    except KeyboardInterrupt:
        door.server_close()


def mcp() -> None:
    """Serve an agent: these commands as tools of the Model Context Protocol, over standard input and output.

    \b
    Examples:
      pip install 'tilewright[mcp]'
      tilewright mcp
    """
    from tilewright.serve.mcp import server

    server().run("stdio")
