"""What compiled kernels call and the driver provides: printf with its arguments in memory, and failed assertions.

Sources: CUDA C++ Programming Guide, "Formatted Output", "Assertion"; of the packed arguments PTX Writer's Guide to
Interoperability, "System Calls".
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.printing import CONVERSION, formatted
from tilewright.isa.table import Cuda, Meaning, reads, single
from tilewright.terms import symbol, told

MOST_LETTERS = 1 << 12  # of a string
_WIDTHS = {"hh": 4, "h": 4, None: 4, "l": 8, "ll": 8, "z": 8, "j": 8, "t": 8}


def _string(machine: Machine, address: int, lane: tuple[int, ...]) -> str:
    """The letters from an address on up to the first zero, as the lane reads them."""
    letters = bytearray()
    shape = machine.active.shape
    while len(letters) < MOST_LETTERS:
        here = np.full(shape, address + len(letters), np.uint64)
        letter = int(machine.memory.rows(here, 1)[lane][0])
        if not letter:
            break
        letters.append(letter)
    return letters.decode(errors="replace")


def _values(machine: Machine, fmt: str, address: int, lane: tuple[int, ...]) -> tuple[object, ...]:
    """The arguments that a format asks for, each at its natural alignment."""
    values: list[object] = []
    place = 0
    for match in CONVERSION.finditer(fmt):
        kind = match[5]
        if kind == "%":
            continue
        width = 8 if kind in "fFeEgGaAsp" else _WIDTHS[match[4]]
        place = -(-place // width) * width
        data = machine.memory.rows(np.full(machine.active.shape, address + place, np.uint64), width)[lane]
        place += width
        values.append(_value(machine, kind, np.ascontiguousarray(data), lane))
    return tuple(values)


def _value(machine: Machine, kind: str, data: NDArray[np.uint8], lane: tuple[int, ...]) -> object:
    if kind in "fFeEgGaA":
        return data.view(np.float64)[0]
    number = int.from_bytes(data.tobytes(), "little")
    return _string(machine, number, lane) if kind == "s" else number


def vprintf(machine: Machine, fmt: Lanes, args: Lanes) -> None:
    """One string per active lane, in lane order."""
    shape = np.broadcast_shapes(machine.active.shape, fmt.shape, args.shape)
    formats, packed = np.broadcast_to(fmt, shape), np.broadcast_to(args, shape)
    lines, texts = [], dict[int, str]()
    for lane in map(tuple, np.argwhere(np.broadcast_to(machine.active, shape))):
        at = int(formats[lane])
        if at not in texts:
            texts[at] = _string(machine, at, lane)
        lines.append(formatted(texts[at], _values(machine, texts[at], int(packed[lane]), lane)))
    machine.write_text(len(lines), lines.__getitem__)


def assert_fail(machine: Machine, message: Lanes, file: Lanes, line: Lanes, function: Lanes) -> None:
    """Stop the kernel, naming the condition that failed and its function."""
    lane = tuple(np.argwhere(machine.active)[0])
    number = int(np.broadcast_to(message, machine.active.shape)[lane])
    condition = _string(machine, number, lane)
    name = _string(machine, int(np.broadcast_to(function, machine.active.shape)[lane]), lane)
    machine.fault(f"assertion `{condition}` failed in {re.sub(r'[(].*', '', name)}", machine.active)


def out_of_stack(machine: Machine, function: str, depth: Lanes, nbytes: Lanes) -> None:
    """Stop the kernel: the stack of a thread has no room for this call. The error says how many calls deep it is."""
    lane = tuple(np.argwhere(machine.active)[0])
    deep, room = (int(np.broadcast_to(value, machine.active.shape)[lane]) for value in (depth, nbytes))
    what = f"the stack of {room} bytes that each thread has is full"
    calls = f"{what}: {deep} calls of functions that call themselves, the last of"
    machine.fault(told("{} {}", calls, symbol(function)), machine.active)


SOURCE = 'CUDA C++ Programming Guide, "{}"'
single(
    "cuda.vprintf",
    Cuda("vprintf((const char*){fmt}, (void*){args})", helper='extern "C" __device__ int vprintf(const char*, void*);'),
    since("sm_75"),
    SOURCE.format("Formatted Output"),
    Meaning(vprintf, on="machine"),
    operands=(reads("fmt", "generic"), reads("args", "generic")),
    doc="Prints one line per active lane: ``fmt`` points to the format, ``args`` to the arguments, side by side.",
)
single(
    "cuda.assert_fail",
    Cuda("__assertfail((const char*){message}, (const char*){file}, {line}, (const char*){function}, 1)"),
    since("sm_75"),
    SOURCE.format("Assertion"),
    Meaning(assert_fail, on="machine"),
    operands=(
        reads("message", "generic"),
        reads("file", "generic"),
        reads("line", "b32"),
        reads("function", "generic"),
    ),
    doc="Stops the kernel with an error that has the text of the assertion that failed.",
)
single(
    "cuda.out_of_stack",
    Cuda("__trap()"),
    since("sm_75"),
    SOURCE.format("Trap function"),
    Meaning(out_of_stack, on="machine"),
    operands=(reads("function", "text"), reads("depth", "b32"), reads("nbytes", "b32")),
    doc="Stops a kernel whose functions call each other deeper than its threads have a stack for.",
)
