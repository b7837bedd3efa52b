"""wgmma: from descriptors and registers to D, against the manual's formulas, element by element."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.isa.assembling import every_form
from tests.isa.descriptor_oracles import byte_address
from tests.isa.oracles import number
from tests.isa.tmem_machines import PlainUnit
from tests.isa.wgmma_oracles import COVERED, SPELLED, held_rows, place_of_a, place_of_d
from tilewright.errors import SimulationError
from tilewright.isa import MatrixDescriptor, wgmma_widths
from tilewright.isa.table import Bound
from tilewright.isa.wgmma_values import float8_sum

Array = NDArray[Any]
EVERY = [bound for bound in every_form() if bound.instruction.name in COVERED and bound.form.issue]
WIDE = {
    (bound.instruction.name, bound.mods["in_dtype"]): bound for bound in EVERY
}  # the last, and widest, of each type
FORMS = [*(bound for bound in EVERY if int(str(bound.mods["N"])) <= 32), *WIDE.values()]
SHARED = 1 << 17


def named(bound: Bound) -> str:
    return "-".join(map(str, bound.mods.values()))


@cache
def bits_of(kind: str, width: int) -> dict[float, int]:
    """The bit pattern of each number of a type of ``width`` bytes, made once for all products."""
    patterns = range(256) if width == 1 else range(0, 1 << 16, 1 if width < 4 else 16)
    return {number(p << (16 if width == 4 else 0), kind): p for p in patterns}


def small(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Array, Array]:
    """Small integers: their values, and their bit patterns as bytes, (..., bytes)."""
    if kind == "b1":
        bits = rng.integers(0, 2, shape)
        return bits, np.packbits(bits.astype(np.uint8), axis=-1, bitorder="little")
    width = {"f16": 2, "bf16": 2, "tf32": 4}.get(SPELLED[kind], 1)
    values = bits_of(SPELLED[kind], width)
    known = np.array([0, 1, 2] if kind == "uint8" else [-2, -1, 0, 1, 2])
    which = known[rng.integers(0, len(known), shape)]
    words = np.vectorize(lambda v: values[float(v)] << (16 if width == 4 else 0))(which).astype(f"<u{width}")
    return which, words.view(np.uint8).reshape(*shape[:-1], -1)


def put(shared: Array, octets: Array, made: MatrixDescriptor, *, major: str) -> None:
    """A matrix of rows along K, (rows, bytes), where the manual has its elements; 16-bit ones where it is MN-major."""
    mode = int(made.swizzle)
    for row, byte in product(range(len(octets)), range(octets.shape[1])):
        line, column = (row, byte) if major == "K" else (byte // 2, 2 * row + byte % 2)
        shared[byte_address(made.start, made.leading, made.stride, mode, line, column, major)] = octets[row, byte]


def descriptor(start: int, mode: int, rows: int, major: str) -> MatrixDescriptor:
    width = 16 << mode
    leading, stride = (2048, 8 * width) if major == "MN" else (128 * -(-rows // 8), 8 * width)
    if major == "K" and mode == 0:
        stride = 128
    if major == "MN" and mode == 0:
        leading, stride = 128, 256  # the next 8 rows of K; the next 8 columns
    return MatrixDescriptor(start, leading, stride, swizzle=mode, generation="sm_90")


@pytest.mark.parametrize("bound", FORMS, ids=named)
def test_a_product_is_what_its_oracle_says(bound: Bound) -> None:
    mods, rng = bound.mods, np.random.default_rng(len(named(bound)))
    n, mode = int(mods["N"]), int(mods["N"]) // 8 % 4  # type: ignore[call-overload]  # a number
    k = int(mods["K"])  # type: ignore[call-overload]  # a number
    kinds = str(mods["in_dtype"]), str(mods["b_dtype"] or mods["in_dtype"])
    (a, a_bytes), (b, b_bytes) = small(kinds[0], (64, k), rng), small(kinds[1], (n, k), rng)
    shared = rng.integers(0, 255, (1, SHARED), dtype=np.uint8)
    before = rng.integers(-8, 9, (64, n)).astype(str(mods["out_dtype"]))
    majors = ["MN" if mods.get(name) else "K" for name in ("transA", "transB")]
    made = [descriptor(1024, mode, 64, majors[0]), descriptor(1 << 16, mode, n, majors[1])]
    put(shared[0], b_bytes, made[1], major=majors[1])
    operands: dict[str, Array] = {}
    if "transA" in mods:
        put(shared[0], a_bytes, made[0], major=majors[0])
        operands["dA"] = np.full((1, 128), made[0].encode(), np.uint64)
    operands["dB"] = np.full((1, 128), made[1].encode(), np.uint64)
    if "transA" not in mods:
        operands |= {f"a{i}": words for i, words in enumerate(held_rows(a_bytes, place_of_a))}
    scaled = bool(n // 8 % 3)
    operands["scaleD"] = np.full((1, 128), scaled)
    unit = PlainUnit(shared, np.zeros((1, 1, 1)), [0])

    registers = unit.completed(
        bound, operands, lambda *given, **kw: bound.form.meaning.execute(*given, held_d(before), **kw)
    )  # type: ignore[misc]

    sign = int(str(mods["scaleA"])) * int(str(mods["scaleB"]))
    wanted = sign * (a.astype(np.int64) @ b.astype(np.int64).T) + (before.astype(np.int64) if scaled else 0)
    for thread, i in product(range(0, 128, 5), range(n // 2)):
        row, column = place_of_d(thread, i)
        words = np.ascontiguousarray(registers[0, :, thread]).view(str(mods["out_dtype"]))
        assert words[i] == wanted[row, column]


def held_d(before: Array) -> Array:
    """The accumulator's registers, (1, registers, 128)."""
    n = before.shape[1]
    found = np.zeros((128, n // 2), before.dtype)
    for thread, i in product(range(128), range(n // 2)):
        found[thread, i] = before[place_of_d(thread, i)]
    return found.view(np.uint32).T[None]


def test_every_width_of_the_manual_and_the_assembler_is_there() -> None:
    assert wgmma_widths("bfloat16") == tuple(range(8, 257, 8))
    assert wgmma_widths("int8") == (8, 16, 24, *range(32, 257, 16))


@pytest.mark.parametrize(
    ("desc", "what"),
    [(1 << 14, "matrix descriptor: constant"), (np.arange(128), "the same in all threads")],
)
def test_a_descriptor_that_is_none_is_refused(desc: Any, what: str) -> None:
    bound = next(bound for bound in FORMS if bound.mods["in_dtype"] == "bfloat16" and "transA" in bound.mods)
    operands = {name: np.zeros((1, 128), np.uint64) for name in ("dA", "dB", "scaleD")}
    operands["dB"] = operands["dB"] + np.asarray(desc, np.uint64)

    with pytest.raises(SimulationError, match=what):
        PlainUnit(np.zeros((1, 1 << 14), np.uint8), np.zeros((1, 1, 1)), [0]).completed(bound, operands)


def float8(a: list[float], b: list[float], before: float) -> float:
    vectors = (np.array([[part]], np.float32) for part in (a, b))
    return float(float8_sum(*vectors, np.array([[[before]]], np.float32))[0, 0, 0])


@pytest.mark.parametrize(
    ("a", "b", "before", "wanted"),
    [
        ([1.0], [1.0], 2.0**-13, 1 + 2.0**-13),  # the last bit that is kept
        ([1.0], [1.0], 2.0**-14, 1.0),  # cut
        ([1.0], [1.0], -(2.0**-14), 1.0),  # cut towards zero, not down
        ([1.0] * 3, [2.0**-14] * 3, 1.0, 1.0),  # each by itself
        ([0.0], [1.0], 1 + 2.0**-23, 1.0),  # the accumulator's low 10 bits
        ([0.0], [0.0], 0.0, 0.0),
        ([448.0, -448.0], [448.0, 448.0], 3.0, 0.0),  # below the largest by more than 13 bits
        ([448.0, -448.0], [448.0, 448.0], 32.0, 32.0),
    ],
)
def test_a_sum_of_float8_keeps_13_bits_below_the_largest_exponent(
    a: list[float], b: list[float], before: float, wanted: float
) -> None:
    assert float8(a, b, before) == wanted
