"""Which operations on tensor memory come after which: within a thread or warp, and between those that meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import IN_EVERY_QUARTER, TILE, give_back, line, meet, refusal, simulate, take
from tilewright import T, Tx

WORDS = TILE.view(np.uint32)

# Two warpgroups: warp w and warp w + 4 reach the same lanes


def handed_over(*left_out: str) -> Any:  # noqa: C901  branches of Python, decided while it is parsed
    """Warps 0 to 3 store, warps 4 to 7 load what they stored, and change it; warps 0 to 3 see that."""
    steps = {"wait.st", "before", "barrier", "after", "wait.ld", "before again", "after again"}
    assert steps.issuperset(left_out)
    has = {step: step not in left_out for step in steps}

    @T.prim_func
    def hand_over(B: T.Buffer((256,), "uint32")):  # noqa: C901  branches of Python, decided while it is parsed
        T.cta_id([1])
        warp_id, tid = T.warp_id([8]), T.thread_id([256])
        addr = T.alloc_shared([1], "uint32")
        word = T.alloc_local((1,), "uint32")
        take(addr, warp_id)
        row = warp_id % 4 * 32
        word[0] = T.cast(tid, "uint32")
        if warp_id < 4:
            T.ptx.tcgen05.st(addr[0], word[0], shape="32x32b", num=1, row=row)  # first store
            if has["wait.st"]:
                T.ptx.tcgen05.wait.st()
        if has["before"]:
            T.ptx.tcgen05.fence.before_thread_sync()
        if has["barrier"]:
            T.cuda.cta_sync()
        if has["after"]:
            T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id >= 4:
            T.ptx.tcgen05.ld(addr[0], word[0], shape="32x32b", num=1, row=row)  # load
            if has["wait.ld"]:
                T.ptx.tcgen05.wait.ld()
        if has["before again"]:
            T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        if has["after again"]:
            T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id < 4:
            word[0] = T.uint32(0)
            T.ptx.tcgen05.st(addr[0], word[0], shape="32x32b", num=1, row=row)  # second store
            T.ptx.tcgen05.wait.st()
        T.ptx.tcgen05.wait.ld()
        B[tid] = word[0]
        give_back(addr, warp_id)

    return hand_over


def test_what_one_warpgroup_stores_another_loads_behind_wait_fence_barrier_and_fence() -> None:
    b = np.zeros(256, np.uint32)

    assert simulate(handed_over(), b) == []
    assert b.tolist() == [0] * 128 + list(range(128))


@pytest.mark.parametrize(
    ("left_out", "hint"),
    [
        ("wait.st", "T.ptx.tcgen05.wait.st() by the warp that issued it, and a barrier, between"),
        ("barrier", "a barrier after T.ptx.tcgen05.wait.st() by the warp that issued it, between"),
    ],
)
def test_a_load_comes_after_the_store_of_another_warp_by_all_of_them(left_out: str, hint: str) -> None:
    error = refusal(handed_over(left_out), np.zeros(256, np.uint32))

    assert error.what == "tcgen05.ld touches tensor memory that tcgen05.st may still not have written"
    assert f"{line('load')}: CTA (0, 0, 0), warp 4" in str(error.given)
    assert f"written at {line('first store')}: CTA (0, 0, 0), warp 0" in str(error.given)
    assert hint in str(error.hint)


@pytest.mark.parametrize(
    ("left_out", "hint"),
    [
        ("before", "T.ptx.tcgen05.fence.before_thread_sync() by the warp that has waited, and a barrier after it"),
        ("after", "T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier, between"),
        ("before again", "T.ptx.tcgen05.fence.before_thread_sync() by the warp that has waited"),
        ("after again", "T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier"),
    ],
)
def test_a_barrier_without_the_fences_of_tensor_memory_is_a_warning(left_out: str, hint: str) -> None:
    b = np.zeros(256, np.uint32)

    (warning,) = simulate(handed_over(left_out), b)

    by, then, did = ("ld", "second store", "read") if "again" in left_out else ("st", "load", "written")
    earlier = line("load" if "again" in left_out else "first store")
    now = "st" if "again" in left_out else "ld"
    assert warning.startswith(
        f"{line(then)}: tcgen05.{now} touches tensor memory that the tcgen05.{by} at {earlier} has {did}, without "
    )
    assert hint in warning
    assert b.tolist() == [0] * 128 + list(range(128))


def test_a_store_comes_after_the_load_of_another_warp_by_its_wait() -> None:
    error = refusal(handed_over("wait.ld"), np.zeros(256, np.uint32))

    assert error.what == "tcgen05.st touches tensor memory that tcgen05.ld may still not have read"
    assert f"{line('second store')}: CTA (0, 0, 0), warp 0" in str(error.given)
    assert f"read at {line('load')}: CTA (0, 0, 0), warp 4" in str(error.given)
    assert "T.ptx.tcgen05.wait.ld() by the warp that issued it, and a barrier, between" in str(error.hint)


def test_without_checks_a_store_that_was_not_waited_for_comes_too_late() -> None:
    b = np.ones(256, np.uint32)

    simulate(handed_over("wait.st"), b, check="none")

    assert (b[128:] == 0).all()


def by_both_warpgroups(operation: str, *, meets: bool = True) -> Any:
    """Warp w and warp w + 4 do the same to the same cells, in one statement; warp 4 alone changes some later."""

    @T.prim_func
    def both(B: T.Buffer((256,), "uint32")):
        T.cta_id([1])
        warp_id, tid = T.warp_id([8]), T.thread_id([256])
        addr = T.alloc_shared([1], "uint32")
        word = T.alloc_local((1,), "uint32")
        take(addr, warp_id)
        word[0] = T.cast(tid, "uint32")
        if operation == "store" or warp_id < 4:
            T.ptx.tcgen05.st(addr[0], word[0], shape="32x32b", num=1, row=warp_id % 4 * 32)  # store of both
        T.ptx.tcgen05.wait.st()
        meet()
        T.ptx.tcgen05.ld(addr[0], word[0], shape="32x32b", num=1, row=warp_id % 4 * 32)  # load of both
        T.ptx.tcgen05.wait.ld()
        B[tid] = word[0]
        if meets:
            meet()
        if warp_id == 4:
            T.ptx.tcgen05.st(addr[0], word[0], shape="32x32b", num=1)  # store of one
            T.ptx.tcgen05.wait.st()
        give_back(addr, warp_id)

    return both


def test_warps_of_two_warpgroups_may_load_the_same_cells_together() -> None:
    b = np.zeros(256, np.uint32)

    assert simulate(by_both_warpgroups("load"), b) == []
    assert b.tolist() == 2 * list(range(128))


def test_they_may_not_store_to_them_together() -> None:
    error = refusal(by_both_warpgroups("store"), np.zeros(256, np.uint32))

    assert error.what == "tcgen05.st touches tensor memory that tcgen05.st may still not have written"
    assert f"{line('store of both')}: CTA (0, 0, 0), warp 4" in str(error.given)
    assert f"written at {line('store of both')}: CTA (0, 0, 0), warp 0" in str(error.given)


def test_of_two_loads_of_the_same_cells_both_are_remembered() -> None:
    """Warp 4 has waited for its own load, which was the last, but not met warp 0, which may still be loading."""
    error = refusal(by_both_warpgroups("load", meets=False), np.zeros(256, np.uint32))

    assert error.what == "tcgen05.st touches tensor memory that tcgen05.ld may still not have read"
    assert f"{line('store of one')}: CTA (0, 0, 0), warp 4" in str(error.given)
    assert f"read at {line('load of both')}: CTA (0, 0, 0), warp 0" in str(error.given)


# One warp


def in_turn(first: str, then: str, *, waits: bool) -> Any:
    """One warp issues two operations on the same cells, with or without a wait for the first in between."""

    @T.prim_func
    def in_turn(B: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        warp_id, lane_id = T.warp_id([1]), T.lane_id([32])
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((3,), "uint32")
        take(addr, warp_id)
        for i in range(3):
            words[i] = T.cast(100 * i + lane_id, "uint32")
        if first == "load":
            T.ptx.tcgen05.st(addr[0], words[2], shape="32x32b", num=1)
            T.ptx.tcgen05.wait.st()
            T.ptx.tcgen05.ld(addr[0], words[0], shape="32x32b", num=1)  # load first
            if waits:
                T.ptx.tcgen05.wait.ld()
        else:
            T.ptx.tcgen05.st(addr[0], words[0], shape="32x32b", num=1)  # store first
            if waits:
                T.ptx.tcgen05.wait.st()
        if then == "load":
            T.ptx.tcgen05.ld(addr[0], words[1], shape="32x32b", num=1)  # load then
        else:
            T.ptx.tcgen05.st(addr[0], words[1], shape="32x32b", num=1)  # store then
        T.ptx.tcgen05.wait.ld()
        T.ptx.tcgen05.wait.st()
        B[lane_id] = words[1]
        give_back(addr, warp_id)

    return in_turn


@pytest.mark.parametrize(
    ("first", "then", "did"),
    [("store", "load", "written"), ("store", "store", "written"), ("load", "store", "read")],
)
def test_loads_and_stores_of_a_warp_keep_no_order_unless_it_waits(first: str, then: str, did: str) -> None:
    assert simulate(in_turn(first, then, waits=True), np.zeros(32, np.uint32)) == []

    error = refusal(in_turn(first, then, waits=False), np.zeros(32, np.uint32))

    short = {"store": "st", "load": "ld"}
    assert error.what == (
        f"tcgen05.{short[then]} touches tensor memory that tcgen05.{short[first]} may still not have {did}"
    )
    assert line(f"{then} then") in str(error.given)
    assert f"{did} at {line(f'{first} first')}" in str(error.given)
    assert f"T.ptx.tcgen05.wait.{short[first]}() between line" in str(error.hint)


def test_two_loads_of_the_same_cells_need_no_order() -> None:
    b = np.zeros(32, np.uint32)

    assert simulate(in_turn("load", "load", waits=False), b) == []
    assert b.tolist() == list(range(200, 232))


# One thread


def copied_twice(*, waits: bool, apart: int = 0) -> Any:
    """A thread copies one tile and then another, to the same columns or ``apart`` of each other."""

    @T.prim_func
    def copy_twice(A: T.Buffer((2, 32, 16), "uint8"), B: T.Buffer((4, 32, 4), "uint32")):
        T.cta_id([1])
        warp_id, lane_id = T.warp_id([4]), T.lane_id([32])
        source = T.alloc_buffer((2, 32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        words = T.alloc_local((4,), "uint32")
        if warp_id == 0 and T.ptx.elect_sync():
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(source[:, :, :], A[:, :, :])
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp_id)
        first = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        then = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0] + apart, layout=IN_EVERY_QUARTER)
        if warp_id == 0 and T.ptx.elect_sync():
            Tx.copy_async(first[:, :], source[0, :, :], cta_group=1)  # first copy
            if waits:
                T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
                T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
                T.ptx.tcgen05.fence.after_thread_sync()
            Tx.copy_async(then[:, :], source[1, :, :], cta_group=1)  # second copy
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        if waits:
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), 1)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0] + apart, *[words[i] for i in range(4)], shape="32x32b", num=4, row=warp_id * 32)
        T.ptx.tcgen05.wait.ld()
        for i in range(4):
            B[warp_id, lane_id, i] = words[i]
        give_back(addr, warp_id)

    return copy_twice


def two_tiles() -> tuple[np.ndarray, np.ndarray]:
    return np.stack((TILE, TILE[::-1])), np.zeros((4, 32, 4), np.uint32)


@pytest.mark.parametrize(("waits", "apart"), [(True, 0), (False, 4)])
def test_copies_to_the_same_cells_wait_for_each_other_and_others_need_not(waits: bool, apart: int) -> None:
    a, b = two_tiles()

    assert simulate(copied_twice(waits=waits, apart=apart), a, b) == []
    assert (b == a[1].view(np.uint32)).all()


def test_copies_of_a_thread_to_the_same_cells_keep_no_order() -> None:
    error = refusal(copied_twice(waits=False), *two_tiles())

    assert error.what == "tcgen05.cp touches tensor memory that tcgen05.cp may still not have written"
    assert line("second copy") in str(error.given)
    assert f"written at {line('first copy')}" in str(error.given)
    assert f"T.ptx.tcgen05.commit(...) after the tcgen05.cp at {line('first copy')}" in str(error.hint)


def test_without_checks_the_oldest_completes_first() -> None:
    a, b = two_tiles()

    simulate(copied_twice(waits=False), a, b, check="none")

    assert (b == a[1].view(np.uint32)).all()


def shifted(second: str) -> Any:
    """Lanes 0 to 31 move up by one, and then a copy of four rows fills the last lane of each quarter, or another
    shift follows."""

    @T.prim_func
    def shift_and_fill(A: T.Buffer((64,), "uint16"), B: T.Buffer((128, 8), "uint32")):
        T.cta_id([1])
        warp_id, tid = T.warp_id([4]), T.thread_id([128])
        source = T.alloc_buffer((64,), "uint16", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        desc = T.alloc_local((1,), "uint64")
        words = T.alloc_local((8,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        if tid < 64:
            source[tid] = A[tid]
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp_id)
        for i in range(8):
            words[i] = T.cast(tid * 8 + i, "uint32")
        T.ptx.tcgen05.st(addr[0], *[words[i] for i in range(8)], shape="32x32b", num=8, row=warp_id * 32)
        T.ptx.tcgen05.wait.st()
        meet()
        if tid == 0:
            T.ptx.tcgen05.encode_matrix_descriptor(desc.data, T.address_of(source[0]), ldo=4, sdo=8, swizzle=0)
            T.ptx.tcgen05.shift(addr[0], cta_group=1)  # shift
            if second == "copy":
                T.ptx.tcgen05.cp(addr[0], desc[0], shape="4x256b", cta_group=1, row=31)
            else:
                T.ptx.tcgen05.shift(addr[0], cta_group=1)  # another shift
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], *[words[i] for i in range(8)], shape="32x32b", num=8, row=warp_id * 32)
        T.ptx.tcgen05.wait.ld()
        for i in range(8):
            B[tid, i] = words[i]
        give_back(addr, warp_id)

    return shift_and_fill


def test_a_copy_of_four_rows_comes_after_a_shift_of_its_thread_by_itself() -> None:
    a, b = np.arange(64, dtype=np.uint16), np.zeros((128, 8), np.uint32)
    expected = np.arange(1024, dtype=np.uint32).reshape(128, 8)
    expected[:31] = expected[1:32]
    # Row r is 16 bytes at 16 r and 16 more at 64 + 16 r.
    expected[31::32] = a.reshape(2, 4, 8).swapaxes(0, 1).reshape(4, 16).copy().view(np.uint32)

    assert simulate(shifted("copy"), a, b) == []
    assert np.array_equal(b, expected)


def test_a_shift_does_not_come_after_another_by_itself() -> None:
    error = refusal(shifted("shift"), np.arange(64, dtype=np.uint16), np.zeros((128, 8), np.uint32))

    assert error.what == "tcgen05.shift touches tensor memory that tcgen05.shift may still not have written"
    assert line("another shift") in str(error.given)
    assert f"written at {line('shift')}" in str(error.given)


def test_cells_that_another_warp_writes_later_are_told_as_their_race() -> None:
    @T.prim_func
    def hand_over(B: T.Buffer((256,), "uint32")):
        T.cta_id([1])
        warp_id, tid = T.warp_id([8]), T.thread_id([256])
        addr = T.alloc_shared([1], "uint32")
        word = T.alloc_local((1,), "uint32")
        word[0] = T.uint32(7)
        take(addr, warp_id)
        quarter = T.cast(warp_id % 4 << 21, "uint32")
        if warp_id < 4:
            T.ptx.tcgen05.ld(addr[0] + quarter, word[0], shape="32x32b", num=1)  # too early
            T.ptx.tcgen05.wait.ld()
            B[tid] = word[0]
        else:
            T.ptx.tcgen05.st(addr[0] + quarter, word[0], shape="32x32b", num=1)  # too late
            T.ptx.tcgen05.wait.st()
        give_back(addr, warp_id)

    error = refusal(hand_over, np.zeros(256, np.uint32))

    assert error.what.startswith(
        "race: tcgen05.ld reads tensor memory (lanes 0..31, column 0), which tcgen05.st has not"
    )
    assert line("too early") in str(error.given)
    assert f"written at {line('too late')}" in str(error.given)
