"""How many calls of Python functions a short run takes: that is what a simulated statement costs."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T

NBYTES = 4096
ROOM = "tilewright/sim/"
MOST, MOST_OF_ORDER = 2700, 320  # calls in all, and of the machine by the check of races: they only fall


def there_and_back() -> Any:
    @T.prim_func
    def kernel(a: T.Buffer((NBYTES,), "uint8"), b: T.Buffer((NBYTES,), "uint8")):
        T.cta_id([1])
        tid = T.thread_id([32])
        tile = T.alloc_shared((NBYTES,), "uint8", align=128)
        bar = T.alloc_shared((1,), "uint64")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.fence.proxy_async("shared::cta")
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), NBYTES)
            T.ptx.cp_async.bulk.g2s_cta(tile.ptr_to([0]), a.ptr_to([0]), NBYTES, bar.ptr_to([0]))
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if tid == 0:
            T.ptx.cp_async.bulk.s2g(b.ptr_to([0]), tile.ptr_to([0]), NBYTES)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    return kernel


def room_of(frame: FrameType | None) -> str:
    """The room of the simulator that a function is in; "" for none."""
    name = frame.f_code.co_filename if frame is not None else ""
    return name.partition(ROOM)[2].partition("/")[0]


@pytest.fixture
def calls() -> Counter[tuple[str, str]]:
    """The calls of a second run, by the rooms of both sides."""
    a = np.arange(NBYTES).astype(np.uint8)
    b = np.zeros_like(a)
    exe = tw.compile(there_and_back(), target="sm_90a")
    exe.simulate(a, b, check="all")
    total: Counter[tuple[str, str]] = Counter()

    def count(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and not frame.f_code.co_name.startswith("<") and (room := room_of(frame)):
            total[room_of(frame.f_back), room] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    exe.simulate(a, b, check="all")
    sys.setprofile(before)
    np.testing.assert_array_equal(a, b)
    return total


def test_a_copy_there_and_back_takes_few_calls(calls: Counter[tuple[str, str]]) -> None:
    assert 0 < calls.total() <= MOST


def test_the_check_of_races_asks_the_machine_little(calls: Counter[tuple[str, str]]) -> None:
    assert 0 < calls["order", "machine"] <= MOST_OF_ORDER
