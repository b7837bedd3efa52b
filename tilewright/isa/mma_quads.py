"""mma.m8n8k4 on float16: four products of 8 x 4 by 4 x 8 matrices, each held by four lanes and the four 16 further on.

Exact products, summed in float32 in an order that nobody specifies, rounded once more for a float16 result. Source: PTX
ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from tilewright.isa.arch import since
from tilewright.isa.machine import Lanes
from tilewright.isa.mma import SOURCE
from tilewright.isa.mma_families import added
from tilewright.isa.table import WHOLE_WARP, Meaning, Ptx, Spellings, reads, single, writes
from tilewright.isa.warp_matrices import ELEMENTS, Matrix, numbers

Place = Callable[[Matrix, Matrix, Matrix], tuple[Matrix, Matrix]]
PLACES: Mapping[tuple[str, str], tuple[int, Place]] = {
    ("a", "row"): (4, lambda t, upper, i: (t + 4 * upper, i)),
    ("a", "col"): (4, lambda t, upper, i: (i + 4 * upper, t)),
    ("b", "row"): (4, lambda t, upper, i: (t, i + 4 * upper)),
    ("b", "col"): (4, lambda t, upper, i: (i, t + 4 * upper)),
    ("c", "f16"): (8, lambda t, upper, i: (t + 4 * upper, i)),
    ("c", "f32"): (8, lambda t, upper, i: ((t & 1) + (i & 2) + 4 * upper, (i & 4) + (t & 2) + (i & 1))),
}
"""Elements of a lane; row and column of element i of lane t of four, of the upper four or not."""
SIZES = {"a": (8, 4), "b": (4, 8), "c": (8, 8)}


@cache
def _spots(operand: str, way: str, per_register: int) -> Matrix:
    """(products, rows, columns): where each element is, through registers, in each the lanes, in each the elements."""
    count, place = PLACES[operand, way]
    lane, i = np.meshgrid(np.arange(32), np.arange(count), indexing="ij")
    row, column = np.broadcast_arrays(*place(lane % 4, lane // 16, i))
    spots = np.empty((4, *SIZES[operand]), np.int64)
    spots[lane % 16 // 4, row, column] = (i // per_register * 32 + lane) * per_register + i % per_register
    return spots


def _matrices(operand: str, way: str, words: Lanes, kind: str) -> Matrix:
    values = numbers(words, kind)
    return values.reshape(*values.shape[:-3], -1).take(_spots(operand, way, ELEMENTS[kind].per_register), axis=-1)


def quad_products(a: Lanes, b: Lanes, c: Lanes, *, a_layout: str, b_layout: str, types: str) -> Lanes:
    """D = A * B + C, four times. Registers are (..., count, 32) uint32."""
    d, *_, before = types.split(".")
    product = _matrices("a", a_layout, a, "f16") @ _matrices("b", b_layout, b, "f16")
    total = added(product, _matrices("c", before, c, before), d)
    per_register = ELEMENTS[d].per_register
    order = np.argsort(_spots("c", d, per_register), axis=None)
    words = np.ascontiguousarray(total.reshape(*total.shape[:-3], -1).take(order, axis=-1)).view(np.uint32)
    return words.reshape(*words.shape[:-1], -1, 32)


WAYS: Spellings = {"row": ".row", "col": ".col"}
COUNTS = {"f16": 4, "f32": 8}
TYPES = ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.f16.f16.f16")

single(
    "ptx.mma.quads",
    Ptx(
        "mma.sync.aligned.m8n8k4{a_layout}{b_layout}{types}",
        {"a_layout": WAYS, "b_layout": WAYS, "types": {kind: f".{kind}" for kind in TYPES}},
    ),
    since("sm_75"),
    SOURCE,
    Meaning(quad_products, passes=("a_layout", "b_layout", "types")),
    params=("types", "d", "a", "b", "c"),
    keywords={"a_layout": "row", "b_layout": "col"},
    operands=(writes("*d", "b32"), *(reads(f"*{letter}", "b32") for letter in "abc")),
    lanes=WHOLE_WARP,
    doc="A warp computes four products D = A * B + C of 8 x 4 and 4 x 8 matrices of float16, each in eight lanes.",
    registers={
        "a": 2,
        "b": 2,
        "d": lambda mods: COUNTS[str(mods["types"])[:3]],
        "c": lambda mods: COUNTS[str(mods["types"])[-3:]],
    },
)
