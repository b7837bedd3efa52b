"""Registers for scalar rows: random bits, and the corners that their types have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.forms import TYPES, Form, Operand
from tilewright.isa.table import Instruction

FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def is_scalar(row: Instruction) -> bool:
    """Is it of `tilewright.isa.scalar`? Such rows have many modifiers."""
    return row.written


def covering(form: Form) -> Iterator[dict[str, Any]]:
    """Combinations of modifiers such that each value of each is there, and those beside it change."""
    tables = [list(table) for table in form.wording.modifiers.values()]
    for k in range(max(map(len, tables), default=1)):
        yield {name: table[k % len(table)] for name, table in zip(form.wording.modifiers, tables, strict=True)}


def corners(word: str) -> list[int]:
    """Bits where meanings change."""
    bits = TYPES[word].bits // (TYPES[word].lanes or 1)
    top = 1 << bits - 1
    found = [
        0,
        1,
        2,
        3,
        31,
        32,
        33,
        63,
        64,
        255,
        top - 1,
        top,
        top + 1,
        2 * top - 2,
        2 * top - 1,
        0x7F,
        0x80,
        0xFF,
        0xFFFF,
    ]
    if word.removesuffix("x2") in FRACTION:
        fraction = FRACTION[word.removesuffix("x2")]
        infinite = (top - 1) >> fraction << fraction
        one = (infinite >> fraction + 1) << fraction
        sizes = [
            0,
            1,
            2,
            (1 << fraction) - 1,
            1 << fraction,
            (1 << fraction) + 1,
            one - 1,
            one,
            one + 1,
            one + (1 << fraction),
        ]
        sizes += [infinite - 1, infinite, infinite + 1, top - 1, one + (1 << fraction - 1)]
        sizes += [
            one + (k << fraction) + (m << fraction - 2)
            for k in (5, 7, 8, 14, 15, 16, 30, 31, 32)
            for m in range(4)
            if one + (k << fraction) < infinite
        ]
        found = [size | sign for size in sizes for sign in (0, top)]
    return [value & (2 * top - 1) for value in found]


def register(word: str, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Bits of registers of a type: a third corners, a third near to 1 in size, a third random."""
    kind = TYPES[word]
    if word == "pred":
        return rng.random(count) < 0.5
    narrow = np.dtype(f"u{max(8, kind.bits // kind.lanes) // 8}")
    size = count * kind.lanes
    drawn = rng.integers(0, 256, size * narrow.itemsize, dtype=np.uint8).view(narrow)
    edges = np.array([value % 2 ** (8 * narrow.itemsize) for value in corners(word)], narrow)
    small = rng.integers(0, 70, size).astype(narrow)
    name = word.removesuffix("x2")
    if name in FRACTION:
        width = kind.bits // kind.lanes
        exponent = (1 << width - FRACTION[name] - 2) - 1
        near = exponent + rng.integers(-8, 9, size)
        low = drawn & narrow.type((1 << FRACTION[name]) - 1)
        sign = rng.integers(0, 2, size).astype(narrow) << narrow.type(width - 1)
        small = (near.astype(narrow) << narrow.type(FRACTION[name])) | low | sign
    which = rng.integers(0, 3, size)
    bits = np.where(which == 0, rng.choice(edges, size), np.where(which == 1, small, drawn)).astype(narrow)
    return np.ascontiguousarray(bits).view(kind.unsigned if kind.bits >= 8 else narrow)


def operands(row: Instruction, mods: dict[str, Any]) -> list[Operand]:
    """The row's operands, less those that these modifiers leave out."""
    return [operand for operand in row.operands if mods.get(operand.name, operand) is not None]


def registers(
    row: Instruction, form: Form, mods: dict[str, Any], count: int, rng: np.random.Generator
) -> list[NDArray[Any]]:
    """One array for each operand of the form."""
    found: list[NDArray[Any]] = []
    for operand in operands(row, mods):
        if operand.kind == "imm":
            found.append(rng.integers(0, 256, count))
        else:
            found.append(register("pred" if operand.kind == "pred" else operand.type_of(mods), count, rng))
    if row.name == "ptx.fns":  # the smallest integer is not defined
        found[-1] = np.where(found[-1] == 1 << 31, np.uint32(1), found[-1])
    return found
