"""What wgmma computes: a 64 x K by a K x N matrix, added to a 64 x N one that is spread over a warpgroup's registers.

Thread 32w + 4g + t of the warpgroup holds, of D and of A in registers, rows 16w + g and 16w + g + 8. Registers of D:
for each 8 columns two rows, of each the columns 2t and 2t + 1. Registers of A: the bytes 4t to 4t + 3 of a row's first
16 bytes in both rows, then those of the next 16.

Integers are exact. Floats: f16, bf16 and tf32 products are exact, and summed in float32 in any order, for a float16
result in float64, and rounded once; the hardware's order is its own, so that results differ by up to
K * 2**-23 * sum(abs(a * b)). float8: see `float8_sum`.

Sources: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma; CuTe's traits, NVIDIA/cutlass,
include/cute/atom/mma_traits_sm90_gmma.hpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.isa.products import Floats, Spots, widened

Array = NDArray[Any]
Wide = NDArray[np.float64]
FLOAT8_BITS = 13  # fraction bits that a sum of float8 products keeps, below the largest exponent in it
RESULTS: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
}
BOUNDS = np.iinfo(np.int32)
ISSUERS_AT_ONCE = 16  # the widened matrices of so many fit into the cache
AT_ONCE = 1 << 22  # products of a sum of float8 that are looked at together


# Fragments


def gathered(registers: Array, result: str) -> Array:
    """D as (n, 64, N), from its registers, (n, registers, 128) of 32 bits."""
    kind, n = RESULTS[result], len(registers)
    if kind.itemsize == 2:  # two columns of a row share a register
        parts = np.ascontiguousarray(registers).view(kind).reshape(n, -1, 2, 4, 8, 4, 2)  # 8 columns, h, w, g, t, c
        return np.asarray(parts.transpose(0, 3, 2, 4, 1, 5, 6).reshape(n, 64, -1))
    parts = np.ascontiguousarray(registers).view(kind).reshape(n, -1, 2, 2, 4, 8, 4)  # 8 columns, h, c, w, g, t
    return np.asarray(parts.transpose(0, 4, 2, 5, 1, 6, 3).reshape(n, 64, -1))


def spread_out(matrix: Array) -> Array:
    """The inverse of `gathered`: (n, 64, N) as (n, registers, 128) of 32 bits."""
    n, parts = len(matrix), matrix.reshape(len(matrix), 4, 2, 8, -1, 4, 2)  # w, h, g, 8 columns, t, c
    order = (0, 4, 2, 6, 1, 3, 5) if matrix.dtype.itemsize == 4 else (0, 4, 2, 1, 3, 5, 6)
    words: Array = np.ascontiguousarray(parts.transpose(order)).view(np.uint32)
    return words.reshape(n, -1, 128)


def rows_of_registers(registers: Array) -> Array:
    """A from its four registers, (n, 4, 128) of 32 bits: (n, 64, 32) bytes along K."""
    parts = registers.astype(np.uint32).reshape(len(registers), 2, 2, 4, 8, 4)  # 16 bytes, h, w, g, t
    words = np.ascontiguousarray(parts.transpose(0, 3, 2, 4, 1, 5))
    return words.view(np.uint8).reshape(len(registers), 64, 32)


@cache
def fragment_of_d(n: int) -> Spots:
    """Of D in 32-bit elements what a warp has, (16, n): for each element its register, times 32, and its lane."""
    row, column = np.arange(16)[:, None], np.arange(n)
    register = column // 8 * 4 + row // 8 * 2 + column % 2
    return np.asarray(register * 32 + row % 8 * 4 + column % 8 // 2)


# Products


def is_summed_in_float32(mods: Mapping[str, object]) -> bool:
    """Are products with these modifiers exact in float32, and the sums float32?"""
    return mods["out_dtype"] == "float32" and str(mods["in_dtype"]) in ("float16", "bfloat16", "tf32")


def add_product(total: Floats, a: Array, b: Array, kind: str, *, sign: int = 1) -> None:
    """Adds to D, (n, 64, N), the products of A, (n, 64, bytes), and B, (n, N, bytes); or of fewer A or B, of which
    each is for as many D that follow each other.
    """
    if len(a) < len(total):
        a = a.repeat(len(total) // len(a), axis=0)
    share = len(total) // len(b)
    step = max(1, ISSUERS_AT_ONCE // share)
    for first in range(0, len(b), step):
        right = _floats(b[first : first + step], kind)
        here = slice(first * share, (first + len(right)) * share)
        left = _floats(a[here], kind).reshape(len(right), 64 * share, -1)
        product = (left @ right.swapaxes(-1, -2)).reshape(-1, 64, total.shape[-1])
        (np.subtract if sign < 0 else np.add)(total[here], product, out=total[here])


def multiplied(
    a: Array, b: Array, before: Array, kinds: tuple[str, str], *, sign: int = 1, saturate: bool = False
) -> Array:
    """D from the bytes of A, (n, 64, bytes), and B, (n, N, bytes), and what D was, (n, 64, N).

    kinds: dtypes of the elements, "b1" for bits. sign: of the product.
    """
    if before.dtype == np.float32 and kinds[0].startswith("float8"):
        narrow = [_floats(part, kind) for part, kind in zip((a, b), kinds, strict=True)]
        return float8_sum(narrow[0] * np.float32(sign), narrow[1], before)
    left, right = (_numbers(part, kind) for part, kind in zip((a, b), kinds, strict=True))
    return rounded_sum(left * sign if sign < 0 else left, right, before, saturate=saturate)


def rounded_sum(left: Wide, right: Wide, before: Array, *, saturate: bool = False) -> Array:
    """The product of (..., rows, K) and (..., columns, K), and D as it was: exact, then rounded, wrapped or clamped."""
    total = left @ right.swapaxes(-1, -2)
    total += before
    if before.dtype != np.int32:
        return np.asarray(total.astype(before.dtype))
    return np.asarray((total.clip(BOUNDS.min, BOUNDS.max) if saturate else total).astype(np.int64).astype(np.int32))


def _numbers(octets: Array, kind: str) -> Wide:
    return _AS[kind](octets) if kind in _AS else _floats(octets, kind).astype(np.float64)


def _floats(octets: Array, kind: str) -> Floats:
    return widened(np.ascontiguousarray(octets).view(f"u{dtype(kind).bits // 8}"), kind)


_AS: Mapping[str, Callable[[Array], Wide]] = {
    "int8": lambda octets: octets.view(np.int8).astype(np.float64),
    "uint8": lambda octets: octets.astype(np.float64),
    "b1": lambda octets: np.unpackbits(octets, axis=-1).astype(np.float64),
}


def float8_sum(a: Floats, b: Floats, before: Floats, bits: int = FLOAT8_BITS) -> Floats:
    """The sum of float8 products and an accumulator, (n, 64, N), in float32, as Hopper computes it.

    All are cut, towards zero, to ``bits`` below the largest exponent among them, where that of a product is the sum of
    its factors' exponents; then added exactly, and the sum is cut to ``bits`` of fraction. Unconfirmed on hardware.

    a: (n, 64, K); b: (n, N, K). Source: "DeepSeek-V3 Technical Report", 3.3.2; DeepGEMM's issues 50 and 176.
    """
    sums = np.empty(before.shape, np.float32)
    step = max(1, AT_ONCE // max(1, b[0].size))
    for issuer in range(len(a)):
        for row in range(0, a.shape[1], step):
            part = np.s_[issuer, row : row + step]
            sums[part] = _cut_sum(a[part], b[issuer], before[part], bits)
    return sums


def _cut_sum(a: Floats, b: Floats, before: Floats, bits: int) -> Floats:
    products = a[:, None, :].astype(np.float64) * b.astype(np.float64)
    exponents = (np.frexp(a)[1][:, None, :] + np.frexp(b)[1]) - 2
    terms = np.concatenate((products, before[..., None].astype(np.float64)), axis=-1)
    scale = np.concatenate((exponents, np.frexp(before)[1][..., None] - 1), axis=-1)
    if not np.isfinite(terms).all():
        return np.asarray(terms.sum(-1), np.float32)
    top = np.where(terms != 0, scale, -(1 << 20)).max(-1)
    shift = bits - np.where(top < -(1 << 19), 0, top)
    total = np.ldexp(np.trunc(np.ldexp(terms, shift[..., None])).sum(-1), -shift)
    whole = np.frexp(total)[1] - 1
    cut: Floats = np.ldexp(np.trunc(np.ldexp(total, bits - whole)), whole - bits).astype(np.float32)
    return cut
