"""Products of a warpgroup on both sides: generated ones bit for bit, and how float8 is summed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tilewright as tw
from tests.gpu.hardware import Bench
from tests.sim.wgmma_kernels import product
from tests.tile.wgmma_kernels import Case, drawn, multiplied

pytestmark = pytest.mark.gpu

PROGRAMS, PARTS = 200, 8
Array = NDArray[Any]


def compared(case: Case, inputs: tuple[Array, Array, Array], bench: Bench) -> None:
    a, b, c = inputs
    exe = tw.compile(multiplied(case), target="sm_90a")
    ours, theirs = c.copy(), c.copy()
    exe(a, b, ours, on="gpu")
    run = exe.simulate(a, b, theirs, check="all")
    bench.tally["kernels"] += 1
    bench.tally["generated programs of wgmma"] += 1
    bench.tally["instructions of warps"] += sum(run.counts.instructions.values())
    assert run.warnings == []
    bench.judge(str(case), ours, theirs)


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_products_are_equal_bit_for_bit(part: int, bench: Bench) -> None:
    for seed in range(part, PROGRAMS, PARTS):
        case = drawn(seed)
        compared(case, case.inputs(seed), bench)


@pytest.mark.parametrize("in_registers", [False, True])
def test_products_written_with_instructions_are_equal(in_registers: bool, bench: Bench) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 128)).astype("bfloat16") for _ in range(2))
    exe = tw.compile(product(in_registers=in_registers), target="sm_90a")
    ours, theirs = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    exe(a, b, ours, on="gpu")
    exe.simulate(a, b, theirs, check="all")
    bench.judge(exe.name, ours, theirs)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "tf32"])
def test_sums_of_any_numbers_are_within_their_bound(kind: str) -> None:
    case, rng = Case(64, 64, 64, kind), np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32).astype(case.inputs()[0].dtype) for shape in case.shapes)
    c = np.zeros((64, 64), np.float32)
    tw.compile(multiplied(case), target="sm_90a")(a, b, c, on="gpu")

    left, right = (part.astype(np.float64) for part in (a, b))
    bound = case.k * 2.0**-23 * (abs(left) @ abs(right).T) + (
        2.0**-9 * (abs(left) @ abs(right).T) if kind == "tf32" else 0
    )
    assert (abs(c - left @ right.T) <= bound).all()


@pytest.mark.parametrize("kinds", [("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn")])
def test_sums_of_float8_are_cut_as_the_model_has_them(kinds: tuple[str, str], bench: Bench) -> None:
    """Source of the model: `tilewright.isa.wgmma.float8_sum`. K is one instruction's."""
    case, rng = Case(64, 64, 32, *kinds, modes=(1, 1), accum=True), np.random.default_rng(2)
    a, b, c = case.inputs()
    a, b = ((rng.standard_normal(each.shape) * 4).astype(each.dtype) for each in (a, b))
    compared(case, (a, b, rng.standard_normal(c.shape).astype(np.float32) * 8), bench)
