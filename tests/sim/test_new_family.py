"""A family of asynchronous instructions that is new to the project: its rows have all the facts about it.

``toy.send`` of a warpgroup adds its accumulators to a tile of its own shared memory, which it reads through the async
proxy, and stores the sums to the shared memory of another CTA, where an m-barrier counts the bytes. The accumulators
take the sums over, in flight until ``toy.wait``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.toys import ptx
from tilewright import T
from tilewright.errors import SimulationError
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
    Operand,
    Ptx,
    Signal,
    Wait,
    counts,
    reads,
    updates,
)
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier import completed
from tilewright.isa.table import WARPGROUP, Instruction

TILE = 128 * 4  # bytes: a word for each thread of a warpgroup


def tiles(unit: Unit, src: Lanes, dst: Lanes, bar: Lanes, rank: Lanes) -> Mapping[str, Addresses]:
    """Lane 0 of each warpgroup says where; dst and bar are the same places in the CTA of a rank."""
    peer = rank[:, 0].astype(np.int64)
    if (wrong := peer >= unit.cluster_ctas).any():
        unit.fault(f"rank is 0..{unit.cluster_ctas - 1}", wrong)
    words = 4 * np.arange(128)
    return {
        "src": Addresses(src[:, :1] + words),
        "dst": Addresses(dst[:, :1] + words, rank=peer),
        "bar": Addresses(bar[:, 0], rank=peer),
    }


def add(tile: Lanes, acc: Lanes) -> tuple[Lanes, Lanes]:
    """The sums for the other CTA, as bytes, and for the accumulators."""
    total = tile.view(np.uint32)[..., 0] + acc[:, 0]
    return total[..., None].view(np.uint8), total[:, None]


def row(
    name: str, operands: tuple[Operand, ...], lanes: str, *effects: Effect, meaning: Meaning = NOTHING
) -> Instruction:
    form = Form(Ptx(name), since("sm_90"), "a test", meaning, effects)
    params = tuple(f"{'*' * one.many}{one.name}" for one in operands)
    return Instruction(f"ptx.{name}", params, operands, (form,), lanes=lanes)


SHARED = (
    reads("src", "shared"),
    reads("dst", "shared"),
    reads("bar", "shared"),
    counts("rank"),
    updates("*acc", "b32"),
)
ROWS = (
    row(
        "toy.send",
        SHARED,
        WARPGROUP,
        Access("src", "shared", 4, write=False, proxy="async", computed=True),
        Access("dst", "shared", 4, write=True, proxy="async", computed=True),
        Signal("bar", "bytes", "release", "cluster", completed, amount=TILE),
        Issue("toy", in_order_after=("ptx.toy.send",)),
        meaning=AsyncMeaning(add, addresses=tiles),
    ),
    row("toy.commit", (), "any", Commit("toy")),
    row("toy.wait", (reads("n", "imm"),), "any", Wait("toy", "n")),
)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in ROWS:
        monkeypatch.setitem(INSTRUCTIONS, one.name, one)


def exchanged(*left_out: str, apart: bool = False) -> Any:
    steps = ("expect", "fence", "commit", "wait", "bytes", "all")
    has = {step: step not in left_out for step in steps}

    @T.prim_func
    def exchange(a: T.Buffer((2, 128), "uint32"), b: T.Buffer((2, 128), "uint32"), c: T.Buffer((2, 128), "uint32")):
        T.cta_id_in_cluster([2])
        cta = T.cta_id([2])
        tid = T.thread_id([128])
        mine = T.alloc_shared((128,), "uint32")
        theirs = T.alloc_shared((128,), "uint32")
        bar = T.alloc_shared((1,), "uint64")
        acc = T.alloc_local((1,), "uint32")
        if tid == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            if has["expect"]:
                T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 512)
        acc[0] = T.uint32(1000)
        mine[tid] = a[cta, tid]
        if has["fence"]:
            T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cluster_sync()
        if apart and tid < 64:
            T.ptx.bar.sync(1, 64)
        if has["all"] or tid < 96:
            ptx.toy.send(mine.ptr_to([0]), theirs.ptr_to([0]), bar.ptr_to([0]), 1 - cta, acc[0])  # the send
        if has["commit"]:
            ptx.toy.commit()
        if has["wait"]:
            ptx.toy.wait(0)
        b[cta, tid] = acc[0]
        if has["bytes"]:
            T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        c[cta, tid] = theirs[127 - tid]
        T.cuda.cluster_sync()

    return exchange


def run(kernel: Any) -> tuple[list[str], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    a = np.arange(256, dtype=np.uint32).reshape(2, 128)
    b, c = np.zeros_like(a), np.zeros_like(a)
    return tw.simulate(kernel, a, b, c, check="all").warnings, a, b, c


@pytest.mark.parametrize("apart", [False, True])
def test_a_new_family_computes_and_is_right_though_its_warps_come_apart(apart: bool) -> None:
    warnings, a, b, c = run(exchanged(apart=apart))

    assert warnings == []
    assert np.array_equal(b, a + 1000)
    assert np.array_equal(c, (a + 1000)[::-1, ::-1])


@pytest.mark.parametrize(
    ("left_out", "what", "hint"),
    [
        ("wait", "acc is used while toy.send may not have filled it", "ptx.toy.wait(0)"),
        ("commit", "acc is used while toy.send may not have filled it", "ptx.toy.wait(0)"),
        ("bytes", "load reads shared memory that toy.send may still be writing", "the m-barrier"),
        ("expect", "deadlock: no thread can go on", ""),
        ("all", "a warpgroup takes part without all of its four warps", ""),
    ],
)
def test_a_step_that_is_missing_is_named_in_the_words_of_its_rows(left_out: str, what: str, hint: str) -> None:
    with pytest.raises(SimulationError) as error:
        run(exchanged(left_out))

    assert error.value.what.startswith(what)
    assert hint in str(error.value.hint)


def test_a_tile_that_was_stored_needs_a_proxy_fence() -> None:
    with pytest.raises(SimulationError, match=r"toy\.send reads mine, stored by warp 0 without a proxy fence"):
        run(exchanged("fence"))
