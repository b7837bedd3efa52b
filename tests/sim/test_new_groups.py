"""Instructions of a test, waited for by group: of what a wait for reads tells, and which keep the order of issue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim.running import simulate
from tests.sim.test_new_family import row
from tests.toys import ptx
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.isa import INSTRUCTIONS, since
from tilewright.isa.forms import Access, AsyncMeaning, Commit, Form, Issue, Ptx, Wait, counts, reads
from tilewright.isa.machine import Addresses, Lanes, Unit
from tilewright.isa.table import ANY_LANES, WHOLE_WARP, Instruction

WORDS = 4 * np.arange(32)


def places(unit: Unit, dst: Lanes, src: Lanes) -> dict[str, Addresses]:
    """Of a thread a word; of a warp 32, from those on that lane 0 says."""
    if dst.ndim == 1:
        return {"dst": Addresses(dst[:, None]), "src": Addresses(src[:, None])}
    return {"dst": Addresses(dst[:, :1] + WORDS.astype(dst.dtype)), "src": Addresses(src[:, :1] + WORDS)}


def copying(name: str, lanes: str) -> list[Instruction]:
    """A copy from shared to global memory, its commit, and waits for its reads and for all of it."""
    copy = (
        Access("src", "shared", 4, write=False, proxy="async", computed=True),
        Access("dst", "global", 4, write=True, proxy="async", computed=True),
        Issue(name),
    )
    operands = (reads("dst", "global"), reads("src", "shared"))
    return [
        row(f"{name}.put", operands, lanes, *copy, meaning=AsyncMeaning(addresses=places, moves=True)),
        row(f"{name}.commit", (), lanes, Commit(name)),
        row(f"{name}.wait_read", (), lanes, Wait(name, 0, reads=True)),
    ]


def word(v: Lanes) -> Lanes:
    return np.ascontiguousarray(v.astype(np.uint32)).reshape(-1, 1).view(np.uint8)


def setting() -> list[Instruction]:
    """A store of a word that keeps the order of issue behind others with the same key."""
    effects = (Access("dst", "shared", 4, write=True), Issue("toyq", in_order_after=("ptx.toyq.set",), alike=("key",)))
    operands = (reads("dst", "shared"), reads("v", "b32"), counts("key"))
    form = Form(Ptx("toyq.set"), since("sm_90"), "a test", AsyncMeaning(word, takes=("v",)), effects)
    names = tuple(one.name for one in operands)
    return [
        Instruction("ptx.toyq.set", names, operands, (form,), lanes=ANY_LANES),
        row("toyq.wait", (), ANY_LANES, Wait("toyq")),
    ]


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = [row(f"{name}.wait", (), lanes, Wait(name, 0)) for name, lanes in (("toyw", WHOLE_WARP),)]
    for one in (*copying("toyt", ANY_LANES), *copying("toyw", WHOLE_WARP), *waits, *setting()):
        monkeypatch.setitem(INSTRUCTIONS, one.name, one)


def copied(name: str, then: str, *, all_of_it: bool = False) -> Any:
    """Each warp copies its part, waits for the reads, or for all; then reads the copy or overwrites the source."""
    toy = getattr(T.ptx, name)

    @T.prim_func
    def kernel(b: T.Buffer((64,), "uint32"), c: T.Buffer((64,), "uint32")):
        T.cta_id([1])
        warp = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((2, 32), "uint32")
        s[warp, lane] = lane
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.warp_sync()
        if name == "toyt":
            toy.put(b.ptr_to([warp * 32 + lane]), s.ptr_to([warp, lane]))
        else:
            toy.put(b.ptr_to([warp * 32]), s.ptr_to([warp, 0]))
        toy.commit()
        if all_of_it:
            toy.wait()
        else:
            toy.wait_read()
        if then == "reads":
            c[warp * 32 + lane] = b[warp * 32 + lane]
        elif then == "overwrites":
            s[warp, lane] = 0
        else:
            T.cuda.cta_sync()
            s[1 - warp, lane] = 0

    return kernel


def two() -> list[Any]:
    return [np.zeros(64, np.uint32), np.zeros(64, np.uint32)]


@pytest.mark.parametrize("name", ["toyt", "toyw"])
def test_a_wait_for_reads_says_nothing_of_what_a_thread_or_a_warp_writes(name: str) -> None:
    with pytest.raises(SimulationError, match=rf"load reads global memory that {name}\.put may still") as error:
        simulate(copied(name, "reads"), *two())

    wait = {"toyt": "a wait for the writes of the toyt.put", "toyw": "T.ptx.toyw.wait() in place of the wait of line"}
    assert str(error.value.hint).startswith(wait[name])


@pytest.mark.parametrize("name", ["toyt", "toyw"])
@pytest.mark.parametrize("then", ["overwrites", "overwrites another's"])
def test_after_a_wait_for_reads_the_source_may_be_overwritten(name: str, then: str) -> None:
    assert simulate(copied(name, then), *two()) == []


def test_after_a_wait_for_all_a_warp_may_read_what_it_has_written() -> None:
    b, c = two()

    assert simulate(copied("toyw", "reads", all_of_it=True), b, c) == []
    assert (c == np.tile(np.arange(32), 2)).all()


def set_twice(key: int) -> Any:
    toy = ptx.toyq

    @T.prim_func
    def kernel(b: T.Buffer((32,), "uint32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "uint32")
        toy.set(s.ptr_to([lane]), 1, 5)
        toy.set(s.ptr_to([lane]), 2, key)
        toy.wait()
        b[lane] = s[lane]

    return kernel


def test_operations_that_keep_the_order_of_issue_do_so_in_shared_memory() -> None:
    b = np.zeros(32, np.uint32)

    assert simulate(set_twice(5), b) == []
    assert (b == 2).all()
    with pytest.raises(SimulationError, match=r"toyq\.set writes s\[0\], which toyq\.set may still not have written"):
        simulate(set_twice(6), b)
