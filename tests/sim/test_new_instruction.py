"""An asynchronous instruction that is new to the simulator: its row has all facts for scheduler and checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.tmem_kernels import give_back, line, meet, refusal, simulate, take
from tests.toys import ptx
from tilewright import T
from tilewright.isa import INSTRUCTIONS, since
from tilewright.isa.forms import (
    NOTHING,
    Access,
    AsyncMeaning,
    Commit,
    Effect,
    Form,
    Issue,
    Meaning,
    Ptx,
    Signal,
    read_and_written,
    reads,
)
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier import arrived
from tilewright.isa.table import Instruction


def cells(unit: Unit, taddr: Lanes, value: Lanes) -> dict[str, Addresses]:
    """4 columns of 32 lanes."""
    columns = taddr.astype(np.int64)[:, None, None] + np.arange(4)
    lanes, columns = np.broadcast_arrays(np.arange(32)[:, None], columns)
    return {"taddr": Addresses(lanes, columns)}


def fill(value: Lanes) -> Lanes:
    """They get the value."""
    return np.broadcast_to(value[:, None, None], (len(value), 32, 4))


def row(name: str, operands: tuple[Any, ...], *effects: Effect, meaning: Meaning = NOTHING) -> Instruction:
    form = Form(Ptx(name), since("sm_100"), "a test", meaning, effects)
    return Instruction(f"ptx.{name}", tuple(one.name for one in operands), operands, (form,))


ROWS = (
    row(
        *("toy.fill", (reads("taddr", "tmem"), reads("value", "b32"))),
        Access("taddr", "tmem", 4, write=True, proxy="tmem", computed=True),
        Issue("toy"),
        meaning=AsyncMeaning(fill, addresses=cells, takes=("value",)),
    ),
    row(
        *("toy.commit", (reads("ptr", "shared"),)),
        *read_and_written("ptr", "shared", 8),
        Signal("ptr", "arrive", "release", "cluster", arrived),
        Commit("toy"),
    ),
)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in ROWS:
        monkeypatch.setitem(INSTRUCTIONS, one.name, one)


def filled(*left_out: str) -> Any:
    has = {step: step not in left_out for step in ("commit", "wait", "fence")}

    @T.prim_func
    def fill_and_read(B: T.Buffer((32, 4), "uint32")):
        T.cta_id([1])
        warp_id, lane_id, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        words = T.alloc_local((4,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
        take(addr, warp_id)
        if tid == 0:
            ptx.toy.fill(addr[0], T.uint32(7))  # the new fill
            if has["commit"]:
                ptx.toy.commit(done.ptr_to([0]))  # the new commit
        if has["wait"]:
            T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        if has["fence"]:
            T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id == 0:
            T.ptx.tcgen05.ld(addr[0], *[words[i] for i in range(4)], shape="32x32b", num=4)
            T.ptx.tcgen05.wait.ld()
            for i in range(4):
                B[lane_id, i] = words[i]
        meet()
        give_back(addr, warp_id)

    return fill_and_read


def test_what_a_new_instruction_computes_is_initialised_and_ordered() -> None:
    b = np.zeros((32, 4), np.uint32)

    assert simulate(filled(), b) == []
    assert (b == 7).all()


@pytest.mark.parametrize(
    ("left_out", "what", "hint"),
    [
        ("commit", "deadlock: no thread can go on", "ptx.toy.commit(...) after the toy.fill at {fill}"),
        ("wait", "tcgen05.ld touches tensor memory that toy.fill may still not have written", "the commit at {commit}"),
    ],
)
def test_what_is_missing_is_told_in_the_words_of_its_row(left_out: str, what: str, hint: str) -> None:
    error = refusal(filled(left_out), np.zeros((32, 4), np.uint32))

    assert error.what == what
    assert hint.format(fill=line("the new fill"), commit=line("the new commit")) in str(error.hint)


def test_a_fence_that_is_missing_behind_it_is_a_warning() -> None:
    (warning,) = simulate(filled("fence"), np.zeros((32, 4), np.uint32))

    assert "tcgen05.ld touches tensor memory that the toy.fill at" in warning
    assert "after_thread_sync()" in warning
