"""Whole programs through tensor memory: from global memory and back by tile copies only, with every check on.

Rows are staged in shared memory, copied to tensor memory, read back by the four warps of a warpgroup and written out:
each warp its own quarter, as 32 bits of each lane and column: all 128 lanes, or of datapath F the 64 that it has. What
arrives is compared with the layouts' tables.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.keywords import CtaGroup
from tilewright import T, Tx
from tilewright.dtypes import dtype
from tilewright.layout import (
    Layout,
    R,
    S,
    TCol,
    TileLayout,
    TLane,
    mma_shared_layout,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    wg_local_layout,
)

SHAPES = {128: ("D", "32x32b"), 64: ("F", "16x64b")}  # by the lanes to read back: their datapath, and how to load it


def through(
    tensor: Layout,
    shared: Layout,
    shape: tuple[int, int],
    kind: str,
    columns: int,
    group: CtaGroup = 1,
    read: int = 128,
) -> object:
    """Copies a tile to tensor memory, and ``read`` lanes of ``columns`` columns from there to B."""
    datapath, load = SHAPES[read]
    cells, registers = (read, columns), tcgen05_atom_layout(load, (read, columns), "uint32")

    @T.prim_func
    def through_tensor_memory(A: T.Buffer(shape, kind), B: T.Buffer(cells, "uint32")):
        T.device_entry()
        T.cta_id([1])
        warp_id = T.warp_id([4])
        A_smem = T.alloc_buffer(shape, kind, scope="shared", layout=shared, align=1024)
        tmem_addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        lanes = T.alloc_buffer(cells, "uint32", scope="local", layout=registers)
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(tmem_addr), n_cols=512, cta_group=group)
            if T.ptx.elect_sync():
                T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(A_smem[:, :], A[:, :])
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        tmem = T.decl_buffer(shape, kind, scope="tmem", allocated_addr=tmem_addr[0], layout=tensor)
        words = T.decl_buffer(
            cells, "uint32", scope="tmem", allocated_addr=tmem_addr, layout=tmem_datapath_layout(datapath, *cells)
        )
        if warp_id == 0 and T.ptx.elect_sync():
            Tx.copy_async(tmem[:, :], A_smem[:, :], cta_group=group)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=group)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        Tx.wg.copy_async(lanes[:, :], words[:, :])
        T.ptx.tcgen05.wait.ld()
        Tx.wg.copy(B[:, :], lanes[:, :])
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id == 0:
            T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=512, cta_group=group)

    return through_tensor_memory


def expected(tensor: Layout, a: np.ndarray, columns: int) -> np.ndarray:
    """What is in each cell, by the layout's table; 0 where nothing is."""
    nbytes = a.dtype.itemsize
    cells = np.zeros((128, 4 * columns // nbytes), a.dtype)
    table = tensor.table(a.shape)
    for replica in range(table["TLane"].shape[-1]):
        cells[table["TLane"][..., replica], table["TCol"][..., replica]] = a
    return cells.view(np.uint32)


def run(
    tensor: Layout, shared: Layout, shape: tuple[int, int], kind: str, columns: int, read: int = 128
) -> tw.Executable:
    made = tw.compile(through(tensor, shared, shape, kind, columns, read=read), target="sm_100a")
    raw = np.random.default_rng(0).integers(0, 256, (shape[0], shape[1] * dtype(kind).bits // 8), np.uint8)
    a = raw.view(dtype(kind).numpy)
    found = np.zeros((read, columns), np.uint32)

    told = made.simulate(a, found, check="all")

    lanes = tmem_datapath_layout(SHAPES[read][0], read, 1).table((read, 1))["TLane"][:, 0, 0]
    assert np.array_equal(found, expected(tensor, raw.view(f"u{a.dtype.itemsize}"), columns)[lanes])
    assert told.warnings == []
    return made


WARPX4 = R[4 : 32 @ TLane]


@pytest.mark.parametrize("kind", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_32_rows_reach_all_four_warps_whatever_the_swizzle(mode: int, kind: str) -> None:
    columns = 128 // dtype(kind).bits * 8
    tensor = TileLayout(S[(32, columns) : (1 @ TLane, 1 @ TCol)] + WARPX4)

    made = run(tensor, mma_shared_layout(kind, mode, (32, columns)), (32, columns), kind, 32)

    assert made.report.entries[1].variant == "tcgen05_cp"
    assert made.cubin


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_128_rows_fill_datapath_d(mode: int) -> None:
    tensor = tmem_datapath_layout("D", 128, 64)

    made = run(tensor, mma_shared_layout("float16", mode, (128, 64)), (128, 64), "float16", 32)

    assert made.report.entries[1].plan.startswith("128x256b, 4 instructions")
    assert made.cubin


@pytest.mark.parametrize(
    ("tensor", "plan"),
    [
        (S[(64, 32) : (1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane], "64x128b.warpx2::02_13, 4 instructions"),
        (
            S[(2, 32, 32) : (64 @ TLane, 1 @ TLane, 1 @ TCol)] + R[2 : 32 @ TLane],
            "64x128b.warpx2::01_23, 4 instructions",
        ),
    ],
)
def test_64_rows_reach_two_warps_each(tensor: Layout, plan: str) -> None:
    made = run(tensor, mma_shared_layout("float16", 2, (64, 32)), (64, 32), "float16", 16)

    assert made.report.entries[1].plan.startswith(plan)


@pytest.mark.parametrize("shared", [S[(4, 16, 32) : (32, 256, 1)], S[(4, 16, 2, 16) : (16, 128, 64, 1)]])
def test_64_rows_fill_half_the_lanes_of_datapath_f(shared: Layout) -> None:
    tensor = tmem_datapath_layout("F", 64, 32)

    made = run(tensor, shared, (64, 32), "uint8", 8, read=64)

    assert made.report.entries[1].plan.startswith("4x256b, 16 instructions")


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b"])
def test_registers_go_to_tensor_memory_and_come_back(shape: str, kind: str) -> None:
    rows, columns = 128, 64
    layout = wg_local_layout(columns)

    @T.prim_func
    def there_and_back(A: T.Buffer((rows, columns), kind), B: T.Buffer((rows, columns), kind)):
        T.device_entry()
        T.cta_id([1])
        warp_id = T.warp_id([4])
        tmem_addr = T.alloc_shared([1], "uint32")
        out = T.alloc_tcgen05_ldst_frag(shape, (rows, columns), kind)
        back = T.alloc_buffer((rows, columns), kind, scope="local", layout=layout)
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(tmem_addr), n_cols=64, cta_group=1)
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        tmem = T.decl_buffer(
            (rows, columns),
            kind,
            scope="tmem",
            allocated_addr=tmem_addr[0],
            layout=tmem_datapath_layout("D", rows, columns),
        )
        Tx.wg.copy(out[:, :], A[:, :])
        Tx.wg.copy_async(tmem[:, :], out[:, :])
        T.ptx.tcgen05.wait.st()
        Tx.wg.copy_async(back[:, :], tmem[:, :])
        T.ptx.tcgen05.wait.ld()
        Tx.wg.copy(B[:, :], back[:, :])
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id == 0:
            T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=64, cta_group=1)

    made = tw.compile(there_and_back, target="sm_100a")
    a = np.random.default_rng(0).standard_normal((rows, columns)).astype(dtype(kind).numpy)
    b = np.zeros_like(a)
    told = made.simulate(a, b, check="all")

    assert np.array_equal(a, b)
    assert told.warnings == []
    assert f"tcgen05.st {shape}." in made.report.entries[1].plan
    assert made.cubin


def test_a_pair_of_ctas_has_instructions_of_its_own_kind() -> None:
    tensor = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + WARPX4)

    made = tw.compile(through(tensor, S[32, 16], (32, 16), "uint8", 4, group=2), target="sm_100a")

    assert "tcgen05.cp.cta_group::2.32x128b.warpx4" in made.source("cuda")
    assert made.cubin
