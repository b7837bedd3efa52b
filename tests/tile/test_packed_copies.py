"""4-bit elements that TMA spreads over 16 bytes each 16, from the array to a product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.keywords import NarrowFloat
from tests.sim.tmem_kernels import bring_back, take
from tests.tile.scaled_kernels import in_units
from tilewright import T, Tx
from tilewright.cuda.nvrtc import assemble
from tilewright.errors import DispatchError
from tilewright.layout import ComposeLayout, S, SwizzleLayout, TCol, TileLayout, TLane, mma_shared_layout

E2M1, E3M2, E4M3 = "float4_e2m1fn", "float6_e3m2fn", "float8_e4m3fn"


def spread(rows: int, k: int, swizzle: int = 3) -> Any:
    tile = TileLayout(S[(rows, k // 16, 16) : (2 * k, 32, 1)])
    return ComposeLayout(SwizzleLayout(5, swizzle, 3), tile) if swizzle else tile


def multiplied(rows: int = 32, first: int = 0) -> Any:
    """C = A B.T, of 4-bit A by 8-bit B; A's rows from ``first`` on come by TMA, K a box at a time."""
    in_lanes = TileLayout(S[(128, rows) : (1 @ TLane, 1 @ TCol)])

    @T.prim_func
    def product(a: T.Buffer((256, 256), E2M1), b: T.Buffer((rows, 256), E4M3), c: T.Buffer((128, rows), "float32")):
        T.cta_id([1])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A = T.alloc_shared((2, 128, 128), E2M1, layout=LAYOUT, align=1024)
        B = T.alloc_shared((2, rows, 128), E4M3, layout=mma_shared_layout(E4M3, 3, (2, rows, 128)), align=1024)
        addr, full, done = [T.alloc_shared([1], kind) for kind in ("uint32", "uint64", "uint64")]
        if tid == 0:
            T.ptx.mbarrier.init(full.ptr_to([0]), 1)
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 32)
        D = T.decl_buffer((128, rows), "float32", scope="tmem", allocated_addr=addr[0], layout=in_lanes)
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), 2 * 128 * 128 + 2 * rows * 128)  # gaps count, too
            for s in (0, 1):
                Tx.copy_async(A[s, :, :], a[first : first + 128, 128 * s : 128 * s + 128], mbar=full.ptr_to([0]))
                Tx.copy_async(B[s, :, :], b[:, 128 * s : 128 * s + 128], mbar=full.ptr_to([0]))
            T.ptx.mbarrier.try_wait(full.ptr_to([0]), 0)
            for s in (0, 1):
                Tx.gemm_async(D, A[s, :, :], B[s, :, :], s > 0)
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        bring_back(c, addr, done, warp, tid, rows)

    return product


LAYOUT = ComposeLayout(SwizzleLayout(5, 3, 3), TileLayout(S[(2, 128, 8, 16) : (128 * 256, 256, 32, 1)]))


@pytest.mark.parametrize("first", [0, 128])
def test_a_map_spreads_elements_as_a_product_takes_them(first: int) -> None:
    rng = np.random.default_rng(first)
    a, b = (rng.integers(-3, 4, (rows, 256)) for rows in (256, 32))
    c = np.zeros((128, 32), np.float32)
    compiled = tw.compile(multiplied(first=first), "sm_100a")

    run = compiled.simulate(a.astype(E2M1), b.astype(E4M3), c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, a[first : first + 128] @ b.T)
    assert "copy_async/tma: g2c: a box of 128 x 128, 16384 bytes; 128-byte swizzle" in str(compiled.report)
    assert assemble(compiled.source("cuda"), "sm_100a").cubin


@pytest.mark.parametrize(("bits", "kind"), [(4, E2M1), (6, E3M2)])
def test_bytes_that_a_map_spreads_are_multiplied_by_their_elements_names(bits: int, kind: NarrowFloat) -> None:
    """Two operands of 4 or 6 bits, packed in arrays of bytes, by maps that the caller makes."""
    rng = np.random.default_rng(bits)
    values = rng.integers(-2, 3, (2, 128, 128))
    codes = values.astype(kind).view(np.uint8)
    packed = [in_units(matrix, bits, 2 * bits) for matrix in codes]
    swizzled = mma_shared_layout("uint8", 3, (128, 128))

    @T.prim_func
    def product(a: T.TensorMap(), b: T.TensorMap(), c: T.Buffer((128, 128), "float32")):
        T.cta_id([1])
        warp, tid = T.warp_id([4]), T.thread_id([128])
        A, B = [T.alloc_shared((128, 128), "uint8", layout=swizzled, align=1024) for _ in (0, 1)]
        addr, full, done = [T.alloc_shared([1], dt) for dt in ("uint32", "uint64", "uint64")]
        if tid == 0:
            T.ptx.mbarrier.init(full.ptr_to([0]), 1)
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp, 128)
        D = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=addr[0],
                          layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))  # fmt: skip
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), 2 * 128 * 128)
            for tile, of in ((A, a), (B, b)):
                T.ptx.cp_async.bulk.tensor.g2c(
                    2, tile.ptr_to([0, 0]), full.ptr_to([0]), T.address_of(of), 0, -1, "", 0, 0
                )
            T.ptx.mbarrier.try_wait(full.ptr_to([0]), 0)
            Tx.gemm_async(D, A, B, a_dtype=kind, b_dtype=kind)
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        bring_back(c, addr, done, warp, tid, 128, 128)

    c = np.zeros((128, 128), np.float32)
    maps = [tw.TensorMap(matrix, (128, 128), 3, dtype=f"16U{bits}_ALIGN16B") for matrix in packed]
    run = tw.compile(product, "sm_100a").simulate(*maps, c, check="all")

    assert run.warnings == []
    assert np.array_equal(c, values[0] @ values[1].T)


def test_a_row_of_fewer_elements_than_a_group_of_a_map_is_declined() -> None:
    @T.prim_func
    def narrow(a: T.Buffer((128, 64), E2M1)):
        T.cta_id([1])
        tid = T.thread_id([32])
        A = T.alloc_shared((128, 64), E2M1, layout=spread(128, 64, 2), align=1024)
        full = T.alloc_shared([1], "uint64")
        if tid == 0:
            Tx.copy_async(A, a, mbar=full.ptr_to([0]), dispatch="tma")

    with pytest.raises(DispatchError, match="64 elements of A side by side"):
        tw.compile(narrow, "sm_100a")
