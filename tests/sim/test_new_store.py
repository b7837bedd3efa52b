"""A made-up store by an asynchronous unit: its sources are free before its destination is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.toys import ptx
from tilewright import T
from tilewright.errors import SimulationError
from tilewright.isa import INSTRUCTIONS, since
from tilewright.isa.forms import NOTHING, Access, AsyncMeaning, Commit, Effect, Form, Issue, Operand, Ptx, Wait, reads
from tilewright.isa.table import Instruction


def row(name: str, operands: tuple[Operand, ...], *effects: Effect, moves: bool = False) -> Instruction:
    form = Form(Ptx(name), since("sm_90"), "a test", AsyncMeaning(moves=True) if moves else NOTHING, effects)
    return Instruction(f"ptx.{name}", tuple(one.name for one in operands), operands, (form,))


ROWS = (
    row(
        *("toy.store", (reads("dst", "global"), reads("src", "shared"))),
        Access("src", "shared", 64, write=False, proxy="async"),
        Access("dst", "global", 64, write=True, proxy="async"),
        Issue("toy"),
        moves=True,
    ),
    row("toy.commit", (), Commit("toy")),
    row("toy.wait", (reads("n", "imm"),), Wait("toy", "n")),
    row("toy.wait.read", (reads("n", "imm"),), Wait("toy", "n", reads=True)),
)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in ROWS:
        monkeypatch.setitem(INSTRUCTIONS, one.name, one)


def stored(wait: str, then: str) -> Any:
    @T.prim_func
    def store(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32"), c: T.Buffer((16,), "float32")):
        T.cta_id([1])
        tid = T.thread_id([32])
        s = T.alloc_shared((16,), "float32")
        if tid == 0:
            for i in range(16):
                s[i] = a[i]
            T.ptx.fence.proxy_async("shared::cta")
            ptx.toy.store(b.ptr_to([0]), s.ptr_to([0]))
            ptx.toy.commit()
            if wait == "read":
                ptx.toy.wait.read(0)
            if wait == "all":
                ptx.toy.wait(0)
            if then == "source":
                s[0] = T.float32(7)
            if then == "destination":
                c[0] = b[0]
            ptx.toy.wait(0)

    return store


def simulated(wait: str, then: str) -> tuple[list[str], list[float], float]:
    a, b, c = np.arange(16, dtype=np.float32) + 1, np.zeros(16, np.float32), np.zeros(16, np.float32)
    warnings = tw.simulate(stored(wait, then), a, b, c, check="all").warnings
    return warnings, b.tolist(), float(c[0])


@pytest.mark.parametrize(("wait", "then"), [("read", "source"), ("all", "source"), ("all", "destination")])
def test_what_was_waited_for_may_be_touched(wait: str, then: str) -> None:
    assert simulated(wait, then) == ([], [*range(1, 17)], 1 if then == "destination" else 0)


@pytest.mark.parametrize(
    ("wait", "then", "what"),
    [
        ("", "source", "store overwrites shared memory that toy.store may still be reading"),
        ("", "destination", "load reads global memory that toy.store may still be writing"),
        ("read", "destination", "load reads global memory that toy.store may still be writing"),
    ],
)
def test_what_was_not_waited_for_may_not(wait: str, then: str, what: str) -> None:
    with pytest.raises(SimulationError) as error:
        simulated(wait, then)

    assert error.value.what == what
    assert "ptx.toy.wait" in str(error.value.hint)
