"""Every element type, scalar and in vectors, through global memory, shared memory and registers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import NAMES, DType, dtype
from tilewright.ir import Kernel
from tilewright.lang import parse_script

Array = NDArray[Any]
COUNT = 64  # elements of an argument: two for each lane, that no two lanes share a byte
KINDS = [dtype(name).with_lanes(lanes) for name in NAMES if name not in ("handle", "void") for lanes in (1, 2, 4, 8)]
SCRIPT = """
@T.prim_func
def copies(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, ({count},), "{kind}")
    B = T.match_buffer(B_ptr, ({count},), "{kind}")
    T.device_entry()
    tid = T.thread_id([32])
    there = T.alloc_shared(({count},), "{kind}")
    mine = T.alloc_local((2,), "{kind}")
    for i in range(2):
        mine[i] = A[2 * tid + i]
        there[2 * tid + i] = mine[i]
    T.cuda.cta_sync()
    for i in range(2):
        mine[1 - i] = there[2 * (31 - tid) + 1 - i]
    for i in range(2):
        B[2 * (31 - tid) + i] = mine[i]
"""


def copying(kind: DType) -> Kernel:
    """A kernel that copies A to B, through shared memory and registers, which other lanes write and read."""
    return parse_script(SCRIPT.format(kind=kind, count=COUNT))


def filled(kind: DType, *, lanes_inside: bool, seed: int = 0) -> Array:
    """Random elements, all bit patterns that have a meaning; one item for each element of a vector.

    lanes_inside: the elements of a vector are the last dimension, else a vector's elements follow each other in one.
    """
    shape = (COUNT, kind.lanes) if lanes_inside else (COUNT * kind.lanes,)
    element = kind.element
    octets = np.random.default_rng(seed).integers(0, 256, (*shape, element.numpy.itemsize), dtype=np.uint8)
    if element.kind == "bool":
        octets &= 1
    elif element.value_bits < 8:
        octets &= (1 << element.value_bits) - 1
    return octets.view(element.numpy)[..., 0]


def same_bits(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()
