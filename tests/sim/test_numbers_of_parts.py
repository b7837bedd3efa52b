"""Numbers of operations are few and used again: what was published of one says nothing of a later one."""

# ruff: noqa: C901  # kernels with a branch for each way, which Python takes while it parses
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.running import simulate
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.sim.order.asynchronous import scoreboard
from tilewright.sim.order.knowledge import clocks

NUMBERS = 8
AGAIN = 7  # copies later, with one number that is none


@pytest.fixture(autouse=True)
def _few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "NUMBERS", NUMBERS)
    monkeypatch.setattr(scoreboard, "GLOBAL_OPERATIONS", 1)


def told(how: str, copies: int, *, late: bool = False) -> Any:
    """A thread copies again and again to one place, and waits for all copies but the last. It publishes the first one,
    or all of them where it is late; another thread hears of that before it reads.
    """

    @T.prim_func
    def k(a: T.Buffer((4,), "float32"), f: T.Buffer((2,), "int32"), b: T.Buffer((1,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((4,), "float32", align=16)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.cuda.cta_sync()
        if tid == 0:
            for i in range(copies):
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 16)
                T.ptx.cp_async.bulk.g2s_cta(s.ptr_to([0]), a.ptr_to([0]), 16, bar.ptr_to([0]))
                if i < copies - 1 or late:
                    T.ptx.mbarrier.try_wait(bar.ptr_to([0]), i % 2)
                if i == (copies - 1 if late else 0):
                    if how == "release":
                        T.ptx.st(f.ptr_to([0]), 1, sem="release", scope="gpu")
                    else:
                        T.ptx.fence(sem="acq_rel", scope="gpu")
            if how == "fence":
                T.ptx.st(f.ptr_to([0]), 1, sem="relaxed", scope="gpu")
            T.ptx.st(f.ptr_to([1]), 1, sem="relaxed", scope="gpu")
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), (copies - 1) % 2)
        if tid == 32:
            while T.ptx.ld(f.ptr_to([1]), sem="relaxed", scope="gpu") == 0:
                pass
            if T.ptx.ld(f.ptr_to([0]), sem="acquire", scope="gpu") == 1:
                b[0] = s[0]
        T.cuda.cta_sync()

    return k


def arguments() -> list[Any]:
    return [np.arange(4, dtype=np.float32), np.zeros(2, np.int32), np.zeros(1, np.float32)]


@pytest.mark.parametrize("how", ["release", "fence"])
@pytest.mark.parametrize("copies", [NUMBERS - 1, AGAIN + 1])
def test_a_release_says_nothing_of_an_operation_that_takes_a_number_later(how: str, copies: int) -> None:
    with pytest.raises(SimulationError, match=r"load reads shared memory that cp_async\.bulk\.g2s_cta may still be"):
        simulate(told(how, copies), *arguments())


@pytest.mark.parametrize("how", ["release", "fence"])
def test_a_release_after_an_operation_tells_of_it_though_its_number_was_another_ones(how: str) -> None:
    assert simulate(told(how, AGAIN + 1, late=True), *arguments()) == []


def grown(chained: int) -> Any:
    """Fences before many operations are under way, and relaxed arrivals after that. chained: releases after each."""

    @T.prim_func
    def k(a: T.Buffer((64,), "float32"), c: T.Buffer((1,), "int32"), b: T.Buffer((64,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([64])
        s = T.alloc_shared((64,), "float32", align=16)
        bars = T.alloc_shared((2,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bars.ptr_to([0]), 1)
            T.ptx.mbarrier.init(bars.ptr_to([1]), 64)
        T.cuda.cta_sync()
        T.ptx.fence(sem="acq_rel", scope="cta")
        if tid == 0:
            T.ptx.mbarrier.arrive.expect_tx(bars.ptr_to([0]), 256)
            for i in range(16):
                for _ in range(chained):
                    T.ptx.red.add(c.ptr_to([0]), 1, sem="release", scope="gpu")
                T.ptx.cp_async.bulk.g2s_cta(s.ptr_to([4 * i]), a.ptr_to([4 * i]), 16, bars.ptr_to([0]))
        T.ptx.mbarrier.arrive(bars.ptr_to([1]), sem="relaxed", scope="cta")
        T.ptx.mbarrier.try_wait(bars.ptr_to([1]), 0)
        T.ptx.mbarrier.try_wait(bars.ptr_to([0]), 0)
        b[tid] = s[tid]

    return k


@pytest.mark.parametrize("chained", [0, 4])
def test_knowledge_of_before_there_were_many_operations_is_handed_on_after_that(chained: int) -> None:
    b = np.zeros(64, np.float32)

    assert simulate(grown(chained), np.arange(64, dtype=np.float32), np.zeros(1, np.int32), b) == []
    assert (b == np.arange(64)).all()
