"""printf from a kernel: each active lane's line, formatted as C does.

Source: CUDA C++ Programming Guide, "Formatted Output".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import VOID, DType, dtype
from tilewright.errors import InstructionError
from tilewright.isa.arch import since
from tilewright.isa.forms import Cuda, Form, Meaning, reads
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import REQUIRED, Bound, instruction, single
from tilewright.terms import Term, symbol, told

MOST_ARGUMENTS = 32

# flags, width, precision, length, conversion: C11, 7.21.6.1. A width of `*` is not supported, strings only in compiled
# kernels.
CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(?:\.(\d*))?(hh|h|ll|l|z|j|t)?([diouxXcfFeEgGaAsp%])")
_BITS = {"hh": 8, "h": 16, None: 32, "l": 64, "ll": 64, "z": 64, "j": 64, "t": 64}


def _integer(value: object, bits: int, signed: bool) -> int:
    number: int = int(value) & ((1 << bits) - 1)  # type: ignore[call-overload]  # a NumPy scalar
    return number - (1 << bits) if signed and number >> bits - 1 else number


def _padded(sign: str, digits: str, flags: str, width: str, *, zeros: bool) -> str:
    """Left with "-", else right; zeros go between sign and digits where they are allowed."""
    room = int(width or 0)
    if "-" in flags:
        return (sign + digits).ljust(room)
    return sign + digits.zfill(room - len(sign)) if zeros and "0" in flags else (sign + digits).rjust(room)


def _sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else " " if " " in flags else ""


def _integer_text(value: object, flags: str, width: str, precision: str | None, length: str | None, kind: str) -> str:
    number = _integer(value, _BITS[length], signed=kind in "di")
    digits = format(abs(number), kind if kind in "oxX" else "d")
    if precision is not None:
        digits = digits.zfill(int(precision or 0)) if number or int(precision or 0) else ""
    sign = _sign(number < 0, flags) if kind in "di" else ""
    if "#" in flags and kind in "xX" and number:
        sign = f"0{kind}"
    if "#" in flags and kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    return _padded(sign, digits, flags, width, zeros=precision is None)


def _float_text(value: object, flags: str, width: str, precision: str | None, kind: str) -> str:
    number = float(value)  # type: ignore[arg-type]  # a NumPy scalar
    spec = "%" + "#" * ("#" in flags) + ("" if precision is None else f".{precision or 0}") + kind
    digits = float.hex(abs(number)) if kind in "aA" else spec % abs(number)
    negative = math.copysign(1, number) < 0
    return _padded(_sign(negative, flags), digits, flags, width, zeros=math.isfinite(number))


def _converted(match: re.Match[str], value: object) -> str:
    flags, width, precision, length, kind = match.groups()
    if kind == "c":
        return _padded("", chr(_integer(value, 8, signed=False)), flags, width, zeros=False)
    if kind == "s":
        return _padded("", str(value)[: int(precision) if precision else None], flags, width, zeros=False)
    if kind == "p":
        return _padded("", f"{_integer(value, 64, signed=False):#x}", flags, width, zeros=False)
    if kind in "fFeEgGaA":
        return _float_text(value, flags, width, precision, kind)
    return _integer_text(value, flags, width, precision, length, kind)


def formatted(fmt: str, values: tuple[object, ...]) -> str:
    """``fmt`` with ``values`` put in, as C's printf does: an argument is read with the width its conversion names.

    >>> formatted("%d -> %5.2f 0x%08x", (-1, 2.5, 255))
    '-1 ->  2.50 0x000000ff'
    """
    rest = iter(values)
    return CONVERSION.sub(lambda match: "%" if match[5] == "%" else _converted(match, next(rest)), fmt)


def printf(machine: Machine, fmt: str, values: tuple[Lanes, ...]) -> None:
    """One string per active lane, in lane order."""
    shape = np.broadcast_shapes(machine.active.shape, *(value.shape for value in values))
    active = np.broadcast_to(machine.active, shape)
    columns = [np.broadcast_to(value, shape)[active] for value in values]
    machine.write_text(int(active.sum()), lambda i: formatted(fmt, tuple(column[i] for column in columns)))


def check_format(bound: Bound) -> None:
    """Raises InstructionError where format and arguments do not fit: C would print whatever lies there."""
    fmt = bound.texts["fmt"]
    left = CONVERSION.sub("", fmt)
    if "%" in left or any(match[5] == "s" for match in CONVERSION.finditer(fmt)):
        raise InstructionError(
            f"T.{bound.instruction.name} cannot read its format",
            given=repr(fmt),
            allowed="%d %i %u %o %x %c %f %e %g %a %p %%, with flags, width, precision and h, l or ll",
        )
    kinds = [match[5] for match in CONVERSION.finditer(fmt) if match[5] != "%"]
    values = bound.operands["args"]
    if len(kinds) != len(values) or len(values) > MOST_ARGUMENTS:
        raise InstructionError(
            f"T.{bound.instruction.name} has {len(values)} values for {len(kinds)} conversions",
            given=repr(fmt),
            allowed=f"one value for each conversion, {MOST_ARGUMENTS} at most",
        )
    for kind, value in zip(kinds, values, strict=True):
        if (kind in "fFeEgGaA") != value.dtype.is_float:
            wanted = "float32" if kind in "fFeEgGaA" else "int32"
            raise InstructionError(
                f"T.{bound.instruction.name}: %{kind} does not print {value.dtype}",
                given=str(value),
                hint=f'T.cast({value}, "{wanted}")',
            )


def _printf_row(name: str) -> None:
    single(
        name,
        Cuda("printf({fmt}{args})"),
        since("sm_75"),
        'CUDA C++ Programming Guide, "Formatted Output"',
        Meaning(printf, on="machine"),
        operands=(reads("fmt", "text"), reads("*args", "value")),
        doc="Prints one line per active lane, formatted as C does.",
        check=check_format,
    )


_printf_row("printf")
_printf_row("cuda.printf")


def _debug_row(
    name: str, text: str, source: str, doc: str, execute: Callable[..., object], result: DType = VOID
) -> None:
    single(name, Cuda(text), since("sm_75"), source, Meaning(execute, on="machine"), doc=doc, result=result)


_STOPS = re.compile("trap|assert|abort|terminate|throw|raise", re.IGNORECASE)
_UNDEFINED = (
    "the unoptimised build, which `tilewright check` runs too: it says what C++ leaves undefined in this line, such as "
    "a write to constant memory or through a null pointer"
)


def trap(machine: Machine) -> None:
    """Every active lane stops the kernel. Where the author's line has no trap, its compiler has put one there."""
    if (line := machine.line()) and not _STOPS.search(line):
        machine.fault("the compiler's own trap was reached", machine.active, hint=_UNDEFINED)
    machine.fault(told("{} was reached", Term("trap")), machine.active)


def device_assert(machine: Machine, cond: Lanes, message: str = "") -> None:
    """An active lane whose condition is false stops the kernel."""
    failed = machine.active & ~cond
    if failed.any():
        machine.fault("T.cuda.device_assert failed" + f": {message}" * bool(message), failed)


def clock(machine: Machine) -> Lanes:
    """The machine's count, the same in all lanes."""
    return np.array([machine.clock()])


_debug_row(
    "cuda.trap", "__trap()", 'CUDA C++ Programming Guide, "Trap function"', "Stops the kernel with an error.", trap
)
single(
    "cuda.device_assert",
    Cuda("(({cond}) ? (void)0 : __trap())"),
    since("sm_75"),
    'CUDA C++ Programming Guide, "Assertion"',
    Meaning(device_assert, on="machine"),
    params=("cond",),
    keywords={"message": ""},
    operands=(reads("cond", "pred"), reads("message", "text")),
    doc="Stops the kernel with an error where the condition is false; the simulator's has the message.",
)
_debug_row(
    "cuda.clock",
    "clock64()",
    'CUDA C++ Programming Guide, "Time Function"',
    "A per-multiprocessor counter, incremented every clock cycle; the simulator's counts steps.",
    clock,
    result=dtype("int64"),
)

# What compiled kernels call and the driver provides: printf with its arguments in memory, and failed assertions.
#
# Sources: CUDA C++ Programming Guide, "Formatted Output", "Assertion"; of the packed arguments PTX Writer's Guide to
# Interoperability, "System Calls".

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


RUNTIME_SOURCE = 'CUDA C++ Programming Guide, "{}"'
single(
    "cuda.vprintf",
    Cuda("vprintf((const char*){fmt}, (void*){args})", helper='extern "C" __device__ int vprintf(const char*, void*);'),
    since("sm_75"),
    RUNTIME_SOURCE.format("Formatted Output"),
    Meaning(vprintf, on="machine"),
    operands=(reads("fmt", "generic"), reads("args", "generic")),
    doc="Prints one line per active lane: ``fmt`` points to the format, ``args`` to the arguments, side by side.",
)
single(
    "cuda.assert_fail",
    Cuda("__assertfail((const char*){message}, (const char*){file}, {line}, (const char*){function}, 1)"),
    since("sm_75"),
    RUNTIME_SOURCE.format("Assertion"),
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
    RUNTIME_SOURCE.format("Trap function"),
    Meaning(out_of_stack, on="machine"),
    operands=(reads("function", "text"), reads("depth", "b32"), reads("nbytes", "b32")),
    doc="Stops a kernel whose functions call each other deeper than its threads have a stack for.",
)

# Functions in CUDA C++ that a kernel defines: their text goes into the CUDA text unchanged.
#
# Only a GPU can run such a function; the simulator stops there.

RETURNED = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool")


def unknown(machine: Machine, name: str, args: tuple[Lanes, ...], source_code: str) -> Lanes:
    """Stop the kernel: the simulator cannot run foreign code."""
    machine.fault(f"`{name}` is CUDA C++, which the simulator cannot run", machine.active)
    raise AssertionError("a fault stops the kernel")


def _form(returned: tuple[str, ...], result: str) -> Form:
    return Form(
        Cuda("{name}({args})", {"return_type": dict.fromkeys(returned, "")}, helper="source_code"),
        since("sm_75"),
        'CUDA C++ Programming Guide, "Function Execution Space Specifiers"',
        Meaning(unknown, on="machine"),
        result=result or VOID,
    )


instruction(
    "cuda.func_call",
    keywords={"source_code": REQUIRED, "return_type": "void"},
    operands=(reads("name", "symbol"), reads("*args", "value"), reads("source_code", "symbol")),
    doc="Calls a function of CUDA C++ whose text is ``source_code``; float16 and its like come as their bits.",
    forms=(_form(("void",), ""), _form(RETURNED, "return_type")),
)
