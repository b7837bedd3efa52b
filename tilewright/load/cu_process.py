"""The process in which NVRTC reads a .cu file: it gets a request as JSON, and answers with PTX or with complaints.

Run as ``python -c`` with this text, so that nothing else of the package is imported: that takes four times as long as
NVRTC itself. Limits of time and memory are set before NVRTC sees any of the file.
"""

from __future__ import annotations

import json
import sys
from runpy import run_path
from typing import Any


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """``ptx`` (empty where the text is refused), ``log``, and ``names``: the symbol of each name expression."""
    from cuda.bindings import nvrtc

    headers = request["headers"]
    texts, called = [text.encode() for text in headers.values()], [name.encode() for name in headers]
    program = _got(
        nvrtc.nvrtcCreateProgram(request["source"].encode(), request["file"].encode(), len(texts), texts, called)
    )
    for name in request["names"]:
        _got(nvrtc.nvrtcAddNameExpression(program, name.encode()))
    options = [option.encode() for option in request["options"]]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = _read(nvrtc, program, "ProgramLog").replace("\0", "").strip()
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return {"ptx": "", "log": log or str(status), "names": {}}
    names = {name: _got(nvrtc.nvrtcGetLoweredName(program, name.encode())).decode() for name in request["names"]}
    return {"ptx": _read(nvrtc, program, "PTX").rstrip("\0"), "log": log, "names": names}


def _got(result: tuple[Any, ...]) -> Any:
    status, *rest = result
    if int(status):
        raise RuntimeError(str(status))
    return rest[0] if rest else None


def _read(nvrtc: Any, program: Any, what: str) -> str:
    buffer = bytearray(_got(getattr(nvrtc, f"nvrtcGet{what}Size")(program)))
    _got(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer.decode(errors="replace")


def main() -> None:
    request = json.load(sys.stdin)
    run_path(request["process"])["hold"](request["seconds"], request["bytes"], for_good=True)  # NVRTC heeds no SIGXCPU
    try:
        found = answer(request)
    except ImportError as error:
        found = {"ptx": "", "log": str(error), "names": {}, "missing": True}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
