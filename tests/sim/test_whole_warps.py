"""What a warp executes as one, in some of its lanes: told at that line, for every row of the table."""

from __future__ import annotations

import pytest

from tests.sim.build import Lowered, lane, warp
from tilewright.errors import SimulationError
from tilewright.isa import INSTRUCTIONS, Instruction
from tilewright.isa.table import WARPGROUP, WHOLE_WARP

# Rows that differ by a modifier, or whose lanes meet others: told by the barrier.
MEETINGS = {
    "cuda.cta_sync": (),
    "cuda.cluster_sync": (),
    "ptx.bar.sync": (1, 128),
    "ptx.bar.arrive": (1, 128),
    "ptx.barrier.cluster.arrive": (),
    "ptx.barrier.cluster.wait": (),
}
ALONE = sorted(
    name
    for name, row in INSTRUCTIONS.items()
    if row.lanes in (WARPGROUP, WHOLE_WARP) and all(one.kind == "imm" for one in row.operands)
)


def is_aligned(row: Instruction) -> bool:
    return any(".aligned" in repr(form.wording) for form in row.forms)


def test_every_aligned_row_needs_its_whole_warp_or_is_a_barrier() -> None:
    others = {
        name for name, row in INSTRUCTIONS.items() if is_aligned(row) and row.lanes not in (WARPGROUP, WHOLE_WARP)
    }

    assert all(INSTRUCTIONS[name].forms[0].sync for name in others)
    assert {"ptx.wgmma.fence", "ptx.wgmma.commit_group", "ptx.wgmma.wait_group", "ptx.tcgen05.wait.ld"} <= set(ALONE)


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("lanes", [1, 31])
def test_an_aligned_instruction_in_some_lanes_names_those_that_are_missing(name: str, lanes: int) -> None:
    k = Lowered(threads=128)
    with k.when(lane < lanes):
        k.do(name, *((True, 64) if name == "ptx.setmaxnreg" else [0] * len(INSTRUCTIONS[name].operands)))

    with pytest.raises(SimulationError, match=f"divergence: {name} without lane") as raised:
        k.run("none")

    assert "move it out of the condition that splits the warp" in str(raised.value)


@pytest.mark.parametrize("name", [name for name in ALONE if name.startswith(("ptx.wgmma", "ptx.tcgen05.wait"))])
def test_a_whole_warp_of_several_may_execute_it(name: str) -> None:
    k = Lowered(threads=128)
    with k.when(warp == 2):
        k.do(name, *[0] * len(INSTRUCTIONS[name].operands))

    k.run()


# Lanes that skip a barrier of all threads, and do nothing behind it, have returned early: see test_skipped_barriers.
@pytest.mark.parametrize("name", [name for name in MEETINGS if not name.startswith("cuda.")])
def test_an_aligned_barrier_in_some_lanes_is_told(name: str) -> None:
    k = Lowered(threads=128, cluster=2 if "cluster" in name else 1, grid=2)
    with k.when(lane < 31):
        k.do(name, *MEETINGS[name])

    with pytest.raises(SimulationError, match=r"divergence|deadlock|lanes|a warp waits and has not arrived"):
        k.run("default")
