"""Random programs with branches, loops and barriers, the documents' kernels and the examples, on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import tilewright as tw
from examples import ldmatrix_by_hand, row_per_lane, stage_tile, transpose
from tests.gpu.hardware import Bench
from tests.sim.build import Lowered
from tests.sim.test_against_oracle import meeting_programs, programs
from tilewright.ir import Kernel

pytestmark = pytest.mark.gpu

PARTS = 4
DRAWN = settings(max_examples=12, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("part", range(PARTS))
def test_lanes_go_their_own_ways(part: int, bench: Bench) -> None:
    @seed(part)
    @DRAWN
    @given(programs(), st.integers(-3, 9))
    def run(k: Lowered, n: int) -> None:
        bench.run(k.kernel(), {"out": np.zeros(3 * 64 * 3, np.int32)}, {"n": n})

    run()


@pytest.mark.parametrize("part", range(PARTS))
def test_threads_meet_in_branches_and_loops(part: int, bench: Bench) -> None:
    @seed(part)
    @DRAWN
    @given(meeting_programs())
    def run(k: Lowered) -> None:
        bench.run(k.kernel(), {"out": np.zeros(3 * 96 * 2, np.int32)})

    run()


# Kernels as users write them


def both(kernel: Kernel, a: np.ndarray, bench: Bench) -> np.ndarray:
    """The result of the GPU, equal to that of the simulator under every check."""
    exe = tw.compile(kernel, target="sm_90a")
    ours, theirs = np.zeros_like(a), np.zeros_like(a)
    exe(a, ours, on="gpu")
    run = exe.simulate(a, theirs, check="all")
    bench.tally["kernels"] += 1
    bench.tally["instructions of warps"] += sum(run.counts.instructions.values())
    bench.judge(exe.name, ours, theirs)
    return ours


@pytest.mark.parametrize("num", [1, 2, 4, 8])
@pytest.mark.parametrize("row_major", [True, False])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_stage_tile(num: int, row_major: bool, kind: str, bench: Bench) -> None:
    from tilewright.dtypes import dtype

    a = np.random.default_rng(num).standard_normal((8, 8 * num)).astype(dtype(kind).numpy)

    assert (both(stage_tile.make(num, row_major, kind), a, bench) == a).all()


@pytest.mark.parametrize("columns", [4, 8, 16, 64])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_row_per_lane(columns: int, kind: str, bench: Bench) -> None:
    a = np.random.default_rng(columns).standard_normal((32, columns)).astype(kind)

    assert (both(row_per_lane.make(columns, kind), a, bench) == a[::-1]).all()


@pytest.mark.parametrize("kernel", [transpose.transpose, transpose.plain], ids=["swizzled", "plain"])
def test_transpose(kernel: Kernel, bench: Bench) -> None:
    a = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float16)

    assert (both(kernel, a, bench) == a.T).all()


@pytest.mark.parametrize("name", ["load_x1", "load_x2", "load_x4", "store_x1", "store_x2", "store_x4"])
def test_what_matrix_instructions_print(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The listings of the documents: the GPU prints what the simulator says, lane by lane."""
    kernel = getattr(ldmatrix_by_hand, name)

    tw.compile(kernel, target="sm_90a")(on="gpu")

    printed = capfd.readouterr().out
    assert sorted(printed.splitlines()) == sorted(tw.simulate(kernel, check="all").output.splitlines())
