"""The process in which NVRTC reads a .cu file: it gets a request as JSON, and answers with PTX or with complaints.

Run as ``python -m tilewright.cuda.cu_worker``. Limits of time and memory are set before NVRTC sees any of the file.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

__all__ = ["answer"]


def _limit(seconds: int, nbytes: int) -> None:
    with suppress(ImportError, ValueError, OSError):  # no such limits on this system
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``ptx``, ``log`` and ``names`` (lowered, by name expression) of a request; without ``ptx`` it was refused."""
    from tilewright.cuda.nvrtc import compiled_ptx

    return compiled_ptx(
        request["source"], request["file"], request["options"], request["headers"], tuple(request["names"])
    )


def main() -> None:
    request = json.load(sys.stdin)
    _limit(request["seconds"], request["bytes"])
    json.dump(answer(request), sys.stdout)


if __name__ == "__main__":
    main()
