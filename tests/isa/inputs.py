"""Operands for any form of the table: random, with the corners that its kind has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.isa import matrix_oracles
from tests.isa.machines import BYTES, WINDOW
from tests.isa.numbers import FORMATS
from tilewright.dtypes import dtype
from tilewright.isa.forms import ELEMENTS, Operand
from tilewright.isa.table import BY_MASK, WHOLE_WARP, Bound

WARPS = 3
Array = NDArray[Any]

PAIRS = {"f16x2": "float16", "bf16x2": "bfloat16"}  # two numbers in 32 bits
ROUNDERS = ("round", "rint", "nearbyint", "floor", "ceil", "trunc")


def active_lanes(bound: Bound, rng: np.random.Generator) -> NDArray[np.bool_]:
    """All lanes for a collective of the warp, else some, never none."""
    active = rng.random((WARPS, 32)) < 0.7
    active[:, 5] = True
    return active | (bound.instruction.lanes == WHOLE_WARP)


def operand(bound: Bound, which: Operand, active: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    name = bound.instruction.name
    is_wide = name.endswith("b128")
    if name.startswith("ptx.mma"):
        return metadata(bound, rng) if which.name == "e" else matrix(bound, which.name, rng)
    if which.kind == "shared":
        places = rng.permuted(np.tile(np.arange(BYTES // 16), (WARPS, 1)), axis=1)[:, :32]
        return places * 16
    if which.kind in ("generic", "global"):
        places = (16 if is_wide else 8) * rng.integers(0, 6, (WARPS, 32))
        return places + (WINDOW if "shared" in name or "smem" in name else 0)
    if made := BY_KIND.get(which.kind):
        return made(bound, rng)
    if which.name == "mask" and bound.instruction.lanes == BY_MASK:
        return np.packbits(active, axis=-1, bitorder="little").view(np.uint32).repeat(32, axis=-1)
    if name == "ptx.match.sync":
        return rng.integers(0, 2, (WARPS, 32)) * rng.integers(0, 2, (WARPS, 1))
    if which.name == "width":
        return np.uint32(1) << rng.integers(0, 6, (WARPS, 1)).astype(np.uint32).repeat(32, axis=-1)
    shape = (WARPS, bound.registers_of(which.name), 32) if which.many else (WARPS, 32)
    if which.many and which.kind == "b64":
        return rng.integers(0, 1 << 64, shape, dtype=np.uint64)
    return rng.integers(0, 1 << 32, shape, dtype=np.uint32)


def values(bound: Bound, rng: np.random.Generator) -> Array:
    """Values of the dtype that the operands share."""
    kind = dtype(str(bound.mods["dtype"]))
    if pair := PAIRS.get(bound.instruction.name.rpartition(".")[2]):
        return rng.standard_normal((WARPS, 64)).astype(dtype(pair).numpy).view(np.uint32)
    if kind.kind == "bool":
        return rng.random((WARPS, 32)) < 0.5
    if not kind.is_float:
        bits = rng.integers(0, 256, (WARPS, 32 * kind.bits // 8), dtype=np.uint8).view(kind.numpy)
        return np.where(rng.random((WARPS, 32)) < 0.3, np.array([0, 1, -1]).astype(kind.numpy)[bits % 3], bits)
    drawn = rng.standard_normal((WARPS, 32)) * 10.0 ** rng.integers(-3, 2, (WARPS, 32))
    if bound.instruction.name in ROUNDERS:
        drawn = np.round(drawn * 4) / 4  # many halves
    return drawn.astype(kind.numpy)


BY_KIND: dict[str, Callable[[Bound, np.random.Generator], Array]] = {
    "f32": lambda bound, rng: ordinary(rng, (WARPS, 32)),
    "pred": lambda bound, rng: rng.random((WARPS, 32)) < [[0.5], [1.0], [0.0]],  # all lanes of a warp, and none
    "typed": values,
}


def ordinary(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """float32 numbers that an instruction neither flushes nor takes for NaN."""
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(np.float32)


def matrix(bound: Bound, name: str, rng: np.random.Generator) -> Array:
    """Registers that hold ordinary numbers of the operand's element type."""
    types = dict(zip("dabc", str(bound.mods["types"]).split("."), strict=True))
    element, words = types[name], bound.registers_of(name)
    if element in matrix_oracles.NARROW:
        narrow = rng.integers(0, 2 << sum(FORMATS[element]), (WARPS, words, 128), dtype=np.uint8)
        return (narrow << matrix_oracles.NARROW[element]).view(np.uint32)
    kind = ELEMENTS.get(element, "uint8")
    if dtype(kind).is_integer:
        return rng.integers(0, 256, (WARPS, words, 128), dtype=np.uint8).view(np.uint32)
    drawn = rng.standard_normal((WARPS, words, max(32, 32 * 32 // dtype(kind).bits))).astype(dtype(kind).numpy)
    return drawn if kind == "float64" else drawn.view(np.uint32)


def metadata(bound: Bound, rng: np.random.Generator) -> Array:
    """Where the elements of a sparse matrix belong: two different places in each four bits."""
    pairs = (0b0100, 0b1110) if "tf32" in str(bound.mods["types"]) else matrix_oracles.PAIRS
    chosen = rng.choice(np.array(pairs, np.uint32), (WARPS, 32, 8))
    return np.asarray(np.bitwise_or.reduce(chosen << np.arange(0, 32, 4, dtype=np.uint32), axis=-1))
