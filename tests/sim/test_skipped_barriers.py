"""Barriers that some threads do not come to: who returned before is not waited for, who goes on has skipped one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import T
from tilewright.errors import SimulationError


@T.prim_func
def lanes_return(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    if t % 32 >= 20:
        o[t] = 2
        return
    T.cuda.cta_sync()
    o[t] = 1


@T.prim_func
def lanes_return_turn_by_turn(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    for i in range(70):
        if i > t:
            return
        T.cuda.cta_sync()
        o[t] = i
    o[t] = 70


@T.prim_func
def warps_return_turn_by_turn(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    own = T.alloc_local((1,), "int32")
    own[0] = 0
    for i in range(5):
        if own[0] == 3:
            T.cuda.cta_sync()
        o[t] = i
        if i > t // 32:
            return
        own[0] = i
        T.cuda.cta_sync()
    o[t] = 70


@T.prim_func
def warp_skips(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    if t < 32:
        T.cuda.cta_sync()
    o[t] = 1


@T.prim_func
def lanes_skip(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    if t % 32 < 20:
        T.cuda.cta_sync()
    o[t] = 1


@T.prim_func
def warp_takes_fewer_turns(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    for _ in range(t // 32 + 1):
        T.cuda.cta_sync()
    o[t] = 1


@T.prim_func
def warp_meets_the_next_one(o: T.Buffer((64,), "int32")):
    T.cta_id([1])
    t = T.thread_id([64])
    if t >= 32:
        T.cuda.cta_sync()
    T.cuda.cta_sync()
    o[t] = 1


@pytest.mark.parametrize("kernel", [lanes_return, lanes_return_turn_by_turn, warps_return_turn_by_turn])
def test_a_barrier_does_not_wait_for_threads_that_have_returned(kernel: Any) -> None:
    assert tw.simulate(kernel, np.zeros(64, np.int32), check="all").warnings == []


@pytest.mark.parametrize(
    ("kernel", "who"),
    [
        (warp_skips, "warp 1"),
        (lanes_skip, r"lanes 20\.\.31"),
        (warp_takes_fewer_turns, "warp 0"),
        (warp_meets_the_next_one, "warp 0"),
    ],
)
def test_threads_that_skip_a_barrier_and_go_on_are_told(kernel: Any, who: str) -> None:
    with pytest.raises(SimulationError, match=rf"divergence: cuda.cta_sync without {who}"):
        tw.simulate(kernel, np.zeros(64, np.int32), check="all")
