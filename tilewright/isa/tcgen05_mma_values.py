"""What tcgen05.mma computes: D from the units of matrices in shared memory, or A's cells, and from D's cells before.

Integers are exact. Floats: products are exact, their sum and D are rounded once; the hardware's order is its own.

Sources: PTX ISA, "TensorCore 5th Generation: tcgen05.mma, Data Path Layout, Packing formats"; lanes as in CuTe's
traits, NVIDIA/cutlass, include/cute/atom/mma_traits_sm100_frag.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.isa.instruction_descriptors import (
    OPERAND_BYTES,
    PRODUCT_KINDS,
    InstructionDescriptor,
    product_descriptor,
)
from tilewright.isa.machine import Lanes
from tilewright.isa.tcgen05_cp import EXPAND
from tilewright.isa.types import WORDS
from tilewright.isa.warp_matrices import numbers
from tilewright.isa.wgmma_values import rounded_sum

__all__ = ["EVERY_LANE", "PATHS", "RESULTS", "UNIT", "DataPath", "operand_of", "product"]

Array = NDArray[Any]
UNIT = 16  # bytes
PACKED = {"float6_e2m3fn": "b6x16_p32", "float6_e3m2fn": "b6x16_p32", "float4_e2m1fn": "b4x16_p64"}
RESULTS: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
}


class DataPath(NamedTuple):
    """Where D is in a CTA. lanes: of tensor memory, those of its rows. halves: 2 where the second half of the columns
    is in lanes of its own. origins: the lanes at which d may be.
    """

    lanes: Array
    halves: int = 1
    origins: tuple[int, ...] = (0,)


EVERY_LANE = np.arange(128)
PATHS = {
    (1, 64): DataPath(np.arange(64) % 16 + np.arange(64) // 16 * 32, origins=(0, 16)),
    (1, 128): DataPath(EVERY_LANE),
    (2, 128): DataPath(EVERY_LANE, halves=2),
    (2, 256): DataPath(EVERY_LANE),
}


def operand_of(name: str, product: InstructionDescriptor) -> tuple[str, bool, int]:
    """The elements of A or B, whether it is MN-major, and its rows or columns in each CTA."""
    if name == "a":
        return product.a_dtype, product.trans_a, product.M // product.cta_group
    return product.b_dtype, product.trans_b, product.N // product.cta_group


def product(
    a: Lanes, b: Lanes, before: Lanes, i_desc: Lanes, shape: Lanes, *, kind: str, use_a_tmem: bool, cta_group: int,
    scale_input_d: int,
) -> Lanes:  # fmt: skip
    """The cells of D after the operation, from the units of A (or its cells) and B and the cells before."""
    found = np.zeros(before.shape, np.uint32)
    for bits in np.unique(i_desc[shape[:, 0] > 0]).tolist():
        which = (shape[:, 0] > 0) & (i_desc == bits)
        made = product_descriptor(bits, kind, cta_group)
        assert isinstance(made, InstructionDescriptor)
        path, own = PATHS[cta_group, made.M], which.repeat(cta_group)
        height, width = len(path.lanes), made.N // path.halves
        left = _in_tmem(a[own], made) if use_a_tmem else _in_shared(a[own], "a", made)
        left = left.reshape(-1, cta_group, path.halves if use_a_tmem else 1, height // path.halves, left.shape[-1])
        right = _in_shared(b[own], "b_desc", made).reshape(len(left), 1, path.halves, width, -1)
        result = RESULTS[made.d_dtype]
        had = np.ascontiguousarray(before[own, :height, :width]).astype(f"u{result.itemsize}").view(result)
        had = np.ldexp(had, -scale_input_d) if scale_input_d else had
        signed = -left if made.neg_a != made.neg_b else left
        total = rounded_sum(signed, right, had.reshape(*left.shape[:2], path.halves, -1, width), saturate=made.sat_d)
        words = total.view(f"u{result.itemsize}").astype(np.uint32).reshape(-1, height, width)
        found[np.flatnonzero(own)[:, None, None], np.arange(height)[:, None], np.arange(width)] = words
    return found


def _in_shared(units: Lanes, name: str, made: InstructionDescriptor) -> Array:
    """(n, rows or columns, K), from the units of a row each."""
    element, trans, count = operand_of(name, made)
    k = PRODUCT_KINDS[made.kind].k
    units = units[:, : count * OPERAND_BYTES // UNIT]
    words = np.ascontiguousarray(EXPAND[PACKED.get(element, "")](units)).view(np.uint32)
    lines, length = (k, count) if trans else (count, k)
    values = numbers(words, WORDS[element]).reshape(len(units), lines, length)
    return np.asarray(values.swapaxes(-1, -2) if trans else values, np.float64)


def _in_tmem(cells: Lanes, made: InstructionDescriptor) -> Array:
    """(n, lanes, K)."""
    cells = cells[:, : len(PATHS[made.cta_group, made.M].lanes)]
    return np.asarray(numbers(cells, WORDS[made.a_dtype]).reshape(*cells.shape[:2], -1), np.float64)
