"""Products of wgmma, dense and sparse: operands put where the manual has them, D compared with NumPy's product."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa.descriptor_oracles import byte_address
from tests.isa.forms import executed
from tests.isa.numbers import value_of
from tests.isa.tmem_machines import PlainUnit
from tests.isa.wgmma_oracles import SPELLED, held_rows, place_of_a, place_of_d
from tilewright.ir import Argument
from tilewright.isa import MatrixDescriptor
from tilewright.isa.table import Bound

Array = NDArray[Any]
Two = tuple[Array, Array]
SHARED = 1 << 17


def named(bound: Bound) -> str:
    return "-".join(map(str, bound.mods.values()))


@cache
def bits_of(kind: str, width: int) -> dict[float, int]:
    """The bit pattern of each number of a type of ``width`` bytes, made once for all products."""
    patterns = range(256) if width == 1 else range(0, 1 << 16, 1 if width < 4 else 16)
    return {value_of(kind, p << (16 if width == 4 else 0)): p for p in patterns}


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


def held_d(before: Array) -> Array:
    """The accumulator's registers, (1, registers, 128)."""
    n = before.shape[1]
    found = np.zeros((128, n // 2), before.dtype)
    for thread, i in product(range(128), range(n // 2)):
        found[thread, i] = before[place_of_d(thread, i)]
    return found.view(np.uint32).T[None]


def majors_of(bound: Bound) -> list[str]:
    """The dimension along which the elements of A and of B are neighbours."""
    return ["MN" if bound.mods.get(name) else "K" for name in ("transA", "transB")]


def assert_product(
    bound: Bound,
    values: Two,
    octets: Two,
    made: tuple[MatrixDescriptor, MatrixDescriptor],
    rng: np.random.Generator,
    *,
    scaled: bool = True,
    metadata: Array | None = None,
) -> None:
    """D is A times B of ``values``, plus what it was if it is ``scaled``, where ``octets`` are their bytes along K."""
    mods, n = bound.mods, len(values[1])
    shared = rng.integers(0, 255, (1, SHARED), dtype=np.uint8)
    before = rng.integers(-8, 9, (64, n)).astype(str(mods["out_dtype"]))
    majors = majors_of(bound)
    put(shared[0], octets[1], made[1], major=majors[1])
    operands: dict[str, Array] = {}  # in the instruction's order
    if "transA" in mods:
        put(shared[0], octets[0], made[0], major=majors[0])
        operands["dA"] = np.full((1, 128), made[0].encode(), np.uint64)
    operands["dB"] = np.full((1, 128), made[1].encode(), np.uint64)
    if "transA" not in mods:
        operands |= {f"a{i}": words for i, words in enumerate(held_rows(octets[0], place_of_a))}
    if metadata is not None:
        operands["e"] = metadata
    operands["scaleD"] = np.full((1, 128), scaled)
    unit = PlainUnit(shared, np.zeros((1, 1, 1)), [0])

    def multiplied(*values: Array, **mods: Argument) -> Any:
        return executed(bound.form, mods, *values, held_d(before))

    registers = unit.completed(bound, operands, multiplied)

    sign = int(str(mods["scaleA"])) * int(str(mods["scaleB"]))
    a, b = (matrix.astype(np.int64) for matrix in values)
    wanted = sign * (a @ b.T) + (before.astype(np.int64) if scaled else 0)
    for thread, i in product(range(0, 128, 5), range(n // 2)):
        words = np.ascontiguousarray(registers[0, :, thread]).view(str(mods["out_dtype"]))
        assert words[i] == wanted[place_of_d(thread, i)]
