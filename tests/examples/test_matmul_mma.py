"""The product of examples/matmul_mma.py is NumPy's, in both types, and each of its barriers is needed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.examples.compute import module
from tests.examples.test_examples import barriers, without
from tilewright.errors import SimulationError
from tilewright.ir import Kernel

EXAMPLE = module("matmul_mma")


def simulate(made: Kernel, m: int, n: int, k: int, kind: Any = np.float16) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(kind) for shape in ((m, k), (k, n)))
    d = np.zeros((m, n), kind)
    done = tw.simulate(made, a, b, d, check="all")
    return d, a.astype(np.float64) @ b.astype(np.float64), done.warnings


@pytest.mark.parametrize(("kind", "unit"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_the_product_is_numpys(kind: str, unit: float) -> None:
    got, wanted, warnings = simulate(
        EXAMPLE.make(128, 256, 128, kind), 128, 256, 128, getattr(ml_dtypes, kind, np.float16)
    )

    assert (np.abs(got.astype(np.float64) - wanted) <= unit * np.abs(wanted) + 1e-4).all()
    assert warnings == []


def test_a_missing_barrier_is_a_race() -> None:
    made = EXAMPLE.make(128, 128, 128)

    assert len(barriers(made)) == 2
    for barrier in barriers(made):
        with pytest.raises(SimulationError, match="race"):
            simulate(without(made, barrier), 128, 128, 128)


def test_warps_share_the_tile_out_and_load_by_ldmatrix() -> None:
    exe = tw.compile(EXAMPLE.matmul)
    entry = next(each for each in exe.report.entries if each.primitive == "gemm")

    assert entry.plan.startswith(
        "64 x mma m16n8k16 f32.f16.f16.f32 per warp; A by ldmatrix x4, 4 instructions per warp"
    )
    assert "B by ldmatrix x4, transposed" in entry.plan
    assert exe.source("cuda").count("asm(") + exe.source("cuda").count("asm volatile(") < 8  # helpers, once each


def test_between_the_barriers_there_are_loads_of_matrices_and_products_alone() -> None:
    sass = tw.compile(EXAMPLE.make(4096, 4096, 4096), target="sm_90a").source("sass")
    loop = sass.split("BAR.SYNC")[1]
    opcodes = Counter(re.findall(r"^\s+/\*\w+\*/\s+(?:@!?U?P\w+ )?([A-Z0-9]+)", loop, re.MULTILINE))

    assert (opcodes.pop("HMMA"), opcodes.pop("LDSM")) == (64, 24)
    assert sum(opcodes.values()) <= 4, opcodes
