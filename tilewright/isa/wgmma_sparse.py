"""wgmma.sp: a warpgroup multiplies a matrix of which every other element is zero, and stored nowhere, by a matrix.

A is held as wgmma holds a matrix of half its K; metadata say where its elements belong, in each warp of its own 16 rows
as in ``mma.sp``: `tilewright.isa.mma_sparse` has whose bits are which row's; an H200 reads them so here, too. B has the
whole K, 64 bytes of each column.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions: wgmma.mma_async.sp".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tilewright.dtypes import dtype
from tilewright.isa.machine import Lanes
from tilewright.isa.mma_sparse import PLACES, WHOLE, codes, spread, unlisted_codes
from tilewright.isa.table import AsyncMeaning, Form, Spellings, Unlisted, reads
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


def codes_of(metadata: Lanes, selector: int, kind: str) -> Lanes:
    """The codes of each thread's metadata, (n, 4 warps, 16 rows, chunks)."""
    wide = dtype(kind).bits > 8
    return codes(metadata.astype(np.uint32).reshape(len(metadata), 4, 32), 32 if wide else 64, wide, selector)


def expanded(stored: Lanes, metadata: Lanes, selector: int, kind: str) -> Lanes:
    """The bytes of the full A, (n, 64, 64), from those that are stored, (n, 64, 32), and each thread's metadata."""
    width = dtype(kind).bits // 8
    elements = np.ascontiguousarray(stored).view(f"u{width}").reshape(len(stored), 4, 16, -1)
    full = spread(elements, codes_of(metadata, selector, kind), 0.5 if width == 4 else 1)
    return np.ascontiguousarray(full).reshape(len(stored), ROWS, -1).view(np.uint8)


def unlisted(a: Lanes, b: Lanes, e: Lanes, *_: Lanes, selector: int, in_dtype: str, **__: object) -> Unlisted | None:
    """Codes of metadata that name one place twice, or half of an element."""
    codes = codes_of(e, selector, in_dtype)
    return unlisted_codes(codes.reshape(len(codes), ROWS, -1), WHOLE if dtype(in_dtype).bits == 32 else PLACES)


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


def unlisted_of_registers(b: Lanes, *registers: Lanes, **mods: Any) -> Unlisted | None:
    """The same with A in four registers."""
    return unlisted(b, b, registers[4], **mods)


def _forms(operands: str, flags: tuple[str, ...]) -> Iterator[Form]:
    shared_a = not flags
    meaning = AsyncMeaning(
        product if shared_a else product_of_registers,
        addresses=partial(addresses if shared_a else addresses_of_b, row_bytes=2 * OPERAND_BYTES),
        unlisted=unlisted if shared_a else unlisted_of_registers,
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
