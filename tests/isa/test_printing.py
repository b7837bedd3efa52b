"""printf formats as the C library does; trap and assert stop the kernel."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.isa.forms import executed, form_of
from tests.isa.machines import PlainMachine
from tilewright import isa
from tilewright.dtypes import dtype
from tilewright.errors import InstructionError, SimulationError
from tilewright.ir import Var
from tilewright.isa.printing import formatted, printf

LIBC = ctypes.CDLL(None)
CTYPES = {
    "d": ctypes.c_int,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "x": ctypes.c_uint,
    "X": ctypes.c_uint,
    "o": ctypes.c_uint,
}
CTYPES |= {"c": ctypes.c_int}


def in_c(fmt: str, *values: Any) -> str:
    buffer = ctypes.create_string_buffer(512)
    LIBC.snprintf(buffer, 512, fmt.encode(), *values)
    return buffer.value.decode("latin-1")


FLAGS = st.sampled_from(["", "-", "0", "+", " ", "#", "-#", "+0"])
WIDTH = st.sampled_from(["", "1", "7", "12"])
PRECISION = st.sampled_from(["", ".", ".0", ".3", ".9"])


@given(FLAGS, WIDTH, PRECISION, st.sampled_from("dixXou"), st.integers(-(2**31), 2**31 - 1))
def test_integers_are_printed_as_in_c(flags: str, width: str, precision: str, kind: str, value: int) -> None:
    fmt = f"<%{flags}{width}{precision}{kind}>"

    assert formatted(fmt, (np.int32(value),)) == in_c(fmt, CTYPES[kind](value))


@given(FLAGS, WIDTH, PRECISION, st.sampled_from("fFeEgG"), st.floats(width=32))
def test_floats_are_printed_as_in_c(flags: str, width: str, precision: str, kind: str, value: float) -> None:
    fmt = f"<%{flags}{width}{precision}{kind}>"

    assert formatted(fmt, (np.float32(value),)) == in_c(fmt, ctypes.c_double(value))


@pytest.mark.parametrize("length", ["hh", "h", "l", "ll"])
@given(st.sampled_from("dux"), st.integers(-(2**63), 2**63 - 1))
def test_a_length_cuts_the_value(length: str, kind: str, value: int) -> None:
    fmt = f"%{length}{kind}"

    assert formatted(fmt, (np.int64(value),)) == in_c(fmt, ctypes.c_longlong(value))


def test_an_unsigned_conversion_of_a_negative_number_wraps() -> None:
    assert formatted("%u %x %d", (np.int32(-1), np.int32(-1), np.uint32(0xFFFFFFFF))) == "4294967295 ffffffff -1"


def test_percent_and_characters() -> None:
    assert formatted("%c%c%% %5c|", (72, 105, 33)) == "Hi%     !|"


def test_each_active_lane_prints_in_lane_order() -> None:
    active = np.zeros((1, 32), bool)
    active[0, [3, 17]] = True
    machine = PlainMachine(np.zeros((1, 16), np.uint8), active)

    values = (np.arange(32)[None], np.array([[0.5]]))
    printf(machine, "%d: %.1f\n", values)  # type: ignore[arg-type]  # all of a machine that it asks

    assert machine.lines == ["3: 0.5\n", "17: 0.5\n"]


@pytest.mark.parametrize(
    ("fmt", "kinds", "message"),
    [
        ("%d %d", ["int32"], "1 values for 2 conversions"),
        ("%d", ["float32"], "%d does not print float32"),
        ("%f", ["int32"], "%f does not print int32"),
        ("%s", ["int32"], "cannot read its format"),
        ("100%", [], "cannot read its format"),
        ("%d" * 33, ["int32"] * 33, "33 values"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(fmt: str, kinds: list[str], message: str) -> None:
    with pytest.raises(InstructionError, match=message):
        isa.call("printf", fmt, *(Var(f"v{i}", dtype(kind)) for i, kind in enumerate(kinds)))


def test_a_narrow_float_is_promoted_as_c_does() -> None:
    call = form_of("printf", "%f", Var("h", dtype("float16")))

    assert [value.dtype for value in call.operands["args"]] == ["float32"]


def test_a_trap_and_a_failed_assertion_stop_the_kernel() -> None:
    machine = PlainMachine(np.zeros((1, 16), np.uint8), np.ones((1, 32), bool))
    trap, check = (isa.lookup(f"cuda.{name}").forms[0] for name in ("trap", "device_assert"))

    with pytest.raises(SimulationError, match="trap"):
        executed(trap, {}, machine)
    with pytest.raises(SimulationError, match="device_assert failed"):
        executed(check, {}, machine, np.arange(32)[None] != 9)
    assert executed(check, {}, machine, np.ones((1, 32), bool)) is None


def test_the_clock_and_a_rest_have_no_effect() -> None:
    machine = PlainMachine(np.zeros((1, 16), np.uint8), np.ones((1, 32), bool))
    clock, rest = (isa.lookup(f"cuda.{name}").forms[0] for name in ("clock", "nanosleep"))

    assert executed(clock, {}, machine).tolist() == [7]
    assert executed(rest, {}, np.full((1, 32), 100, np.uint32)) is None
