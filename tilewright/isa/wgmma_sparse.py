"""wgmma.sp: a warpgroup multiplies a matrix of which every other element is zero, and stored nowhere, by a matrix.

A is held as wgmma holds a matrix of half its K; metadata say where its elements belong, in each warp of its own 16 rows
as in ``mma.sp``: `tilewright.isa.mma_sparse` has whose bits are which row's; an H200 reads them so here, too. B has the
whole K, 64 bytes of each column.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async.sp".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.machine import Lanes
from tilewright.isa.mma_sparse import fields
from tilewright.isa.table import AsyncMeaning, Form, Spellings, reads
from tilewright.isa.wgmma import (
    OPERAND_BYTES,
    OTHERS,
    ROWS,
    WGMMA_TYPES,
    addresses,
    addresses_of_b,
    along_k,
    form_of,
    into_registers,
    modifiers,
    product_rows,
)
from tilewright.isa.wgmma_values import rows_of_registers

NAMES = ("ptx.wgmma.mma_async.sp.ss", "ptx.wgmma.mma_async.sp.rs")


def expanded(stored: Lanes, metadata: Lanes, selector: int, kind: str) -> Lanes:
    """The bytes of the full A, (n, 64, 64), from those that are stored, (n, 64, 32), and each thread's metadata."""
    width = dtype(kind).bits // 8
    lane, shift = fields(64 if width == 1 else 32, width > 1, selector)
    warps = metadata.astype(np.uint32).reshape(len(metadata), 4, 32)
    places = (warps.take(lane, axis=-1) >> shift & 3).astype(np.int64)  # (n, 4, 16, two of each four units)
    elements = np.ascontiguousarray(stored).view(f"u{width}").reshape(len(stored), 4, 16, -1)
    if width == 4:  # both halves of an element count as units, in a chunk of two elements
        groups, at = elements[..., None], places[..., ::2, None] >> 1
    else:
        groups, at = (each.reshape(*each.shape[:-1], -1, 2) for each in (elements, places))
    full = np.zeros((*groups.shape[:-1], 2 * groups.shape[-1]), elements.dtype)
    np.put_along_axis(full, at, groups, axis=-1)
    return full.reshape(len(stored), ROWS, -1).view(np.uint8)


def product(
    a: Lanes, b: Lanes, e: Lanes, scaled: Lanes, acc: Lanes, *, selector: int, transA: bool = False, **mods: object
) -> Lanes:
    """D's registers after the operation, from the bytes of A and B, the metadata, and the registers before."""
    rows = along_k(a, trans=transA)
    return into_registers(expanded(rows, e, selector, str(mods["in_dtype"])), b, scaled, acc, mods)


def product_of_registers(b: Lanes, *registers: Lanes, selector: int, **mods: object) -> Lanes:
    """The same with A in four registers, then the metadata, the condition, and D's."""
    *a, e, scaled, acc = registers
    rows = rows_of_registers(np.stack(a, axis=1))
    return into_registers(expanded(rows, e, selector, str(mods["in_dtype"])), b, scaled, acc, mods)


def _forms(operands: str, flags: tuple[str, ...]) -> Iterator[Form]:
    shared_a = not flags
    meaning = AsyncMeaning(
        product if shared_a else product_of_registers,
        addresses=partial(addresses if shared_a else addresses_of_b, row_bytes=2 * OPERAND_BYTES),
        takes=(*flags, "e", "scaleD"),
        passes=(*(("transA",) if shared_a else ()), *OTHERS, "selector"),
    )
    for element, row in WGMMA_TYPES.items():
        if element == "b1":
            continue
        selectors: Spellings = {0: "0", 1: "1"} if dtype(element).bits > 8 else {0: "0"}
        table = modifiers(element, row, shared_a=shared_a) | {"K": {2 * row.k: f"k{2 * row.k}"}, "selector": selectors}
        listed = f"{operands}, {{e}}, {{selector}}"
        yield form_of("wgmma.mma_async.sp", table, row, listed, meaning, NAMES, (*flags, "e"))


product_rows(
    NAMES,
    (
        "A warpgroup has D += A * B computed; A, in shared memory, has two elements of every four, ``e`` says which.",
        "A warpgroup has D += A * B computed; A, in registers, has two elements of every four, ``e`` says which.",
    ),
    _forms,
    reads("e", "b32"),
    selector=0,
)
