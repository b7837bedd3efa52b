"""A made-up fetch of a warp: 16 bytes of global memory say where the 128 bytes are, and an m-barrier counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.toys import ptx
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.isa import INSTRUCTIONS, since
from tilewright.isa.forms import Access, AsyncMeaning, Consults, Form, Issue, Ptx, Signal, reads
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.mbarrier import completed
from tilewright.isa.table import WHOLE_WARP, Instruction

WORDS = 4 * np.arange(32)


def places(unit: Unit, dst: Lanes, where: Lanes, bar: Lanes) -> Mapping[str, Addresses]:
    first = np.ascontiguousarray(unit.read(where[:, 0], 16)).view(np.int64)[:, :1]
    return {"dst": Addresses(dst[:, :1] + WORDS), "src": Addresses(first + WORDS), "bar": Addresses(bar[:, 0])}


FETCH = Instruction(
    "ptx.toy.fetch",
    operands=(reads("dst", "shared"), reads("where", "global"), reads("bar", "shared")),
    lanes=WHOLE_WARP,
    forms=(
        Form(
            Ptx("toy.fetch"),
            since("sm_90"),
            "a test",
            AsyncMeaning(addresses=places, moves=True),
            effects=(
                Consults("where", 16, "tensormap"),
                Access("src", "global", 4, write=False, proxy="async", computed=True),
                Access("dst", "shared", 4, write=True, proxy="async", computed=True),
                Signal("bar", "bytes", "release", "cta", completed, amount=128),
                Issue(),
            ),
        ),
    ),
)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(INSTRUCTIONS, FETCH.name, FETCH)


def fetched(fences: bool = True, nbytes: int = 128) -> Any:
    @T.prim_func
    def fetch(a: T.Buffer((32,), "uint32"), where: T.Buffer((2,), "uint64"), b: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "uint32")
        bar = T.alloc_shared((1,), "uint64")
        if lane == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), nbytes)
            where[0] = T.reinterpret("uint64", a.ptr_to([0]))
            if fences:
                T.ptx.fence.proxy_tensormap.release(scope="cta")
        T.cuda.warp_sync()
        if fences:
            T.ptx.fence.proxy_tensormap.acquire(where.ptr_to([0]), scope="cta")
        ptx.toy.fetch(s.ptr_to([0]), where.ptr_to([0]), bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        b[lane] = s[31 - lane]

    return fetch


def run(kernel: Any) -> list[str]:
    a, b = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    warnings = tw.simulate(kernel, a, np.zeros(2, np.uint64), b, target="sm_90a", check="all").warnings
    assert np.array_equal(b, a[::-1])
    return warnings


def test_a_warp_may_be_told_by_global_memory_what_to_do() -> None:
    assert run(fetched()) == []


def test_what_tells_it_is_read_through_a_proxy_of_its_own() -> None:
    (warning,) = run(fetched(fences=False))

    assert "toy.fetch uses the tensor map in where, changed by CTA (0, 0, 0), warp 0, lane 0" in warning


def test_bytes_of_a_fixed_amount_count_among_those_that_came() -> None:
    with pytest.raises(SimulationError, match="deadlock") as error:
        run(fetched(nbytes=132))

    assert str(error.value.hint).startswith("128 bytes announced at")
    assert "not 132: so many came to bar[0], the last of toy.fetch" in str(error.value.hint)
