"""ldstmatrix_bits finds a fit whenever there is one.

The oracle is the definition, evaluated on `table()` without the variant's code. f(l, p) is the shared address, in
bits, of bit p of lane l's storage, l = 4g+t; register j is bits 32j to 32j+31, its byte b begins at 32j+8b. All A are
multiples of 128 bits.

N-servable: f = A(g) + 32t + p. For bytes also, on architectures that have it, T-servable: a store where
f = A(2t + b%2) + 8(g + 8(b//2)); a load where registers pair up, with one A for both: f = A(4t+b) + 8g in the one
register, 64 bits more in the other. A copy fits when its region covers whole registers of whole warps and all are
N-servable or all T-servable; a store also needs f to be injective.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.samples import sampled
from tests.tile.kernels import buffer, copy, kernel
from tests.tile.machine import Ints, Machine
from tests.tile.oracle import addresses, copied, covered_registers, fresh_memory, is_injective
from tests.tile.strategies import THREADS, boxes, fragments, regions, registers
from tilewright import tile
from tilewright.dtypes import dtype
from tilewright.errors import DispatchError
from tilewright.ir import Call, Evaluate, Region, statements
from tilewright.layout import S, laneid

ARCHS = ("sm_90a", "sm_100a")


def starts(f: Ints, j: int, bits: int, way: str) -> list[int] | None:
    """A of each row, for register j of a warp; None if one is missing, not aligned or not the same for all its bits."""
    rows: dict[int, int] = {}
    for lane in range(32):
        g, t = divmod(lane, 4)
        for p in range(0, 32, bits):
            b = p // 8
            row, ahead = {
                "N": (g, 32 * t + p),
                "T store": (2 * t + b % 2, 8 * (g + 8 * (b // 2))),
                "T load": (4 * t + b, 8 * g),
                "T load, second": (4 * t + b, 8 * g + 64),
            }[way]
            start = int(f[lane, (32 * j + p) // bits]) - ahead
            if start % 128 or rows.setdefault(row, start) != start:
                return None
    return [rows[row] for row in sorted(rows)]


def all_starts(tables: list[Ints], numbers: Ints, bits: int, way: str) -> list[tuple[int, ...] | None]:
    """Those of each register in all warps together."""
    each = ([starts(f, j, bits, way) for f in tables] for j in numbers)
    return [None if None in found else tuple(a for part in found for a in part) for found in each]  # type: ignore[union-attr]


def matrices(tables: list[Ints], bits: int, arch: str, *, store: bool) -> tuple[str, int] | None:
    """The way and the number of matrices if the copy fits; None if it does not."""
    numbers = covered_registers(tables, bits)
    if numbers is None or (store and not is_injective(tables)):
        return None
    if None not in all_starts(tables, numbers, bits, "N"):
        return "N", len(numbers)
    if bits != 8 or arch == "sm_90a":
        return None
    if store:
        return None if None in all_starts(tables, numbers, bits, "T store") else ("T", len(numbers))
    first, second = (all_starts(tables, numbers, bits, way) for way in ("T load", "T load, second"))
    whole = all(a is not None or b is not None for a, b in zip(first, second, strict=True))
    paired = Counter(a for a in first if a is not None) == Counter(b for b in second if b is not None)
    return ("T", len(numbers) // 2) if whole and paired else None


def check(local: Region, shared: Region, scope: str, arch: str, *, store: bool) -> bool:
    """The variant takes the copy exactly if the oracle says so, with the widest num, and moves the right elements."""
    threads, bits = THREADS[scope], local.dtype.bits
    fit = matrices(addresses(local, shared, threads, bits, store=store), bits, arch, store=store)
    dst, src = (shared, local) if store else (local, shared)
    made = kernel(copy(dst, src, scope=scope, dispatch="ldstmatrix_bits"), threads=threads)
    note = f"{local} of {local.buffer.layout}, {shared} of {shared.buffer.layout}"
    if fit is None:
        with pytest.raises(DispatchError, match="does not fit"):
            pytest.fail(f"{note}: took it: {tile.resolve(made, arch)[1]}")
        return False
    way, count = fit
    resolved, _ = tile.resolve(made, arch)
    (call,) = [s.value for s in statements(resolved.body) if isinstance(s, Evaluate)]
    nums = (2, 1) if way == "T" and not store else (4, 2, 1)
    assert isinstance(call, Call)
    assert call.args[:2] == (way == "T", next(n for n in nums if count % n == 0)), note
    memory = fresh_memory([local.buffer, shared.buffer], threads)
    expected = copied(dst, src, memory, threads)
    Machine(resolved, memory).run()
    for name, tags in expected.items():
        assert np.array_equal(memory[name], tags), note
    return True


# Digits of a tile, as the forms have them, and those of a row, the innermost first.
LANES = {"g": (8, 4, "laneid"), "t": (4, 1, "laneid")}
WAYS = {
    "N": ({**LANES, "e": (4, 1, "m")}, ["e", "t"]),
    "T load": ({**LANES, "b": (4, 1, "m"), "c": (2, 4, "m")}, ["g", "c"]),
    "T store": ({**LANES, "b": (2, 1, "m"), "c": (2, 2, "m")}, ["g", "c"]),
}


@st.composite
def fragments_of_bits(draw: st.DrawFn, bits: int) -> Any:
    """Fragments of elements of a width."""
    base, row = WAYS[draw(st.sampled_from([*WAYS]) if bits == 8 else st.just("N"))]
    digits = {**base, "e": (32 // bits, 1, "m")} if "e" in base else base
    gaps, keep = [128 // bits, 128 // bits, 256 // bits, 8], (128 // bits).bit_length() - 1
    return draw(fragments(digits, row, gaps, keep))


@sampled(16, of=80)
@pytest.mark.parametrize("kind", ["float32", "uint8", "float4_e2m1fn"])
@given(st.booleans(), st.sampled_from(ARCHS), st.data())
def test_fragments_fit_exactly_where_the_oracle_says_so(kind: str, store: bool, arch: str, data: st.DataObject) -> None:
    scope, local_layout, shared_layout, shape = data.draw(fragments_of_bits(dtype(kind).bits))
    local, shared = buffer("R", "local", shape, local_layout, kind), buffer("A", "shared", shape, shared_layout, kind)
    box = data.draw(boxes(shape))

    check(Region(local, box), Region(shared, box), scope, arch, store=store)


@sampled(16, of=40)
@pytest.mark.parametrize("kind", ["float32", "uint8"])
@given(st.sampled_from(["warp", "warpgroup", "cta"]), st.booleans(), st.data())
def test_any_registers_fit_exactly_where_the_oracle_says_so(
    kind: str, scope: str, store: bool, data: st.DataObject
) -> None:
    layout, shape = data.draw(registers(scope))
    local = buffer("R", "local", shape, layout, kind).region()

    check(local, data.draw(regions("A", "shared", shape, kind)), scope, "sm_100a", store=store)


@pytest.mark.parametrize("strides", [(16, 8), (8, 16)])
def test_halves_of_matrices_find_each_other_in_any_order(strides: tuple[int, int]) -> None:
    """Rows of 32 bytes: the registers hold columns 0, 8, 16 and 24 of them, or 0, 16, 8 and 24."""
    local = buffer("R", "local", (16, 4, 8), S[(4, 4, 4, 8) : (1 @ laneid, 1, 4, 4 @ laneid)], "uint8")
    memory = buffer("A", "shared", (16, 4, 8), S[(16, 2, 2, 8) : (32, *strides, 1)], "uint8")

    assert check(local.region(), memory.region(), "warp", "sm_100a", store=False)


def test_half_a_matrix_is_not_loaded() -> None:
    local = buffer("R", "local", (16, 8), S[(4, 4, 8) : (1 @ laneid, 1, 4 @ laneid)], "uint8")
    memory = buffer("A", "shared", (16, 8), S[(16, 8) : (16, 1)], "uint8")

    assert not check(local.region(), memory.region(), "warp", "sm_100a", store=False)
