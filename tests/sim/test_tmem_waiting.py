"""An alloc waits until there is room: for another warp's dealloc, or for the other CTA of its pair."""

# ruff: noqa: F841  the names of a kernel are read by its parser

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import line, refusal, simulate
from tilewright import T


def taking_turns(*, warps: int = 4, columns: int = 256, rounds: int = 3, ctas: int = 1) -> Any:
    """Each warp takes columns, stores to them, loads again and gives them back; there is no room for all at once."""

    @T.prim_func
    def take_turns(B: T.Buffer((ctas, warps, 32), "uint32")):
        cta_id = T.cta_id([ctas])
        warp_id, lane_id = T.warp_id([warps]), T.lane_id([32])
        addr = T.alloc_shared([warps], "uint32")
        word = T.alloc_local((1,), "uint32")
        for i in T.serial(rounds):
            T.ptx.tcgen05.alloc(addr.ptr_to([warp_id]), n_cols=columns, cta_group=1)
            T.cuda.warp_sync()
            word[0] = T.cast(1000 * cta_id + 100 * i + 32 * warp_id + lane_id, "uint32")
            T.ptx.tcgen05.st(addr[warp_id], word[0], shape="32x32b", num=1, row=warp_id * 32)
            T.ptx.tcgen05.wait.st()
            T.ptx.tcgen05.ld(addr[warp_id], word[0], shape="32x32b", num=1, row=warp_id * 32)
            T.ptx.tcgen05.wait.ld()
            T.ptx.tcgen05.dealloc(addr[warp_id], n_cols=columns, cta_group=1)
            T.cuda.warp_sync()
        B[cta_id, warp_id, lane_id] = word[0]

    return take_turns


@pytest.mark.parametrize("check", ["none", "default", "all"])
@pytest.mark.parametrize(("warps", "columns"), [(2, 512), (4, 256), (4, 512), (3, 128)])
def test_a_warp_waits_until_others_have_given_back(warps: int, columns: int, check: str) -> None:
    b = np.zeros((2, warps, 32), np.uint32)

    assert simulate(taking_turns(warps=warps, columns=columns, ctas=2), b, check=check) == []
    cta, warp, lane = np.indices(b.shape)
    assert np.array_equal(b, 1000 * cta + 200 + 32 * warp + lane)


def keeping(columns: int) -> Any:
    """Two warps take columns, meet, and give them back."""

    @T.prim_func
    def keep():
        T.cta_id([1])
        warp_id = T.warp_id([2])
        addr = T.alloc_shared([2], "uint32")
        T.ptx.tcgen05.alloc(addr.ptr_to([warp_id]), n_cols=columns, cta_group=1)  # takes
        T.cuda.cta_sync()  # meet
        T.ptx.tcgen05.dealloc(addr[warp_id], n_cols=columns, cta_group=1)

    return keep


def test_who_waits_for_columns_that_nobody_can_give_back_waits_in_vain() -> None:
    assert simulate(keeping(256)) == []

    error = refusal(keeping(512))

    assert error.what == "deadlock: no thread can go on"
    assert f"{line('takes')}: ptx.tcgen05.alloc: CTA (0, 0, 0), warp 1, all lanes" in str(error.given)
    assert f"{line('meet')}: cuda.cta_sync: CTA (0, 0, 0), warp 0, all lanes" in str(error.given)
    assert str(error.allowed) == (
        f"512 free columns of tensor memory in a row; 0 are free, taken: 512 by the alloc at {line('takes')}"
    )
    assert "dealloc" in str(error.hint)


def test_a_warp_that_parted_is_whole_again_for_an_alloc() -> None:
    @T.prim_func
    def part(B: T.Buffer((64,), "int32")):
        T.cta_id([1])
        warp_id, lane_id, tid = T.warp_id([2]), T.lane_id([32]), T.thread_id([64])
        addr = T.alloc_shared([2], "uint32")
        bar = T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 16)
        T.cuda.cta_sync()
        if lane_id % 4 == 3:
            T.ptx.mbarrier.arrive(bar.ptr_to([0]))
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            B[tid] = 1
        T.ptx.tcgen05.alloc(addr.ptr_to([warp_id]), n_cols=512, cta_group=1)
        T.cuda.warp_sync()
        T.ptx.tcgen05.dealloc(addr[warp_id], n_cols=512, cta_group=1)

    b = np.zeros(64, np.int32)

    assert simulate(part, b) == []
    assert np.flatnonzero(b).tolist() == list(range(3, 64, 4))


def test_half_a_warp_takes_nothing() -> None:
    @T.prim_func
    def half():
        T.cta_id([1])
        lane_id, warp_id = T.lane_id([32]), T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        if lane_id < 16:
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=32, cta_group=1)  # half

    error = refusal(half)

    assert error.what == "divergence: ptx.tcgen05.alloc without lanes 16..31"
    assert str(error.at) == line("half")


# Pairs of CTAs


def pair(*, both: bool = True, columns: tuple[int, int] = (64, 64)) -> Any:
    @T.prim_func
    def take_together(B: T.Buffer((4,), "uint32")):
        cta_id = T.cta_id([4])
        rank = T.cta_id_in_cluster([2])
        lane_id, warp_id = T.lane_id([32]), T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        n = T.if_then_else(rank == 0, columns[0], columns[1])
        if both or rank == 1:
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=n, cta_group=2)  # together
            T.cuda.warp_sync()
            if lane_id == 0:
                B[cta_id] = addr[0]
            T.ptx.tcgen05.dealloc(addr[0], n_cols=n, cta_group=2)

    return take_together


def test_the_ctas_of_a_pair_take_columns_together() -> None:
    found = np.ones(4, np.uint32)

    assert simulate(pair(), found) == []
    assert found.tolist() == [0, 0, 0, 0]


def test_one_cta_of_a_pair_waits_for_the_other() -> None:
    error = refusal(pair(both=False), np.zeros(4, np.uint32))

    assert error.what == "deadlock: no thread can go on"
    assert f"{line('together')}: ptx.tcgen05.alloc: CTA (1, 0, 0)" in str(error.given)
    assert error.allowed == "an alloc by a warp of each CTA of the pair"
    assert error.hint == "the same alloc in both CTAs of the pair"


def test_they_take_equally_many() -> None:
    error = refusal(pair(columns=(64, 32)), np.zeros(4, np.uint32))

    assert error.what == "the CTAs of a pair ask for different numbers of columns"
    assert str(error.at) == line("together")
