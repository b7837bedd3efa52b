"""From a .cu file to PTX: its device code, through NVRTC in a process of its own.

NVRTC gets the text as it is. Host code that it refuses is blanked, one top-level chunk after the other, until only
kernels and what they need are left; errors in those are the author's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright import process
from tilewright.cuda import cu_worker
from tilewright.cuda.cu_chunks import Chunk, blanked, chunks, instances
from tilewright.cuda.cu_headers import INSTALL, stand_ins, wheel_folders
from tilewright.errors import Span, ToolError

__all__ = ["MadePtx", "compile_cu"]

SECONDS, BYTES = 60, 4 << 30  # that NVRTC may take
ROUNDS = 8  # in which host code is left out
_COMPLAINT = r"^{file}\((\d+)\): (?:catastrophic )?error: (.*)$"
_MESSAGES_SHOWN = 4


@dataclass(frozen=True, slots=True)
class MadePtx:
    """PTX of a .cu file. names: of kernels, as the file and its callers write them, to symbols."""

    ptx: str
    names: Mapping[str, str]


def compile_cu(
    text: str,
    file: str,
    arch: str,
    *,
    defines: Mapping[str, object],
    include: Sequence[Path],
    names: Sequence[str],
    seconds: int = SECONDS,
) -> MadePtx:
    """The PTX of a .cu text for an architecture, every instruction with its line. names: instances of templates besides
    those that the file launches.

    Raises ToolError, at the file's line, where NVRTC refuses device code, and at a limit of time or memory.
    """
    options = [f"--gpu-architecture=compute_{arch[3:]}", "--std=c++17", "--generate-line-info"]
    options += [f"-I{folder}" for folder in (*include, *wheel_folders())]
    options += [f"-D{name}={value}" if value is not None else f"-D{name}" for name, value in defines.items()]
    request = {"file": file, "options": options, "headers": dict(stand_ins(text, include)), "seconds": seconds,
               "bytes": BYTES, "process": process.__file__}  # fmt: skip
    wanted = list(dict.fromkeys([*names, *instances(text)]))
    made = _asked(request | {"source": text, "names": wanted})
    if not made["ptx"]:
        made = _without_host_code(request, text, wanted, tuple(names), made)
    return MadePtx(made["ptx"], {name: symbol for name, symbol in made["names"].items() if symbol})


def _without_host_code(
    request: dict[str, Any], text: str, wanted: list[str], asked: tuple[str, ...], first: dict[str, Any]
) -> dict[str, Any]:
    """The result of NVRTC once host functions and other chunks that it refuses are blanked."""
    pieces = chunks(text)
    dropped = [chunk for chunk in pieces if not chunk.device]
    request["options"] = [*request["options"], "--device-as-default-execution-space"]
    reported = ""
    for _ in range(ROUNDS):
        made = _asked(request | {"source": blanked(text, dropped), "names": wanted})
        if made["ptx"]:
            return made
        reported = reported or made["log"]
        lines = {int(number) for number, _ in _complaints(made["log"], request["file"])}
        wrong = [one for one in pieces if one not in dropped and not one.kernel and _holds(text, one, lines)]
        unknown = [name for name in wanted if name not in asked and f"{name}" in made["log"]]
        if not wrong and not unknown and not (wanted and not lines):
            break
        dropped += wrong
        wanted = [name for name in wanted if name not in unknown] if lines else list(asked)
    raise _refused(text, request["file"], reported or first["log"], request["headers"])


def _holds(text: str, chunk: Chunk, lines: set[int]) -> bool:
    body = text[chunk.start : chunk.stop]
    first = text.count("\n", 0, chunk.start + len(body) - len(body.lstrip())) + 1
    return any(first <= line <= first + body.strip().count("\n") for line in lines)


def _complaints(log: str, file: str) -> list[tuple[str, str]]:
    return re.findall(_COMPLAINT.format(file=re.escape(file)), log, re.MULTILINE)


def _refused(text: str, file: str, log: str, headers: Mapping[str, str]) -> ToolError:
    """The error for device code that does not compile: NVRTC's first messages, at the line of the first."""
    found = _complaints(log, file)
    missing = sorted(name for name, text in headers.items() if not text and f'"{name}"' in log)
    lines = [f"line {number}: {message}" for number, message in found[:_MESSAGES_SHOWN]] or log.splitlines()[:8]
    absent = re.findall(r'could not open source file "([^"]+)"', log)
    hint = None
    if absent or "cooperative_groups" in text or missing:
        hint = f"include=[FOLDER] for its headers; NVIDIA's come with {INSTALL}" if not wheel_folders() else None
    at = Span(file, int(found[0][0])) if found else None
    return ToolError("NVRTC refuses the device code", given="\n".join(lines), hint=hint, at=at)


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of the process. Raises ToolError where it ends without one."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", Path(cu_worker.__file__).read_text(encoding="utf-8")]  # the room is not imported
    try:
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False,
                              timeout=request["seconds"] + 30, env=environment)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _out_of_time(request) from None
    if done.returncode < 0:
        raise _out_of_time(request)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ToolError("NVRTC did not finish", given=last[0], allowed=f"{BYTES >> 30} GiB of memory")
    found: dict[str, Any] = json.loads(done.stdout)
    if found.get("missing"):
        raise ToolError("NVRTC is not installed", given=found["log"], hint="pip install 'tilewright[cuda]'")
    return found


def _out_of_time(request: dict[str, Any]) -> ToolError:
    return ToolError("NVRTC takes too long", given=request["file"], allowed=f"{request['seconds']} s")
