"""printf from a kernel: each active lane's line, formatted as C does.

Source: CUDA C++ Programming Guide, "Formatted Output".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np

from tilewright.dtypes import VOID, DType, dtype
from tilewright.errors import InstructionError
from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes, Machine
from tilewright.isa.table import Bound, Cuda, Meaning, reads, single
from tilewright.terms import Term, told

SOURCE = 'CUDA C++ Programming Guide, "Formatted Output"'
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
        SOURCE,
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
    single(
        name,
        Cuda(text),
        since("sm_75"),
        source,
        Meaning(execute, on="machine"),
        doc=doc,
        result=result,
    )


def trap(machine: Machine) -> None:
    """Every active lane stops the kernel."""
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
