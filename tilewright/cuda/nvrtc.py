"""From CUDA text to machine code, without a GPU: NVRTC assembles, nvdisasm reads back.

Both come as wheels (the extra ``cuda``) and are imported only when something is assembled. The text includes no header,
so that it assembles in a thirtieth of a second.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tilewright.errors import Span, TargetError, ToolError, choices
from tilewright.ir import Kernel
from tilewright.isa import ARCHS, calls_in
from tilewright.records import read_tables

# Messages of ptxas about kernels whose operations hold registers, though it assembles them.


class Complaint(NamedTuple):
    """A message of ptxas, by its code: what it means, what is right, and what to try."""

    what: str
    allowed: str
    hint: str


@cache
def complaints() -> Mapping[str, Complaint]:
    """What we know of, by the code, read once ptxas has a message."""
    return {code: Complaint(**row) for code, row in read_tables(__file__, "complaints.toml").items()}


LOSS = "Performance Loss"
OTHER = Complaint(
    "ptxas changes the order of products, or ignores setmaxnreg",
    "a kernel that it assembles without such a message",
    "wgmma.fence before the first product on registers, commit and wait before they are used otherwise",
)
"""Of a code that the table does not have."""
CODE = r"\((C75\d\d)\)(.*)"
LINE = r"line (\d+)"


def check_log(assembly: Assembly, kernel: Kernel, entry: str) -> None:
    """Raises TargetError, at the product's line, where ptxas complains of fenced operations, or spills."""
    calls = [(bound, stmt.at) for stmt, bound in calls_in(kernel.body)]
    issues = [(bound.mnemonic, at) for bound, at in calls if bound.form.issue and bound.form.issue.fenced]
    for code, text in re.findall(CODE, assembly.log):
        complaint = complaints().get(code, OTHER if LOSS in text else None)
        if complaint is not None:
            at = _line_of(assembly.ptx, text, issues) or kernel.at
            message = f"ptxas {code}:{text.rstrip()}"
            raise TargetError(
                f"{kernel.name}: {complaint.what}", given=message, allowed=complaint.allowed, hint=complaint.hint, at=at
            )
    if not issues:
        return
    resources = assembly.resources(entry)
    if resources.spill_store_bytes + resources.spill_load_bytes:
        raise TargetError(
            f"{kernel.name}: registers are spilled to memory",
            given=f"{resources.spill_store_bytes} bytes stored, {resources.spill_load_bytes} loaded by each thread",
            allowed="none in a kernel with products that hold registers",
            hint=complaints()["C7511"].hint,
            at=issues[0][1] or kernel.at,
        )


def _line_of(ptx: str, text: str, issues: list[tuple[str, Span | None]]) -> Span | None:
    """The kernel's line: of the last product at or before the line of PTX that a message names, or of the first."""
    named = re.search(LINE, text)
    before = "\n".join(ptx.splitlines()[: int(named[1])]) if named else ""
    last = max(issues, key=lambda issue: before.rfind(f"{issue[0]} "), default=("", None))
    return last[1]


_INSTALL = "pip install 'tilewright[cuda]'"
_FILE = "kernel.cu"  # what NVRTC calls the text in its messages
_MESSAGES_SHOWN = 4

_OPTIONS = (
    "--std=c++17",
    "--minimal",  # without textures and the runtime's own types, which no kernel here uses: a sixth of the time
    "--ptxas-options=-v",  # puts each kernel's resources into the log
)

FAST_MATH = ("--fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false")

_FIGURES = "Compiling entry function"  # ptxas's first line

# The report of ptxas 13 on a kernel, over two lines. It leaves out shared memory and barriers that are not used.
_REPORT = (
    r"Function properties for {kernel}\n"
    r".*?(?P<local_bytes>\d+) bytes stack frame, "
    r"(?P<spill_store_bytes>\d+) bytes spill stores, (?P<spill_load_bytes>\d+) bytes spill loads\n"
    r".*?Used (?P<registers>\d+) registers(?:, used (?P<barriers>\d+) barriers)?"
    r"(?:.*? (?P<shared_bytes>\d+) bytes smem)?"
)


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of one kernel, as ptxas reports them; bytes are per thread but for shared_bytes."""

    registers: int
    local_bytes: int  # the stack frame: arrays indexed by what is only known at run time, and spills
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int  # declared in the text, per CTA; `Executable.resources` adds dynamic shared memory
    barriers: int


@dataclass(frozen=True, slots=True)
class Assembly:
    """CUDA text, assembled for one architecture."""

    arch: str
    cubin: bytes
    ptx: str
    log: str

    def resources(self, kernel: str) -> Resources:
        """The resources of the kernel with that (unmangled, ``extern "C"``) name.

        Raises ToolError where the log has no figures for it.
        """
        match = re.search(_REPORT.format(kernel=re.escape(kernel)), self.log)
        if match is None:
            kernels = re.findall(rf"{_FIGURES} '(\S+)'", self.log)
            raise ToolError(
                f"ptxas reports no resources for a kernel {kernel!r}", given=kernel, allowed=choices(kernel, kernels)
            )
        return Resources(**{name: int(value or 0) for name, value in match.groupdict().items()})


def assemble(source: str, arch: str, *, fast_math: bool = False, options: tuple[str, ...] = ()) -> Assembly:
    """Assemble CUDA text for ``arch`` (``"sm_90a"``); the machine needs neither a GPU nor a CUDA toolkit.

    A multiplication and an addition stay two roundings unless ``fast_math`` allows their contraction; it also takes
    subnormal numbers for zeros, and quotients and roots that are off by a few units in the last place.

    Raises ToolError with the offending lines where NVRTC or ptxas refuses the text, and where NVRTC is not installed;
    TargetError for an architecture that this NVRTC does not know.
    """
    if arch not in architectures():
        raise TargetError(
            f"{version()} has no architecture {arch!r}", given=arch, allowed=choices(arch, architectures())
        )
    arithmetic = FAST_MATH if fast_math else ("--fmad=false",)
    flags = [f"--gpu-architecture={arch}", *arithmetic, *_OPTIONS, *options]
    assembly = _compiled(source, arch, flags)
    if _FIGURES not in assembly.log and "__global__" in source:  # of NVRTC's own cache, which keeps no log
        with suppress(ToolError):  # an NVRTC that does not know the option
            return _compiled(source, arch, [*flags, "--no-cache"])
    return assembly


def _compiled(source: str, arch: str, flags: list[str]) -> Assembly:
    nvrtc = _nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), _FILE.encode(), 0, [], [])
    _expect_success(status)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = _read(program, "ProgramLog").decode(errors="replace").replace("\0", "").strip()
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise ToolError(f"{version()} refuses an option", given=" ".join(flags), allowed=log)
        ptx = _read(program, "PTX").decode().rstrip("\0")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refusal(source, arch, log, ptx)
        return Assembly(arch, _read(program, "CUBIN"), ptx, log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def sass(cubin: bytes) -> str:
    """The machine code of a cubin as text, one instruction a line.

    Raises ToolError where nvdisasm is missing or fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([_nvdisasm(), "--print-code", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError("nvdisasm cannot read the cubin", given=f"{len(cubin)} bytes", allowed=done.stderr.strip())
    return done.stdout


@cache
def architectures() -> tuple[str, ...]:
    """The architectures of the table that this NVRTC assembles for; NVRTC lists their numbers only."""
    status, numbers = _nvrtc().nvrtcGetSupportedArchs()
    _expect_success(status)
    return tuple(name for name, row in ARCHS.items() if row.number in numbers)


@cache
def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc
        from cuda.pathfinder import DynamicLibNotFoundError
    except ImportError as error:
        raise ToolError("NVRTC is not installed", given=str(error), hint=_INSTALL) from error
    try:
        nvrtc.nvrtcVersion()  # loads the library
    except DynamicLibNotFoundError as error:
        raise ToolError("NVRTC's library is not installed", given="cuda-bindings alone", hint=_INSTALL) from error
    module: ModuleType = nvrtc
    return module


@cache
def _nvdisasm() -> str:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError as error:
        raise ToolError("nvdisasm is not installed", given=str(error), hint=_INSTALL) from error
    path = find_nvidia_binary_utility("nvdisasm")
    if path is None:
        raise ToolError("nvdisasm is not installed", hint=_INSTALL)
    return str(path)


def version() -> str:
    """The NVRTC that assembles: "NVRTC 13.0"."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def _expect_success(status: object) -> None:
    if status != _nvrtc().nvrtcResult.NVRTC_SUCCESS:
        raise ToolError(f"{version()} fails", given=str(status))


def _read(program: object, what: str) -> bytes:
    """One of a program's outputs: ProgramLog, PTX or CUBIN."""
    nvrtc = _nvrtc()
    status, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _expect_success(status)
    buffer = bytearray(size)
    (status,) = getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    _expect_success(status)
    return bytes(buffer)


def _refusal(source: str, arch: str, log: str, ptx: str) -> ToolError:
    """The error for a text that does not assemble: each message of the log with the line that it means."""
    messages = [*_compiler_messages(source, log), *_ptxas_messages(source, log, ptx)]
    messages = messages or re.findall(r"^ptxas fatal.*$", log, re.MULTILINE) or log.splitlines()
    return ToolError(
        f"the CUDA text does not assemble for {arch} with {version()}", given="\n".join(messages[:_MESSAGES_SHOWN])
    )


def _compiler_messages(source: str, log: str) -> list[str]:
    lines = source.splitlines()
    errors = re.findall(rf"^{re.escape(_FILE)}\((\d+)\): error: (.*)$", log, re.MULTILINE)
    return [_message(lines, int(number), text) for number, text in errors]


def _ptxas_messages(source: str, log: str, ptx: str) -> list[str]:
    """ptxas counts lines of PTX; the text's line is the first that spells the same instruction, where it is inline."""
    ptx_lines = ptx.splitlines()
    lines = source.splitlines()
    messages = []
    for number, text in re.findall(r"^ptxas .*?, line (\d+); error\s*: (.*)$", log, re.MULTILINE):
        instruction = ptx_lines[int(number) - 1].strip()
        opcode = instruction.split(" ", 1)[0]
        at = next((i for i, line in enumerate(lines, 1) if opcode in line), None)
        messages.append(_message(lines, at, text) if at else f"PTX line {number}: {text}\n  {instruction}")
    return messages


def _message(lines: list[str], number: int, text: str) -> str:
    return f"line {number}: {text}\n  {lines[number - 1].strip()}"
