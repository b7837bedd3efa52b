"""Programs of many scalar rows on the simulator store what the table says, through branches, loops and predicates."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.gpu.ptx_chains import LENGTH, PROGRAMS, exact, programs

THREADS = 64


def test_programs_of_scalar_rows_store_what_the_table_says() -> None:
    for made in programs(THREADS, 0, 60):
        out = np.zeros(made.wanted.shape, np.uint64)

        # Random divisors are 0 here and there: the table has what an H200 gives then.
        tw.load_ptx(made.text)["k"].simulate(*made.given, out, THREADS, block=THREADS, check=("bounds", "alignment"))

        assert (out == made.wanted).all(), f"program {made.number}"


def test_there_are_500_programs_that_have_every_row_of_the_gpu() -> None:
    assert PROGRAMS >= 500
    assert len(exact()) <= PROGRAMS * LENGTH
