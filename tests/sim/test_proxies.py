"""Threads and asynchronous units that touch one place of shared memory, and the fence that belongs between the two.

The toy overwrites the first bytes of shared memory besides its cells, as the copies of TMA do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.sim.test_new_instruction import ROWS, cells, fill
from tests.sim.tmem_kernels import give_back, meet, simulate, take
from tests.toys import ptx
from tilewright import T
from tilewright.isa import INSTRUCTIONS
from tilewright.isa.forms import Access, reads
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.table import Instruction


def places(unit: Unit, taddr: Lanes, value: Lanes, word: Lanes) -> dict[str, Addresses]:
    """The cells, and a word of shared memory."""
    return cells(unit, taddr, value) | {"word": Addresses(word.astype(np.int64)[:, None])}


def overwriting(row: Instruction) -> Instruction:
    """The fill, which also writes its value to shared memory."""
    (form,) = row.forms
    shared = Access("word", "shared", 4, write=True, proxy="async", computed=True)

    def execute(value: Lanes) -> tuple[Lanes, Lanes]:
        return fill(value), value.astype(np.uint32).reshape(-1, 1, 1).view(np.uint8)

    effects = (form.effects[0], shared, *form.effects[1:])
    operands = (*row.operands, reads("word", "b32"))
    return replace(
        row,
        params=(*row.params, "word"),
        pattern=f"{row.pattern}, {{word}}",
        operands=operands,
        forms=(replace(form, effects=effects, meaning=replace(form.async_meaning, addresses=places, execute=execute)),),
    )


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (overwriting(ROWS[0]), ROWS[1]):
        monkeypatch.setitem(INSTRUCTIONS, one.name, one)


def overwritten(*steps: str) -> Any:
    """One warp takes the steps before the barrier, another issues an operation that overwrites the place after it."""

    @T.prim_func
    def kernel(B: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        warp_id, lane_id, tid = T.warp_id([4]), T.lane_id([32]), T.thread_id([128])
        s = T.alloc_shared([32], "uint32")
        addr = T.alloc_shared([1], "uint32")
        done = T.alloc_shared([1], "uint64")
        x: T.uint32 = 0
        if tid == 0:
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        if warp_id == 1:
            s[lane_id] = 0
        T.ptx.fence.proxy_async()
        take(addr, warp_id)
        if warp_id == 1:
            for step in steps:
                if step == "load":
                    x = s[lane_id]
                elif step == "store":
                    s[lane_id] = 1
                else:
                    T.ptx.fence.proxy_async(step)
            B[lane_id] = x
        T.cuda.cta_sync()
        if tid == 0:
            ptx.toy.fill(addr[0], T.uint32(7), T.uint32(0))
            ptx.toy.commit(done.ptr_to([0]))
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        meet()
        give_back(addr, warp_id)

    return kernel


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (
            ("load",),
            "overwrites s, loaded by warp 1 without a proxy fence; T.ptx.fence.proxy_async() belongs between line ",
        ),
        (("shared::cta", "load"), "overwrites s, loaded by warp 1"),
        (("load", "global"), "overwrites s, loaded by warp 1"),
        (("store",), "overwrites s, stored by warp 1"),
        (("load", "shared::cta"), ""),
        (("store", "load", "shared::cta"), ""),
        ((), ""),
    ],
)
def test_before_a_unit_overwrites_what_threads_touched_there_is_a_proxy_fence(
    steps: tuple[str, ...], said: str
) -> None:
    heard = simulate(overwritten(*steps), np.zeros(32, np.uint32))

    assert len(heard) == bool(said)
    assert said in "".join(heard)
