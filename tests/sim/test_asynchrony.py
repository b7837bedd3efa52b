"""Asynchronous operations on tensor memory: the steps between them and threads that rely on them.

One kernel, with a step left out at a time: the message says which step is missing, and between which lines.
"""

# ruff: noqa: F841  the names of a kernel are read by its parser

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import IN_EVERY_QUARTER, TILE, give_back, line, meet, refusal, simulate, take
from tilewright import T, Tx

STEPS = {
    "proxy fence",
    "commit",
    "wait",
    "fence after the wait",
    "wait for the load",
    "barrier before dealloc",
    "dealloc",
    "use",
}


def copied(*left_out: str, store: str = "", ctas: int = 1) -> Any:  # noqa: C901  branches of Python, decided while it is parsed
    """A tile goes to tensor memory, and each warp reads it back; without some of the steps that this takes.

    store: where the thread that issues the copy, or another, overwrites what it copies from.
    """
    assert STEPS.issuperset(left_out)
    has = {step: step not in left_out for step in STEPS}

    @T.prim_func
    def copy_and_read(A: T.Buffer((32, 16), "uint8"), B: T.Buffer((ctas, 4, 32, 4), "uint32")):  # noqa: C901  branches of Python, decided while it is parsed
        cta_id = T.cta_id([ctas])
        warp_id, lane_id, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        words = T.alloc_local((4,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        Tx.cta.copy(source[:, :], A[:, :])
        if has["proxy fence"]:
            T.ptx.fence.proxy_async("shared::cta")
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)  # the alloc
        meet()
        tmem = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        if tid == 0:
            Tx.copy_async(tmem[:, :], source[:, :], cta_group=1)  # the copy
            if has["commit"]:
                T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)  # the commit
            if store == "before the wait":
                source[3, 3] = T.uint8(1)  # the store
        if store == "by another thread" and tid == 77:
            source[3, 3] = T.uint8(1)  # the other store
        if has["wait"]:
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)  # the wait
        if has["fence after the wait"]:
            T.ptx.tcgen05.fence.after_thread_sync()
        if store == "after the wait" and tid == 0:
            source[3, 3] = T.uint8(1)
        T.ptx.tcgen05.ld(addr[0], *[words[i] for i in range(4)], shape="32x32b", num=4, row=warp_id * 32)  # the load
        if has["wait for the load"]:
            T.ptx.tcgen05.wait.ld()
        if has["use"]:
            for i in range(4):
                B[cta_id, warp_id, lane_id, i] = words[i]  # the use
        if has["barrier before dealloc"]:
            meet()
        if has["dealloc"] and warp_id == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)  # the dealloc

    return copy_and_read


def arrays(ctas: int = 1) -> tuple[np.ndarray, np.ndarray]:
    return TILE, np.zeros((ctas, 4, 32, 4), np.uint32)


WORDS = TILE.view(np.uint32)


@pytest.mark.parametrize("ctas", [1, 3, 100])
def test_with_every_step_the_bytes_are_right_and_no_check_has_a_word_to_say(ctas: int) -> None:
    a, b = arrays(ctas)

    assert simulate(copied(ctas=ctas), a, b) == []
    assert (b == WORDS).all()


# Commit, wait, fence


def test_without_the_commit_the_wait_never_ends() -> None:
    error = refusal(copied("commit"), *arrays())

    assert error.what == "deadlock: no thread can go on"
    assert line("the wait") in str(error.given)
    assert "1 of 1 arrivals are missing; the running phase has parity 0" in str(error.allowed)
    assert error.hint == f"T.ptx.tcgen05.commit(...) after the tcgen05.cp at {line('the copy')}"


@pytest.mark.parametrize(
    ("left_out", "hint"),
    [
        (("wait",), "a wait for the phase (parity 0) of the m-barrier that the commit at {commit} reports to, between"),
        (
            ("commit", "wait"),
            "T.ptx.tcgen05.commit(...) after the tcgen05.cp at {copy}, and a wait for the m-barrier's",
        ),
    ],
)
def test_a_load_comes_after_the_copy_by_commit_and_wait(left_out: tuple[str, ...], hint: str) -> None:
    error = refusal(copied(*left_out), *arrays())

    assert error.what == "tcgen05.ld touches tensor memory that tcgen05.cp may still not have written"
    assert "lanes 0..31, columns 0..3" in str(error.given)
    assert f"{line('the load')}: CTA (0, 0, 0), warp 0" in str(error.given)
    assert f"written at {line('the copy')}: CTA (0, 0, 0), warp 0, lane 0" in str(error.given)
    assert hint.format(commit=line("the commit"), copy=line("the copy")) in str(error.hint)
    assert str(error.hint).endswith(between("the copy", "the load"))


def test_a_load_behind_the_wait_without_a_fence_is_a_warning() -> None:
    a, b = arrays()

    (warning,) = simulate(copied("fence after the wait"), a, b)

    assert warning.startswith(f"{line('the load')}: tcgen05.ld touches tensor memory that the tcgen05.cp at")
    hint = f"T.ptx.tcgen05.fence.after_thread_sync() after the wait or the barrier, {between('the copy', 'the load')}"
    assert warning.endswith(hint)
    assert (b == WORDS).all()


def between(first: str, then: str) -> str:
    """``between line 3 and line 4``."""
    return f"between line {number(first)} and line {number(then)}"


def number(mark: str) -> str:
    return line(mark).split(":")[1]


def test_without_checks_a_load_before_completion_finds_what_was_there_before() -> None:
    a, b = arrays()

    simulate(copied("wait"), a, b, check="none")

    assert (b == 0).all()


def told(how: str) -> Any:  # noqa: C901  branches of Python, decided while it is parsed
    """A tile goes to tensor memory, with different threads that commit and that wait."""

    @T.prim_func
    def tell(A: T.Buffer((32, 16), "uint8"), B: T.Buffer((4, 32, 4), "uint32")):  # noqa: C901  branches of Python, decided while it is parsed
        T.cta_id([1])
        warp_id, lane_id, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([2], "uint64")
        words = T.alloc_local((4,), "uint32")
        Tx.cta.copy(source[:, :], A[:, :])
        T.ptx.fence.proxy_async("shared::cta")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.mbarrier.init(done.ptr_to([1]), 1)
        if how != "without the fence after init":
            T.ptx.fence.mbarrier_init()
        take(addr, warp_id)
        tmem = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        if tid == 0:
            if how == "commit before the copy":
                T.ptx.tcgen05.commit(done.ptr_to([0]))
            Tx.copy_async(tmem[:, :], source[:, :], cta_group=1)  # copies
            if how not in ("commit before the copy", "commit of another thread"):
                T.ptx.tcgen05.commit(done.ptr_to([0]))  # commits
            if how == "two commits":
                T.ptx.tcgen05.commit(done.ptr_to([1]))
        if how == "commit of another thread" and tid == 33:
            T.ptx.tcgen05.commit(done.ptr_to([0]))
        if how == "two commits" and warp_id > 1:
            T.ptx.mbarrier.try_wait(done.ptr_to([1]), 0)
        elif how == "one lane waits":
            if lane_id == 5:
                T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
            T.cuda.warp_sync()
        elif how == "so many questions":
            for _ in T.serial(100):
                if T.ptx.mbarrier.test_wait.parity(done.ptr_to([0]), 0):
                    break
        elif how == "the other parity":
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), 1)
        elif how == "another m-barrier":
            T.ptx.mbarrier.try_wait(done.ptr_to([1]), 0)  # in vain
        else:
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        T.ptx.tcgen05.ld(addr[0], *[words[i] for i in range(4)], shape="32x32b", num=4, row=warp_id * 32)  # loads
        T.ptx.tcgen05.wait.ld()
        for i in range(4):
            B[warp_id, lane_id, i] = words[i]
        give_back(addr, warp_id)

    return tell


@pytest.mark.parametrize("how", ["one commit", "two commits", "one lane waits", "so many questions"])
def test_a_commit_tells_whoever_asks(how: str) -> None:
    a, b = arrays()

    assert simulate(told(how), a, b[0]) == []
    assert (b == WORDS).all()


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ("commit before the copy", "T.ptx.tcgen05.commit(...) after the tcgen05.cp at {copies}"),
        ("commit of another thread", "commit(...), by the thread that issued it, after the tcgen05.cp at {copies}"),
        ("the other parity", "a wait for the phase (parity 0) of the m-barrier that the commit at {commits} reports"),
    ],
)
def test_a_commit_tells_of_what_its_own_thread_has_issued_before(how: str, hint: str) -> None:
    error = refusal(told(how), TILE, arrays()[1][0])

    assert error.what == "tcgen05.ld touches tensor memory that tcgen05.cp may still not have written"
    assert str(error.at) == line("loads")
    assert hint.format(copies=line("copies"), commits=line("commits")) in str(error.hint)


def test_who_asks_another_m_barrier_waits_in_vain() -> None:
    error = refusal(told("another m-barrier"), TILE, arrays()[1][0])

    assert error.what == "deadlock: no thread can go on"
    assert str(error.at) == line("in vain")
    assert str(error.allowed).startswith("the end of a phase of the m-barrier done[1] of CTA (0, 0, 0): 1 of 1 ")


def test_units_of_the_own_cta_see_an_m_barrier_that_a_barrier_has_shown() -> None:
    a, b = arrays()

    assert simulate(told("without the fence after init"), a, b[0]) == []
    assert (b == WORDS).all()


# Registers that a load has not filled yet


def test_registers_are_used_after_the_wait_for_the_load() -> None:
    error = refusal(copied("wait for the load"), *arrays())

    assert error.what == "words is used while tcgen05.ld may not have filled it"
    assert f"{line('the use')}: CTA (0, 0, 0), warp 0" in str(error.given)
    assert f"loaded at {line('the load')}" in str(error.given)
    assert f"stored at {line('the use')}" in str(error.given)
    assert error.hint == f"T.ptx.tcgen05.wait.ld() {between('the load', 'the use')}"


def loads_into(what: str) -> Any:
    """A warp stores, and loads again; while that is under way it uses some registers."""

    @T.prim_func
    def load_and_use(B: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        lane_id, warp_id = T.lane_id([32]), T.warp_id([1])
        addr = T.alloc_shared([1], "uint32")
        words, others = T.alloc_local((4,), "uint32"), T.alloc_local((1,), "uint32")
        for i in range(4):
            words[i] = T.cast(lane_id * 4 + i, "uint32")
        T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
        T.cuda.warp_sync()
        T.ptx.tcgen05.st(addr[0], words[0], words[1], shape="32x32b", num=2)
        T.ptx.tcgen05.wait.st()
        T.ptx.tcgen05.ld(addr[0], words[2], words[3], shape="32x32b", num=2)  # in flight
        if what == "reads them":
            others[0] = words[3] + T.uint32(1)  # reads them
        elif what == "writes them":
            words[2] = T.uint32(7)  # writes them
        elif what == "stores them":
            T.ptx.tcgen05.st(addr[0], words[3], shape="32x32b", num=1, col=8)  # stores them
        elif what == "stores what it has read":
            others[0] = words[3] + T.uint32(1)  # stores what it has read
            B[lane_id] = others[0]
        elif what == "brings back what it has read":
            others[0] = words[3] + T.uint32(1)  # brings back what it has read
            T.ptx.tcgen05.st(addr[0], others[0], shape="32x32b", num=1, col=8)
        elif what == "loads into them again":
            T.ptx.tcgen05.ld(addr[0], words[3], shape="32x32b", num=1)  # loads into them again
        else:
            others[0] = words[1] + T.uint32(1)
            words[0] = T.uint32(7)
        T.ptx.tcgen05.wait.ld()
        T.ptx.tcgen05.wait.st()
        B[lane_id] = others[0] if what == "reads them" else words[3]
        T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

    return load_and_use


def test_registers_that_are_read_above_the_wait_as_compilers_move_them_are_a_warning() -> None:
    b = np.zeros(32, np.uint32)

    (warning,) = simulate(loads_into("reads them"), b)

    assert warning == (
        f"{line('reads them')}: words is used before T.ptx.tcgen05.wait.ld(), which belongs between the tcgen05.ld at "
        f"{line('in flight')} and here"
    )
    assert b.tolist() == [4 * lane + 2 for lane in range(32)]


@pytest.mark.parametrize(
    "what",
    ["writes them", "stores them", "loads into them again", "stores what it has read", "brings back what it has read"],
)
def test_registers_in_flight_are_not_written_nor_does_what_they_hold_reach_memory(what: str) -> None:
    error = refusal(loads_into(what), np.zeros(32, np.uint32))

    assert error.what == "words is used while tcgen05.ld may not have filled it"
    assert line(what) in str(error.given)
    assert f"loaded at {line('in flight')}" in str(error.given)
    assert "T.ptx.tcgen05.wait.ld()" in str(error.hint)


def test_other_registers_of_the_same_array_may_be_used_meanwhile() -> None:
    b = np.zeros(32, np.uint32)

    assert simulate(loads_into("uses others"), b) == []
    assert b.tolist() == [4 * lane + 1 for lane in range(32)]


# Registers that differ from warp to warp


def loads_by_warps(used: int) -> Any:
    """Two warps load, each into two words of its own; warp 1 writes one of them all while that is under way."""

    @T.prim_func
    def load_into_own(B: T.Buffer((64,), "uint32")):
        T.cta_id([1])
        warp_id, tid = T.warp_id([2]), T.thread_id([64])
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((4,), "uint32")
        for i in range(4):
            words[i] = T.cast(tid, "uint32")
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
        T.cuda.cta_sync()
        first = 2 * warp_id
        T.ptx.tcgen05.st(addr[0], words[0], words[1], shape="32x32b", num=2, row=warp_id * 32)
        T.ptx.tcgen05.wait.st()
        T.ptx.tcgen05.ld(addr[0], words[first], words[first + 1], shape="32x32b", num=2, row=warp_id * 32)  # into own
        if warp_id == 1:
            words[used] = T.uint32(7)  # one of them
        T.ptx.tcgen05.wait.ld()
        B[tid] = words[first]
        T.cuda.cta_sync()
        if warp_id == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=32, cta_group=1)

    return load_into_own


@pytest.mark.parametrize("used", [2, 3])
def test_the_registers_of_each_warp_are_in_flight_where_their_numbers_differ(used: int) -> None:
    error = refusal(loads_by_warps(used), np.zeros(64, np.uint32))

    assert error.what == "words is used while tcgen05.ld may not have filled it"
    assert f"{line('one of them')}: CTA (0, 0, 0), warp 1" in str(error.given)


# Sources that a copy still reads


@pytest.mark.parametrize(
    ("store", "mark", "warp"), [("before the wait", "the store", 0), ("by another thread", "the other store", 2)]
)
def test_the_source_is_not_overwritten_before_the_copy_is_complete(store: str, mark: str, warp: int) -> None:
    error = refusal(copied(store=store), *arrays())

    assert error.what == "store overwrites shared memory that tcgen05.cp may still be reading"
    assert f"{line(mark)}: CTA (0, 0, 0), warp {warp}" in str(error.given)
    assert f"read at {line('the copy')}" in str(error.given)
    assert "a wait for the phase (parity 0) of the m-barrier that the commit" in str(error.hint)
    assert f"that the commit at {line('the commit')} reports to" in str(error.hint)


def test_after_the_wait_it_may_be() -> None:
    a, b = arrays()

    assert simulate(copied(store="after the wait"), a, b) == []
    assert (b == WORDS).all()


def test_without_checks_a_copy_reads_its_source_at_completion() -> None:
    a, b = arrays()
    changed = a.copy()
    changed[3, 3] = 1

    simulate(copied(store="before the wait"), a, b, check="none")

    assert (b == changed.view(np.uint32)).all()


def test_a_source_without_a_proxy_fence_is_a_warning_that_says_where_it_belongs() -> None:
    a, b = arrays()

    (warning,) = simulate(copied("proxy fence"), a, b)

    assert warning.startswith(f"{line('the copy')}: tcgen05.cp reads source, stored by warp 0 without a proxy fence")
    assert "T.ptx.fence.proxy_async() belongs between line " in warning
    assert (b == WORDS).all()


# The end


def test_columns_are_given_back_after_everyone_has_met() -> None:
    error = refusal(copied("barrier before dealloc"), *arrays())

    assert error.what == "tensor memory is given back that tcgen05.ld may still not have read"
    assert f"{line('the dealloc')}: CTA (0, 0, 0), warp 0" in str(error.given)
    assert f"read at {line('the load')}: CTA (0, 0, 0), warp 1" in str(error.given)
    wait = "T.ptx.tcgen05.wait.ld() by the warp that issued it"
    assert error.hint == f"a barrier after {wait}, {between('the load', 'the dealloc')}"


def test_columns_that_nobody_gives_back_are_a_leak() -> None:
    error = refusal(copied("dealloc"), *arrays())

    assert error.what == "the CTA ends with tensor memory that it has not given back"
    assert error.given == "32 columns from column 0, CTA (0, 0, 0)"
    assert error.allowed == "a dealloc for every alloc"
    assert str(error.at) == line("the alloc")


def ends_with(what: str) -> Any:
    """A CTA that issues an operation and ends, on columns that another name keeps."""

    @T.prim_func
    def end_early(A: T.Buffer((32, 16), "uint8")):
        T.cta_id([1])
        warp_id, tid = T.warp_id([4]), T.thread_id([128])
        source = T.alloc_buffer((32, 16), "uint8", scope="shared", align=128)
        addr = T.alloc_shared([1], "uint32")
        words = T.alloc_local((1,), "uint32")
        words[0] = T.uint32(1)
        Tx.cta.copy(source[:, :], A[:, :])
        T.ptx.fence.proxy_async("shared::cta")
        if warp_id == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr), n_cols=32, cta_group=1)
        meet()
        tmem = T.decl_buffer((32, 16), "uint8", scope="tmem", allocated_addr=addr[0], layout=IN_EVERY_QUARTER)
        if what == "copy":
            if tid == 0:
                Tx.copy_async(tmem[:, :], source[:, :], cta_group=1)  # copy at the end
        elif what == "store":
            T.ptx.tcgen05.st(addr[0], words[0], shape="32x32b", num=1, row=warp_id * 32)  # store at the end

    return end_early


@pytest.mark.parametrize("what", ["copy", "store"])
def test_a_cta_does_not_end_while_an_operation_is_under_way(what: str) -> None:
    error = refusal(ends_with(what), TILE)

    assert error.what == f"the CTA ends while tcgen05.{ {'copy': 'cp', 'store': 'st'}[what] } is under way"
    assert "issued by CTA (0, 0, 0), warp 0" in str(error.given)
    assert str(error.at) == line(f"{what} at the end")
