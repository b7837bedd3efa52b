"""Many bytes of every type by every way of the copy engine, and of every product of a warpgroup, on both sides."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.gpu.hardware import Bench
from tests.gpu.test_tma import compare
from tests.keywords import TmaReduction
from tests.tile.wgmma_kernels import WIDE
from tilewright import T, Tx
from tilewright.ir.tensor_map import ELEMENTS
from tilewright.isa import WGMMA_TYPES
from tilewright.layout import mma_shared_layout, wgmma_fragment

pytestmark = pytest.mark.gpu

MEGABYTES = 8  # of an array; one kernel is less than a hundredth of all that is compared
TILE_BYTES = 128  # of a row of a tile: the widest swizzle


@cache
def shuttle(kind: str, mode: int, reduced: TmaReduction, dispatch: str) -> tw.Executable:
    """Each CTA has a tile of 64 rows loaded, and stored or combined where it belongs."""
    cols = TILE_BYTES * 8 // tw.dtypes.dtype(kind).bits
    layout = mma_shared_layout(kind, mode, (64, cols)) if mode else None
    rows, wide = MEGABYTES * 64, 128 * cols

    @T.prim_func
    def shuttled(a: T.Buffer((rows, wide), kind), b: T.Buffer((rows, wide), kind)):
        bx, by = T.cta_id([128, rows // 64])
        tid = T.thread_id([32])
        tile = T.alloc_shared((64, cols), kind, layout=layout, align=1024)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        row: T.let = by * 64
        column: T.let = bx * cols
        if T.ptx.elect_sync():
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64 * TILE_BYTES)
            Tx.copy_async(tile, a[row : row + 64, column : column + cols], mbar=bar.ptr_to([0]), dispatch=dispatch)
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            into = b[row : row + 64, column : column + cols]
            Tx.copy_async(into, tile, use_tma_reduce=reduced, dispatch=dispatch)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return tw.compile(shuttled, target="sm_90a")


KINDS = [kind for kind, element in ELEMENTS.items() if element.group == 1]  # packed ones came with Blackwell
WAYS = [
    *(("tma", kind, mode, "") for kind in KINDS for mode in range(4)),
    *(("bulk", kind, 0, "") for kind in KINDS),
    *(("tma", kind, 0, op) for kind in ("uint32", "int32", "uint64") for op in ("add", "min", "max")),
    *(("tma", "uint32", 0, op) for op in ("inc", "dec", "and", "or", "xor")),
    *(("tma", kind, 0, "add") for kind in ("float16", "bfloat16", "float32")),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("dispatch", "kind", "mode", "op"), WAYS)
def test_arrays_of_every_type_are_moved(
    dispatch: str, kind: str, mode: int, op: TmaReduction, seed: int, bench: Bench
) -> None:
    made, size = shuttle(kind, mode, op, dispatch), tw.dtypes.dtype(kind).numpy.itemsize
    rng = np.random.default_rng([seed, mode, len(op), KINDS.index(kind)])
    shape = (MEGABYTES * 64, 128 * TILE_BYTES // size)
    a, b = (numbers(rng, shape, kind) for _ in range(2))

    compare(bench, made, a, b, generated=False)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Any:
    """Any bits of integers; small floats, whose sums are exact."""
    if kind in ("float16", "bfloat16", "float32", "float64"):
        return rng.integers(-64, 65, shape).astype(tw.dtypes.dtype(kind).numpy)
    return rng.integers(0, 256, (*shape, tw.dtypes.dtype(kind).numpy.itemsize), np.uint8).view(kind)[..., 0]


@cache
def products(kinds: tuple[str, str, str], n: int, trans: bool) -> tw.Executable:
    """Each of 32 CTAs multiplies 64 rows of A by all of B."""
    a_kind, b_kind, d_kind = kinds
    k = 2 * WIDE[a_kind]
    b_shape = (k, n) if trans else (n, k)
    layouts = [mma_shared_layout(kind, mode, shape) for kind, mode, shape in
               ((a_kind, 2, (64, k)), (b_kind, 1 if trans else 2, b_shape))]  # fmt: skip

    @T.prim_func
    def multiplied(a: T.Buffer((32 * 64, k), a_kind), b: T.Buffer(b_shape, b_kind), d: T.Buffer((32 * 64, n), d_kind)):
        bx = T.cta_id([32])
        T.thread_id([128])
        A = T.alloc_shared((64, k), a_kind, layout=layouts[0])
        B = T.alloc_shared(b_shape, b_kind, layout=layouts[1])
        D = T.alloc_local((64, n), d_kind, layout=wgmma_fragment(64, n))
        Tx.cta.copy(A, a[bx * 64 : bx * 64 + 64, :])
        Tx.cta.copy(B, b)
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        Tx.wg.gemm_async(D, A, B, transB=trans, sync=True)
        Tx.wg.copy(d[bx * 64 : bx * 64 + 64, :], D)

    return tw.compile(multiplied, target="sm_90a")


TYPES = [(a, b, d) for a, row in WGMMA_TYPES.items() if a in WIDE for b in row.partners for d in row.results]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kinds", TYPES)
def test_products_of_every_type_are_exact(kinds: tuple[str, str, str], seed: int, bench: Bench) -> None:
    for trans in (False, True) if WIDE[kinds[0]] == 16 else (False,):
        made, k = products(kinds, 256, trans), 2 * WIDE[kinds[0]]
        rng = np.random.default_rng([seed, TYPES.index(kinds)])
        shapes = ((32 * 64, k), (k, 256) if trans else (256, k))
        a, b = (
            rng.integers(0 if kind == "uint8" else -3, 4, shape).astype(tw.dtypes.dtype(kind).numpy)
            for kind, shape in zip(kinds, shapes, strict=False)
        )

        compare(bench, made, a, b, np.zeros((32 * 64, 256), kinds[2]), generated=False)
