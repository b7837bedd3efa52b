"""Barriers that threads skip, in code that a compiler made: one kernel of ``skips.cu`` for each."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.load.programs import FOLDER
from tilewright import load_cu, load_ptx
from tilewright.errors import SimulationError
from tilewright.load import LoadedModule

TEXT = (FOLDER / "skips.cu").read_text()
RIGHT, WRONG = (re.findall(rf"void ({kind}_\w+)", TEXT) for kind in ("right", "wrong"))


@pytest.fixture(scope="module")
def skips() -> LoadedModule:
    return load_cu(FOLDER / "skips.cu")


@pytest.mark.parametrize("name", RIGHT)
def test_a_barrier_does_not_wait_for_threads_that_have_returned(skips: LoadedModule, name: str) -> None:
    assert skips[name].simulate(np.zeros(128, np.int32), grid=1, block=64, check="default").warnings == []


@pytest.mark.parametrize("name", WRONG)
def test_warps_and_lanes_that_skip_a_barrier_and_go_on_are_told(skips: LoadedModule, name: str) -> None:
    with pytest.raises(SimulationError, match=r"divergence: __syncthreads without (warp|lanes)") as raised:
        skips[name].simulate(np.zeros(128, np.int32), grid=1, block=64, check="default")

    place = raised.value.at
    assert place is not None
    assert "__syncthreads" in TEXT.splitlines()[place.line - 1]


PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p; .reg .b32 %t, %one; .reg .b64 %o, %d;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %one, 1;
    mul.wide.u32 %d, %t, 4;
    add.s64 %o, %o, %d;
    setp.ge.u32 %p, %t, 32;
    @%p bra TO;
    bar.sync 0;
AFTER:
    st.global.u32 [%o], %one;
DONE:
    ret;
}
"""


def test_a_barrier_of_ptx_is_skipped_by_a_jump_behind_it_not_to_the_end() -> None:
    out = np.zeros(64, np.int32)

    assert load_ptx(PTX.replace("TO", "DONE"))["k"].simulate(out, grid=1, block=64).warnings == []
    assert out.sum() == 32
    with pytest.raises(SimulationError, match=r"divergence: bar\.sync 0 without warp 1"):
        load_ptx(PTX.replace("TO", "AFTER"))["k"].simulate(out, grid=1, block=64)
