"""Longer programs on tensor memory: rings of buffers, and every shape of load and store by two warpgroups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import IN_EVERY_QUARTER, TILE, give_back, line, refusal, simulate, take
from tilewright import T, Tx
from tilewright.sim.order.knowledge import clocks

ROUNDS = 6


def double_buffered(*left_out: str, ctas: int = 1) -> Any:  # noqa: C901  branches of Python, decided while it is parsed
    """Warp 4 stages tiles and has them copied to two places in turn; warps 0 to 3 load them and hand the place back."""
    has = {step: step not in left_out for step in ("wait for empty", "before", "after")}

    @T.prim_func
    def ring(A: T.Buffer((ROUNDS, 32, 16), "uint8"), B: T.Buffer((ctas, ROUNDS, 4, 32, 4), "uint32")):  # noqa: C901  branches of Python, decided while it is parsed
        cta_id = T.cta_id([ctas])
        warp_id, lane_id, tid = T.warp_id([5]), T.lane_id([32]), T.thread_id([160])
        source = T.alloc_buffer((2, 32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        full, empty = T.alloc_shared([2], "uint64"), T.alloc_shared([2], "uint64")
        words = T.alloc_local((4,), "uint32")
        if tid == 0:
            for place in range(2):
                T.ptx.mbarrier.init(full.ptr_to([place]), 1)
                T.ptx.mbarrier.init(empty.ptr_to([place]), 128)
        T.ptx.fence.mbarrier_init()
        take(addr, warp_id)
        if warp_id == 4:
            for i in range(ROUNDS // 2):
                for place in (0, 1):
                    tmem = T.decl_buffer(
                        (32, 16), "uint8", scope="tmem", allocated_addr=addr[0] + 4 * place, layout=IN_EVERY_QUARTER
                    )
                    if has["wait for empty"]:
                        T.ptx.mbarrier.try_wait(empty.ptr_to([place]), (i + 1) % 2)
                    for c in range(16):
                        source[place, lane_id, c] = A[2 * i + place, lane_id, c]  # stages
                    T.ptx.fence.proxy_async("shared::cta")
                    T.cuda.warp_sync()
                    if has["after"]:
                        T.ptx.tcgen05.fence.after_thread_sync()
                    if T.ptx.elect_sync():
                        Tx.copy_async(tmem[:, :], source[place, :, :], cta_group=1)  # copies
                        T.ptx.tcgen05.commit(full.ptr_to([place]), cta_group=1)
        else:
            for i in range(ROUNDS):
                T.ptx.mbarrier.try_wait(full.ptr_to([i % 2]), i // 2 % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                T.ptx.tcgen05.ld(
                    addr[0] + 4 * (i % 2), *[words[j] for j in range(4)], shape="32x32b", num=4, row=warp_id * 32
                )  # loads
                T.ptx.tcgen05.wait.ld()
                if has["before"]:
                    T.ptx.tcgen05.fence.before_thread_sync()
                T.ptx.mbarrier.arrive(empty.ptr_to([i % 2]))
                for j in range(4):
                    B[cta_id, i, warp_id, lane_id, j] = words[j]
        give_back(addr, warp_id)

    return ring


def tiles(ctas: int = 1) -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(0).integers(0, 256, (ROUNDS, 32, 16), np.uint8)
    return a, np.zeros((ctas, ROUNDS, 4, 32, 4), np.uint32)


@pytest.mark.parametrize("ctas", [1, 3, 80])
def test_two_places_are_filled_and_emptied_in_turn(ctas: int) -> None:
    a, b = tiles(ctas)

    assert simulate(double_buffered(ctas=ctas), a, b) == []
    assert (b == a.view(np.uint32)[:, None]).all()


def test_a_source_is_staged_again_only_after_its_copy() -> None:
    error = refusal(double_buffered("wait for empty"), *tiles())

    assert error.what == "store overwrites shared memory that tcgen05.cp may still be reading"
    assert line("stages") in str(error.given)
    assert f"read at {line('copies')}" in str(error.given)


@pytest.mark.parametrize(
    ("left_out", "did", "hint"),
    [
        ("before", "read", "T.ptx.tcgen05.fence.before_thread_sync() by the warp that has waited"),
        ("after", "written", "T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier"),
    ],
)
def test_an_m_barrier_without_the_fences_of_tensor_memory_is_a_warning(left_out: str, did: str, hint: str) -> None:
    a, b = tiles()

    said = simulate(double_buffered(left_out), a, b)

    by = {"read": "tcgen05.ld", "written": "tcgen05.cp"}[did]
    (warning,) = (one for one in said if f"tcgen05.cp touches tensor memory that the {by} at" in one)
    assert warning.startswith(line("copies"))
    assert f"has {did}, without a fence between their threads" in warning
    assert hint in warning
    assert (b == a.view(np.uint32)[:, None]).all()


def test_numbers_of_operations_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most operations of a long kernel are long over; only those that may still race are kept."""
    monkeypatch.setattr(clocks, "NUMBERS", 8)
    a, b = tiles(3)

    assert simulate(double_buffered(ctas=3), a, b) == []
    assert (b == a.view(np.uint32)[:, None]).all()
    assert any("tcgen05.cp touches" in said for said in simulate(double_buffered("before", ctas=3), a, b))


# Two warpgroups that change what is copied, in turn


def in_turn(*left_out: str) -> Any:  # noqa: C901  branches of Python, decided while it is parsed
    """Warp 8 has a tile copied to one place again and again. Warpgroups 0 and 1 take every second one, add 1 to it
    there, and hand the place back; neither ever meets the other.
    """
    has = {step: step not in left_out for step in ("wait for the store", "parity")}

    @T.prim_func
    def turns(A: T.Buffer((32, 16), "uint8"), B: T.Buffer((ROUNDS, 4, 32, 4), "uint32")):  # noqa: C901  branches of Python, decided while it is parsed
        T.cta_id([1])
        warp_id, lane_id, tid = T.warp_id([9]), T.lane_id([32]), T.thread_id([288])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        full, empty = T.alloc_shared([2], "uint64"), T.alloc_shared([1], "uint64")
        words = T.alloc_local((4,), "uint32")
        if tid == 0:
            for group in range(2):
                T.ptx.mbarrier.init(full.ptr_to([group]), 1)
            T.ptx.mbarrier.init(empty.ptr_to([0]), 4)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(source[:, :], A[:, :])
        T.ptx.fence.proxy_async("shared::cta")
        take(addr, warp_id)
        tmem = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        if warp_id == 8:
            for i in T.serial(ROUNDS):
                T.ptx.mbarrier.try_wait(empty.ptr_to([0]), (i + 1) % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                if T.ptx.elect_sync():
                    Tx.copy_async(tmem[:, :], source[:, :], cta_group=1)  # copies in turn
                    T.ptx.tcgen05.commit(full.ptr_to([i % 2]), cta_group=1)
        else:
            for i in T.serial(ROUNDS // 2):
                T.ptx.mbarrier.try_wait(full.ptr_to([warp_id // 4]), i % 2 if has["parity"] else 0)
                T.ptx.tcgen05.fence.after_thread_sync()
                T.ptx.tcgen05.ld(addr[0], *[words[j] for j in range(4)], shape="32x32b", num=4, row=warp_id % 4 * 32)
                T.ptx.tcgen05.wait.ld()
                for j in range(4):
                    words[j] = words[j] + T.uint32(1)
                T.ptx.tcgen05.st(addr[0], *[words[j] for j in range(4)], shape="32x32b", num=4, row=warp_id % 4 * 32)
                if has["wait for the store"]:
                    T.ptx.tcgen05.wait.st()
                T.ptx.tcgen05.fence.before_thread_sync()
                T.cuda.warp_sync()
                if lane_id == 0:
                    T.ptx.mbarrier.arrive(empty.ptr_to([0]))
                for j in range(4):
                    B[2 * i + warp_id // 4, warp_id % 4, lane_id, j] = words[j]
        give_back(addr, warp_id)

    return turns


def test_who_comes_after_a_copy_comes_after_all_that_the_copy_came_after() -> None:
    """A warpgroup stores where the other has loaded: the copy in between, and so its commit, came after the load."""
    a, b = tiles()

    assert simulate(in_turn(), a[0], b[0]) == []
    assert (b[0] == a[0].view(np.uint32) + 1).all()


@pytest.mark.parametrize("left_out", ["wait for the store", "parity"])
def test_the_turns_need_each_step(left_out: str) -> None:
    a, b = tiles()

    error = refusal(in_turn(left_out), a[0], b[0])

    if left_out == "parity":  # the wait for a phase that is over ends at once, and a place is handed back twice
        assert error.what == "an arrival at empty[0] for its next phase, and nobody has seen the last one over"
    else:
        assert error.what == "tcgen05.cp touches tensor memory that tcgen05.st may still not have written"
        assert "T.ptx.tcgen05.wait.st() by the warp that issued it, and a barrier" in str(error.hint)
        assert line("copies in turn") in str(error.given)


@pytest.mark.parametrize("hasty", [0, 1])
def test_a_commit_for_the_next_phase_is_told_of_the_cta_that_makes_it(hasty: int) -> None:
    @T.prim_func
    def commits(out: T.Buffer((2,), "uint32")):
        cta, tid = T.cta_id([2]), T.thread_id([32])
        bar = T.alloc_shared((2,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.init(bar.ptr_to([1]), 1)
        T.cuda.cta_sync()
        if tid == 0:
            if cta == hasty:
                T.ptx.tcgen05.commit(bar.ptr_to([0]))
            T.ptx.tcgen05.commit(bar.ptr_to([0]))
            T.ptx.tcgen05.commit(bar.ptr_to([1]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)
        out[cta] = T.uint32(1)

    error = refusal(commits, np.zeros(2, np.uint32))

    assert error.what == "an arrival at bar[0] for its next phase, and nobody has seen the last one over"
    assert error.given == f"CTA ({hasty}, 0, 0), warp 0, lane 0"


@pytest.mark.parametrize(("shape", "num", "registers"), [("16x64b", 2, 2), ("16x128b", 2, 4), ("16x256b", 1, 4)])
def test_shapes_of_16_lanes_reach_both_halves_of_a_quarter(shape: str, num: int, registers: int) -> None:
    @T.prim_func
    def there_and_back(B: T.Buffer((8, 2, 32, registers), "uint32")):
        T.cta_id([1])
        warp_id, lane_id = T.warp_id([8]), T.lane_id([32])
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((registers,), "uint32")
        take(addr, warp_id)
        for half in range(2):
            for j in range(registers):
                words[j] = T.cast(warp_id * 1000 + half * 500 + lane_id * 4 + j, "uint32")
            place = addr[0] + T.cast(((warp_id % 4 * 32 + 16 * half) << 16) + warp_id // 4 * 16, "uint32")
            T.ptx.tcgen05.st(place, *[words[j] for j in range(registers)], shape=shape, num=num)
        T.ptx.tcgen05.wait.st()
        for half in range(2):
            place = addr[0] + T.cast(((warp_id % 4 * 32 + 16 * half) << 16) + warp_id // 4 * 16, "uint32")
            T.ptx.tcgen05.ld(place, *[words[j] for j in range(registers)], shape=shape, num=num)
            T.ptx.tcgen05.wait.ld()
            for j in range(registers):
                B[warp_id, half, lane_id, j] = words[j]
        give_back(addr, warp_id)

    b = np.zeros((8, 2, 32, registers), np.uint32)
    warp, half, lane, j = np.indices(b.shape)

    assert simulate(there_and_back, b) == []
    assert np.array_equal(b, warp * 1000 + half * 500 + lane * 4 + j)


def staged_by_all(*, meets: bool) -> Any:
    """128 threads stage a tile, four bytes each, and one of them copies it."""

    @T.prim_func
    def stage_and_copy(A: T.Buffer((32, 16), "uint8")):
        T.cta_id([1])
        warp_id, tid = T.warp_id([4]), T.thread_id([128])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp_id)
        for i in range(4):
            source[tid // 4, tid % 4 * 4 + i] = A[tid // 4, tid % 4 * 4 + i]  # stages for all
        T.ptx.fence.proxy_async("shared::cta")
        if meets:
            T.cuda.cta_sync()
        tmem = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        if tid == 0:
            Tx.copy_async(tmem[:, :], source[:, :])  # copies for all
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        give_back(addr, warp_id)

    return stage_and_copy


def test_what_four_warps_stage_is_copied_behind_a_barrier_of_all() -> None:
    assert simulate(staged_by_all(meets=True), TILE) == []


def test_without_it_the_barrier_that_is_told_is_wide_enough_for_all() -> None:
    error = refusal(staged_by_all(meets=False), TILE)

    first, then = (int(line(mark).split(":")[1]) for mark in ("stages for all", "copies for all"))
    assert error.what.startswith("race: tcgen05.cp reads source[")
    assert error.hint == f"T.cuda.cta_sync() between line {first} and line {then - 1}"  # before the `if`
