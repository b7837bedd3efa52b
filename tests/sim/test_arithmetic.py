"""Integers divided by zero and shifted out of range: reported, and without the check computed as on hardware."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.sim.build import Lowered, at, get, tid
from tilewright import T
from tilewright.dtypes import dtype
from tilewright.errors import SimulationError
from tilewright.ir import as_expr, binary, cast

KINDS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
OPS = ("//", "%", "truncdiv", "truncmod", "<<", ">>")


def meaning(op: str, a: int, b: int, kind: str) -> int:
    """On an H200: div and rem by 0 set all bits, the smallest by -1 is itself, shifts clamp their count."""
    bits, signed = dtype(kind).bits, dtype(kind).is_signed
    if op in ("<<", ">>"):
        count = b if 0 <= b < bits else bits
        found = a << count if op == "<<" else a >> count
    elif b == 0:
        found = -1
    else:
        truncated = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        found = {"//": a // b, "%": a % b, "truncdiv": truncated, "truncmod": a - b * truncated}[op]
    found &= (1 << bits) - 1
    return found - (1 << bits) if signed and found >> (bits - 1) else found


def corners(kind: str) -> list[tuple[int, int]]:
    low = -(1 << dtype(kind).bits - 1) if dtype(kind).is_signed else 0
    high = low + (1 << dtype(kind).bits) - 1
    seconds = [
        0,
        1,
        3,
        7,
        dtype(kind).bits - 1,
        dtype(kind).bits,
        dtype(kind).bits + 1,
        high,
        *([-1, -3] if low else []),
    ]
    return [(a, b) for a in (low, low + 1, 7, high, *([-7] if low else [])) for b in seconds]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", KINDS)
def test_lanes_get_what_the_hardware_gives(kind: str, op: str) -> None:
    pairs = corners(kind)
    k = Lowered(threads=len(pairs))
    arrays = [k.array(name, kind, len(pairs)) for name in "abc"]
    k.store(arrays[2], tid, binary(op, get(arrays[0], tid), get(arrays[1], tid)))
    given = np.array(pairs, dtype(kind).numpy)
    result = np.zeros(len(pairs), dtype(kind).numpy)

    k.run("none", a=given[:, 0].copy(), b=given[:, 1].copy(), c=result)

    assert result.tolist() == [meaning(op, a, b, kind) for a, b in pairs]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_all_lanes_share_do_too(kind: str, op: str) -> None:
    pairs = corners(kind)
    k = Lowered(threads=1)
    out = k.array("out", kind, len(pairs))
    given: dict[str, Any] = {"out": np.zeros(len(pairs), dtype(kind).numpy)}
    for number, (a, b) in enumerate(pairs):
        given |= {f"a{number}": a, f"b{number}": b}
        k.store(out, number, binary(op, k.scalar(f"a{number}", kind), k.scalar(f"b{number}", kind)))

    k.run("none", **given)

    assert given["out"].tolist() == [meaning(op, a, b, kind) for a, b in pairs]


@pytest.mark.parametrize(
    ("op", "b", "text"),
    [
        ("//", 0, "divides by zero\n  given:   5 // 0 in CTA (0, 0, 0), warp 0, lane 5"),
        ("%", 0, "divides by zero\n  given:   5 % 0 in"),
        ("truncdiv", 0, "divides by zero\n  given:   5 truncdiv 0 in"),
        ("truncmod", 0, "divides by zero"),
        (
            "<<",
            32,
            "range\n  given:   5 << 32 in CTA (0, 0, 0), warp 0, lane 5\n  allowed: a count of 0 to 31",
        ),
        (">>", -1, "shifts out of range\n  given:   5 >> -1 in"),
    ],
)
@pytest.mark.parametrize("uniform", [True, False])
def test_the_check_names_the_lane_and_its_operands(op: str, b: int, text: str, uniform: bool) -> None:
    k = Lowered()
    out, number = k.array("out", "int32", 32), k.scalar("number")
    with k.when(tid == 5):
        k.store(out, tid, binary(op, tid, number if uniform else number + 0 * tid))

    with pytest.raises(SimulationError) as error:
        k.run("arithmetic", out=np.zeros(32, np.int32), number=b)

    assert text in str(error.value)
    assert "try:     T.select(" in str(error.value)
    k.run("default", out=np.zeros(32, np.int32), number=b)


def test_lanes_that_do_not_divide_are_not_looked_at() -> None:
    k = Lowered()
    out, number = k.array("out", "int32", 32), k.scalar("number")
    with k.when((number + tid) != 0):
        k.store(out, tid, as_expr(100) // (number + tid))
    array = np.zeros(32, np.int32)

    k.run("all", out=array, number=-3)

    assert array[[0, 3, 5]].tolist() == [-34, 0, 50]


@T.prim_func
def mean(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), n: T.int32):
    T.device_entry()
    T.cta_id([1])
    lane = T.lane_id([32])
    B[lane] = A[lane] // (n - lane)


@T.prim_func
def careful(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), n: T.int32):
    T.device_entry()
    T.cta_id([1])
    lane = T.lane_id([32])
    B[lane] = T.select(n - lane != 0, A[lane] // (n - lane), 0)
    if n - lane != 0 and A[lane] % (n - lane) == 0:
        B[lane] = B[lane] + 1000


def test_what_the_report_says_to_try_works() -> None:
    a, b = np.full(32, 12, np.int32), np.zeros(32, np.int32)

    with pytest.raises(SimulationError, match=r"try:     T.select\(.* != 0, A.* // .*, 0\)"):
        tw.simulate(mean, a, b, 4)
    tw.simulate(careful, a, b, 4)

    assert b[:7].tolist() == [1003, 1004, 1006, 1012, 0, 988, 994]


def test_vectors_are_looked_at_element_by_element() -> None:
    k = Lowered()
    out, a = k.array("out", "int32x2", 32), k.array("a", "int32x2", 32)
    k.store(out, tid, binary("//", get(a, tid), get(out, tid)))
    ones = np.ones((32, 2), np.int32)

    k.run("arithmetic", a=ones, out=ones.copy())
    ones[3, 1] = 0
    with pytest.raises(SimulationError, match="lane 3"):
        k.run("arithmetic", a=np.ones((32, 2), np.int32), out=ones)


def test_launch_extents_take_any_expression() -> None:
    k = Lowered()
    n = k.scalar("n")
    k.grid = (cast(binary("//", n + 3, n), dtype("int32")), 1, 1)
    out = k.array("out", "int32", 1)
    k.do("cuda.atomic_add", at(out, 0), 1)
    array = np.zeros(1, np.int32)

    k.run(out=array, n=1)

    assert array[0] == 4 * 32


@pytest.mark.parametrize(("kind", "count"), [("int32", 32), ("int32", 33), ("uint8", 8), ("uint32", 40)])
@pytest.mark.parametrize("op", ["<<", ">>"])
def test_a_shift_whose_value_is_known_is_reported_too(op: str, kind: str, count: int) -> None:
    """`lane >> 33` was 0 by its range, and the shift was gone before the check saw it."""
    k = Lowered()
    out = k.array("out", kind, 32)
    k.store(out, tid, binary(op, cast(tid, dtype(kind)), as_expr(count, dtype(kind))))

    with pytest.raises(SimulationError, match="shifts out of range") as raised:
        k.run(out=np.zeros(32, kind))

    assert raised.value.hint is None  # a count that is constant needs no condition


@T.prim_func
def quotients(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    T.device_entry()
    T.cta_id([1])
    lane = T.lane_id([32])
    B[lane] = T.reinterpret("int32", T.ptx.div(T.reinterpret("uint32", A[lane]), T.uint32(lane - 4), type="s32"))


def test_an_instruction_that_divides_by_zero_is_told_like_the_operator() -> None:
    a, b = np.full(32, 12, np.int32), np.zeros(32, np.int32)

    with pytest.raises(SimulationError, match=r"div\.s32 divides by zero\n(.*\n)*  given:   12 and 0 in .* lane 4"):
        tw.simulate(quotients, a, b)
    tw.simulate(quotients, a, b, check="default")

    assert b[[3, 4, 6]].tolist() == [-12, -1, 6]
