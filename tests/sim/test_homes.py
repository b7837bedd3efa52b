# ruff: noqa: E501  # a table of calls
"""Units stay in the buffer of shared memory that their pointer leads into: nobody's neighbour is written in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import SimulationError
from tilewright.isa import INSTRUCTIONS
from tilewright.lang import parse_script

CASES = {
    # name of the row: (the call by one thread of CTA 0, what it does, the same within the buffer)
    "cp_async": ("cp_async(s.ptr_to([{at}]), A.ptr_to([0]), 16)", "writes", (32, 28)),
    "cp_async.bulk.tensor.g2c": ("cp_async.bulk.tensor.g2c(1, s.ptr_to([{at}]), bar.ptr_to([0]), m, 0, -1, '', 0)", "writes", (0,)),
    "cp_async.bulk.tensor.s2g": ("cp_async.bulk.tensor.s2g(1, s.ptr_to([{at}]), m, '', 0)", "reads", (0,)),
    "cp_async.bulk.tensor.s2g_reduce": ("cp_async.bulk.tensor.s2g_reduce(1, s.ptr_to([{at}]), m, '', 'add', 0)", "reads", (0,)),
    "cp_async.bulk.g2s_cta": ("cp_async.bulk.g2s_cta(s.ptr_to([{at}]), A.ptr_to([0]), 64, bar.ptr_to([0]))", "writes", (20, 16)),
    "cp_async.bulk.g2s_cluster": ("cp_async.bulk.g2s_cluster(s.ptr_to([{at}]), A.ptr_to([0]), 64, bar.ptr_to([0]), T.uint16(3))", "writes", (20, 16)),
    "cp_async.bulk.s2c": ("cp_async.bulk.s2c(T.ptx.mapa(s.ptr_to([{at}]), 1), t.ptr_to([0]), 64, T.ptx.mapa(bar.ptr_to([0]), 1))", "writes", (20, 16)),
    "cp_async.bulk.s2c, its source": ("cp_async.bulk.s2c(T.ptx.mapa(t.ptr_to([0]), 1), s.ptr_to([{at}]), 64, T.ptx.mapa(bar.ptr_to([0]), 1))", "reads", (20, 16)),
    "cp_async.bulk.s2g": ("cp_async.bulk.s2g(A.ptr_to([0]), s.ptr_to([{at}]), 64)", "reads", (20, 16)),
    "cp_reduce_async.bulk.s2g": ("cp_reduce_async.bulk.s2g(A.ptr_to([0]), s.ptr_to([{at}]), 64, 'add', 'float32')", "reads", (20, 16)),
    "cp_reduce_async.bulk.s2c": ("cp_reduce_async.bulk.s2c(T.ptx.mapa(s.ptr_to([{at}]), 1), t.ptr_to([0]), 64, T.ptx.mapa(bar.ptr_to([0]), 1), 'add', 'uint32')", "", (20, 16)),
    "st_async": ("st_async(T.ptx.mapa(s.ptr_to([{at}]), 1), T.float32(1), T.ptx.mapa(bar.ptr_to([0]), 1))", "writes", (32, 31)),
    "st_async.vec": ("st_async.vec(4, T.ptx.mapa(s.ptr_to([{at}]), 1), T.ptx.mapa(bar.ptr_to([0]), 1), T.uint32(1), T.uint32(1), T.uint32(1), T.uint32(1))", "writes", (32, 28)),
    "red_async.add": ("red_async.add(T.ptx.mapa(s.ptr_to([{at}]), 1), T.uint32(1), T.ptx.mapa(bar.ptr_to([0]), 1))", "", (32, 31)),
}  # fmt: skip

KERNEL = """
@T.prim_func
def k(A: T.Buffer((256,), "float32"), m: T.TensorMap):
    rank = T.cta_id_in_cluster([2])
    T.cta_id([2])
    tid = T.thread_id([32])
    pool = T.alloc_shared((512,), "uint8", align=128)
    before = T.decl_buffer((32,), "float32", data=pool.ptr_to([0]))
    s = {buffer}
    t = T.alloc_shared((64,), "float32", align=128)
    bar = T.alloc_shared((1,), "uint64")
    s[tid] = 0.0
    before[tid] = 0.0
    t[tid] = 0.0
    t[tid + 32] = 0.0
    if tid == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cluster_sync()
    if tid == 0 and rank == 0:
        T.ptx.{call}
        T.ptx.cp_async.bulk.commit_group()
        T.ptx.cp_async.bulk.wait_group(0)
    T.cuda.cluster_sync()
"""
BUFFERS = {
    "a buffer": 'T.alloc_shared((32,), "float32", align=128)',
    "a view of a pool": 'T.decl_buffer((32,), "float32", data=pool.ptr_to([128]))',
}


def of_box(elements: int) -> Any:
    return tw.TensorMap(np.zeros(256, "float32"), box=(elements,))


def run(call: str, buffer: str, box: int = 32) -> None:
    kernel = parse_script(KERNEL.format(call=call, buffer=BUFFERS[buffer]))
    tw.simulate(kernel, np.zeros(256, "float32"), of_box(box), target="sm_90a", check="bounds,alignment")


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("name", CASES)
def test_a_unit_that_leaves_its_buffer_in_shared_memory_is_told(name: str, buffer: str) -> None:
    call, verb, (beyond, *_) = CASES[name]
    with pytest.raises(SimulationError, match=f"{verb} outside of s"):
        run(call.format(at=beyond), buffer, box=64)


@pytest.mark.parametrize("buffer", BUFFERS)
@pytest.mark.parametrize("name", CASES)
def test_a_unit_that_ends_where_its_buffer_does_is_clean(name: str, buffer: str) -> None:
    call, _, places = CASES[name]
    run(call.format(at=places[-1]), buffer)


@pytest.mark.parametrize(
    ("into", "source", "what", "where"),
    [("s.ptr_to([1])", "A.ptr_to([0])", "dst", "element 1 of s"), ("s.ptr_to([0])", "A.ptr_to([5])", "src", r"A\[5\]")],
)
def test_a_misaligned_bulk_copy_is_told_by_the_buffer_and_its_element(into, source, what, where) -> None:
    with pytest.raises(SimulationError, match=rf"{what} of a bulk copy(?s:.)*given: *({where}|s\[1\])"):
        run(f"cp_async.bulk.g2s_cta({into}, {source}, 64, bar.ptr_to([0]))", "a buffer")


def test_a_misaligned_box_is_told_by_the_buffer_and_its_element() -> None:
    with pytest.raises(SimulationError, match=r"dst(?s:.)*given: *(s\[4\]|element 4 of s)"):
        run("cp_async.bulk.tensor.g2c(1, s.ptr_to([4]), bar.ptr_to([0]), m, 0, -1, '', 0)", "a buffer")


def test_each_row_that_has_a_unit_touch_shared_memory_is_among_the_cases() -> None:
    by_descriptor = {name for name in INSTRUCTIONS if "wgmma" in name or "tcgen05.mma" in name} | {"ptx.tcgen05.cp"}
    of_rows = {"ptx.cp_async.bulk.tensor.g2c_tile_gather4", "ptx.cp_async.bulk.tensor.s2g_tile_scatter4"}
    touching = {
        row.name
        for row in INSTRUCTIONS.values()
        for form in row.forms
        if form.issue and any(access.space == "shared" for access in form.touched)
    }
    by_pixels = {name for name in touching if name.endswith("_im2col")}  # `test_im2col` has them
    covered = {f"ptx.{name}" for name in CASES} | {name for name in touching if "red_async." in name}
    assert touching <= covered | by_descriptor | of_rows | by_pixels | {"ptx.clusterlaunchcontrol.try_cancel"}


def test_each_thread_of_a_bulk_copy_moves_as_many_bytes_as_it_says() -> None:
    kernel = parse_script("""
@T.prim_func
def k(A: T.Buffer((64,), "float32"), out: T.Buffer((64,), "float32")):
    T.cta_id([1])
    tid = T.thread_id([64])
    s = T.alloc_shared((64,), "float32", align=128)
    bar = T.alloc_shared((1,), "uint64")
    s[tid] = 0.0
    if tid == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cta_sync()
    if tid == 0:
        T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 48)
    if tid < 2:
        T.ptx.cp_async.bulk.g2s_cta(s.ptr_to([tid * 32]), A.ptr_to([tid * 32]), 32 - tid * 16, bar.ptr_to([0]))
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    out[tid] = s[tid]
""")
    out = np.zeros(64, np.float32)
    tw.simulate(kernel, np.ones(64, np.float32), out, target="sm_90a", check="all")
    assert np.flatnonzero(out).tolist() == [*range(8), *range(32, 36)]
