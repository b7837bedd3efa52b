"""Tensor memory, m-barriers and descriptors as CUDA text: what is spelled how, and that it assembles."""

from __future__ import annotations

from functools import cache

import pytest

import tilewright as tw
from tilewright import T


@T.prim_func
def staging(out: T.Buffer((128, 4), "uint32")):
    T.device_entry()
    warp_id = T.warp_id([4])
    tid = T.thread_id([128])
    tile = T.alloc_shared((32, 16), "uint8", align=1024)
    addr = T.alloc_shared((1,), "uint32")
    bar = T.alloc_shared((1,), "uint64")
    desc = T.alloc_local((1,), "uint64")
    signed = T.alloc_local((1,), "int64")
    regs = T.alloc_local((4,), "uint32")
    if warp_id == 0:
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
    if tid == 0:
        T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    T.ptx.tcgen05.encode_matrix_descriptor(desc.data, tile.ptr_to([0, 0]), 16, 8, 0)
    T.ptx.tcgen05.encode_matrix_descriptor(signed.data, tile.ptr_to([0, 0]), 1, 64, 3)
    if tid == 0:
        T.ptx.tcgen05.cp(addr[0], T.smem_desc_add_16B_offset(desc[0], 2), shape="32x128b", multicast="warpx4", col=4)
        T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    T.ptx.tcgen05.ld(addr[0], regs[0:4], shape="32x32b", num=4, row=32 * warp_id)
    T.ptx.tcgen05.ld(addr[0], regs[0], shape="16x32bx2", num=1, split=1, row=32 * warp_id)
    T.ptx.tcgen05.ld(addr[0], regs[0], shape="16x32bx2", num=1, split=2, row=32 * warp_id)
    T.ptx.tcgen05.wait.ld()
    for i in T.unroll(4):
        out[tid, i] = regs[i]
    T.ptx.mbarrier.arrive(bar.ptr_to([0]))
    T.ptx.mbarrier.arrive(bar.ptr_to([0]), count=2)
    T.ptx.mbarrier.arrive(T.ptx.mapa(bar.ptr_to([0]), 0), space="shared::cluster")
    if T.ptx.mbarrier.try_wait_once(bar.ptr_to([0]), 1):
        T.ptx.mbarrier.inval(bar.ptr_to([0]))
    T.cuda.cta_sync()
    if warp_id == 0:
        T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)


@cache
def source() -> str:
    return tw.compile(staging, target="sm_100a").source("cuda")


@pytest.mark.parametrize(
    "text",
    [
        'asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" : : "r"(taddr), "l"(desc) : "memory");',
        "tcgen05_cp_cta_group_1_32x128b_warpx4(addr[0] + 4u, tw_smem_desc_add_16B_offset(desc[0], 2));",
        "desc[0] = tw_matrix_descriptor(shared_address(tile), 16, 8, 0x400000000000ull);",
        "(unsigned long long&)signed_[0] = tw_matrix_descriptor(shared_address(tile), 1, 64, 0x4000400000000000ull);",
        '"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"',
        '"{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; @!done bra again; }"',
        '"tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"',
        "addr[0] + (unsigned int)(warpid * 32) * 65536u",
        '"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"',
        "if (mbarrier_try_wait_parity_",
    ],
)
def test_a_part_of_the_text(text: str) -> None:
    assert text in source()


def test_one_mnemonic_with_other_operands_is_another_function() -> None:
    assert '16x32bx2.x1.b32 {%0}, [%1], 1;"' in source()
    assert '16x32bx2.x1.b32 {%0}, [%1], 2;"' in source()
    assert '"mbarrier.arrive.shared.b64 %0, [%1];"' in source()
    assert '"mbarrier.arrive.shared.b64 %0, [%1], %2;"' in source()


def test_the_whole_kernel_assembles() -> None:
    assert "tcgen05.cp.cta_group::1.32x128b.warpx4" in tw.compile(staging, target="sm_100a").source("ptx")
