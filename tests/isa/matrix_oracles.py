"""The meaning of matrices in registers by the manual: their copies and their products, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa.numbers import bits_of, nearest, value_of
from tests.isa.registry import Warp, Words, oracle
from tilewright.isa.table import Bound

# Copies between shared memory and registers.


def dealt(shape: str, trans: bool, bits: int) -> Iterator[tuple[int, int, int, int, int]]:
    """For each element of a matrix, ``bits`` wide: lane, register, slot in it, row, and element of the row."""
    for lane, register, bit in product(range(32), range(2 if shape == "m16n16" else 1), range(0, 32, bits)):
        g, t = divmod(lane, 4)
        byte, half = bit // 8, bit // 16
        if shape == "m16n16":
            row, column = 4 * t + byte, 8 * (g + 8 * register)
        elif shape == "m16n8":
            row, column = 2 * t + byte % 2, 8 * (g + 8 * half)
        elif trans:
            assert bits <= 16, "a wider element would be split"
            row, column = 2 * t + half, 16 * g + bit % 16
        else:
            row, column = g, 32 * t + bit
        yield lane, register, bit // bits, row, column // bits


def element(row: bytes, column: int, kind: str) -> int:
    """The column-th element of a 16-byte row: some bits of the little-endian number that the row is."""
    bits = {".b16": 16, ".b8": 8, ".b8x16.b6x16_p32": 6, ".b8x16.b4x16_p64": 4}[kind]
    return int.from_bytes(row, "little") >> (bits * column) & ((1 << bits) - 1)


@oracle("ptx.ldmatrix")
def ldmatrix(warp: Warp, address: list[int]) -> list[Words]:
    shape, kind, num = warp.mods["shape"], warp.mods["type"], warp.mods["num"]
    height, registers = (16, 2) if shape == "m16n16" else (8, 1)
    bits = 16 if shape == "m8n8" else 8
    loaded = [[0] * 32 for _ in range(num * registers)]
    for matrix in range(num):
        rows = [bytes(warp.memory[a : a + 16]) for a in address[height * matrix : height * (matrix + 1)]]
        for lane, register, slot, row, column in dealt(shape, warp.mods["trans"], bits):
            loaded[registers * matrix + register][lane] |= element(rows[row], column, kind) << bits * slot
    return loaded


@oracle("ptx.stmatrix")
def stmatrix(warp: Warp, address: list[int], registers: list[Words]) -> None:
    shape = warp.mods["shape"]
    size = 1 if shape == "m16n8" else 2
    for matrix in range(warp.mods["num"]):
        for lane, _, slot, row, column in dealt(shape, warp.mods["trans"], 8 * size):
            start = address[8 * matrix + row] + size * column
            word = registers[matrix][lane].to_bytes(4, "little")
            warp.memory[start : start + size] = word[size * slot : size * (slot + 1)]


@oracle("ptx.movmatrix")
def movmatrix(warp: Warp, source: Words) -> Words:
    matrix = [[source[4 * row + column // 2] >> 16 * (column % 2) & 0xFFFF for column in range(8)] for row in range(8)]
    return [matrix[2 * t][g] | matrix[2 * t + 1][g] << 16 for g in range(8) for t in range(4)]


# Products.

NARROW = {"e2m1": 2, "e2m3": 0, "e3m2": 0}  # place in a byte
PAIRS = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)  # two of four, the lower one in the low bits


@cache
def width_of(kind: str) -> int:
    """Bits that an element takes in a register."""
    return {"e4m3": 8, "e5m2": 8, **dict.fromkeys(NARROW, 8)}.get(kind) or bits_of(kind)


def held(registers: list[list[Any]], lane: int, i: int, kind: str) -> float:
    """Element i of a lane, the low bits of register 0 first."""
    if kind == "f64":
        return float(registers[i][lane])
    width = width_of(kind)
    word = registers[i * width // 32][lane]
    return value_of(kind, word >> i * width % 32 + NARROW.get(kind, 0) & (1 << width - NARROW.get(kind, 0)) - 1)


def place_in_a(lane: int, i: int, rows: int, width: int) -> tuple[int, int]:
    """Row and k: a register is a run of 32 bits along K; rows 8 further come before the next run."""
    run = max(1, 32 // width)
    register, within = divmod(i, run)
    halves = rows // 8
    return lane // 4 + 8 * (register % halves), 4 * run * (register // halves) + lane % 4 * run + within


def matrices(warp: Warp, a: Any, b: Any) -> tuple[list[list[float]], list[list[float]]]:
    m, n, k = (int(each) for each in warp.mods["shape"][1:].replace("n", "k").split("k"))
    _, left_kind, right_kind, _ = warp.mods["types"].split(".")
    stored = k // 2 if warp.mods["name"] == "ptx.mma.sp" else k
    left = [[0.0] * stored for _ in range(m)]
    right = [[0.0] * n for _ in range(k)]
    for lane in range(32):
        for i in range(m * stored // 32):
            row, at = place_in_a(lane, i, m, width_of(left_kind))
            left[row][at] = held(a, lane, i, left_kind)
        for i in range(k * n // 32):
            column, at = place_in_a(lane, i, 8, width_of(right_kind))
            right[at][column] = held(b, lane, i, right_kind)
    return left, right


def results(warp: Warp, c: Any, compute: Any) -> list[list[Any]]:
    """For each lane its elements of D, from C's value and its row and column."""
    m = int(warp.mods["shape"][1:].split("n")[0])
    kind = warp.mods["types"].split(".")[3]
    found = []
    for lane in range(32):
        rows = [(lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for i in range(m // 4)]
        found.append([compute(held(c, lane, i, kind), *place) for i, place in enumerate(rows)])
    return found


@oracle("ptx.mma", "ptx.mma.integer", "ptx.mma.f8f6f4", "ptx.mma.xor", "ptx.mma.and_")
def multiplied(warp: Warp, a: Any, b: Any, c: Any) -> list[list[float]]:
    left, right = matrices(warp, a, b)
    op = warp.mods.get("op")

    def compute(before: float, row: int, column: int) -> float:
        pairs = [(x, right[k][column]) for k, x in enumerate(left[row])]
        if op:
            return before + sum(x != y if op == "xor" else x == y == 1 for x, y in pairs)
        return math.fsum([before, *(x * y for x, y in pairs)])

    return results(warp, c, compute)


@oracle("ptx.mma.f64")
def doubles(warp: Warp, a: Any, b: Any, c: Any) -> list[list[float]]:
    left, right = matrices(warp, a, b)

    def compute(total: float, row: int, column: int) -> float:
        for k, x in enumerate(left[row]):
            exact = Fraction(x) * Fraction(right[k][column]) + Fraction(total)
            total = nearest("f64", exact, warp.mods["rnd"] or "rn")
        return total

    return results(warp, c, compute)


def metadata(e: list[int], row: int, bits: int, selector: int, kind: str) -> int:
    """The bits of a row of A, from the lanes of its group of four that have them."""
    g, upper = row % 8, row // 8
    if bits == 16:
        return e[4 * g + selector] >> 16 * upper & 0xFFFF
    if bits == 32 and width_of(kind) >= 16:
        low, high = (e[4 * g + 2 * selector + half] >> 16 * upper & 0xFFFF for half in (0, 1))
        return low | high << 16
    if bits == 32:
        return e[4 * g + 2 * selector + upper]
    return e[4 * g + upper] | e[4 * g + 2 + upper] << 32


@oracle("ptx.mma.sp")
def sparse(warp: Warp, a: Any, b: Any, c: Any, e: list[int]) -> list[list[float]]:
    stored, right = matrices(warp, a, b)
    kind, k_extent = warp.mods["types"].split(".")[1], len(right)
    bits = {32: 2 * k_extent, 4: k_extent // 2}.get(width_of(kind), k_extent)
    full = []
    for row, values in enumerate(stored):
        said = metadata(e, row, bits, warp.mods["selector"], kind)
        line = [0.0] * k_extent
        for chunk in range(bits // 4):
            first, second = said >> 4 * chunk & 3, said >> 4 * chunk + 2 & 3
            if kind == "tf32":
                line[2 * chunk + (1 if first == 2 else 0)] = values[chunk]
            elif width_of(kind) == 4:
                for unit, place in enumerate((first, second)):
                    for i in (0, 1):
                        line[8 * chunk + 2 * place + i] = values[4 * chunk + 2 * unit + i]
            else:
                line[4 * chunk + first], line[4 * chunk + second] = values[2 * chunk : 2 * chunk + 2]
        full.append(line)

    def compute(before: float, row: int, column: int) -> float:
        return math.fsum([before, *(x * right[k][column] for k, x in enumerate(full[row]))])

    return results(warp, c, compute)


def compare(bound: Bound, result: NDArray[Any], expected: list[list[float]]) -> None:
    """Integers and float64 to the last bit; narrow sums within a tolerance."""
    kind = str(bound.mods["types"]).split(".")[0]
    exact = np.array(expected)
    if kind == "f16":
        got = np.moveaxis(result.view(np.float16).reshape(-1, 32, 2), 1, 0).reshape(32, -1)
        np.testing.assert_allclose(got, exact, rtol=2e-3, atol=2e-3)
    elif kind == "f32":
        np.testing.assert_allclose(result.view(np.float32).T, exact, rtol=1e-5, atol=1e-5)
    elif kind == "f64":
        np.testing.assert_array_equal(result.view(np.float64).T, exact)
    else:
        wanted = exact.clip(-(2**31), 2**31 - 1) if bound.mods.get("saturate") else exact
        np.testing.assert_array_equal(result.view(np.int32).T, wanted.astype(np.int64).astype(np.int32))


@oracle("ptx.mma.quads")
def quads(warp: Warp, a: Any, b: Any, c: Any) -> list[list[float]]:
    """Lanes 4q..4q+3 and 16 further on compute the product q; the formulas are the manual's."""
    d_kind, *_, c_kind = warp.mods["types"].split(".")

    def place(lane: int, i: int, kind: str) -> tuple[int, int]:
        t, upper = lane % 4, 4 * (lane >= 16)
        if kind == "f16":
            return t + upper, i
        return (lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)

    found: list[list[float]] = [[0.0] * 8 for _ in range(32)]
    for q in range(4):
        left, right, before = ([[0.0] * 8 for _ in range(8)] for _ in range(3))
        lanes = [*range(4 * q, 4 * q + 4), *range(4 * q + 16, 4 * q + 20)]
        for lane in lanes:
            t, upper = lane % 4, 4 * (lane >= 16)
            for i in range(4):
                row, k = (t + upper, i) if warp.mods["a_layout"] == "row" else (i + upper, t)
                left[row][k] = held(a, lane, i, "f16")
                k, column = (t, i + upper) if warp.mods["b_layout"] == "row" else (i, t + upper)
                right[k][column] = held(b, lane, i, "f16")
            for i in range(8):
                row, column = place(lane, i, c_kind)
                before[row][column] = held(c, lane, i, c_kind)
        for lane in lanes:
            for i in range(8):
                row, column = place(lane, i, d_kind)
                products = [left[row][k] * right[k][column] for k in range(4)]
                found[lane][i] = math.fsum([before[row][column], *products])
    return found
