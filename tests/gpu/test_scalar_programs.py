"""Programs of many scalar rows on hardware, with branches and loops: all bits as the table has them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.hardware import Bench
from tests.gpu.ptx_chains import Array, Program, programs
from tests.gpu.ptx_programs import launched

pytestmark = pytest.mark.gpu

THREADS = 1 << 12
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_scalar_rows_store_what_the_table_says(part: int, bench: Bench) -> None:
    wrong = []
    for made in programs(THREADS, part, PARTS):
        found = launched(made.text, made.given, np.dtype(np.uint64), len(made.wanted), level=0)
        bench.tally["programs of scalar rows"] += 1
        bench.tally["bytes compared"] += made.wanted.nbytes
        wrong += causes(made, found)
    assert not wrong, f"{len(wrong)} rows differ\n" + "\n".join(wrong[:40])


def causes(made: Program, found: Array) -> list[str]:
    """Each row that is the first one of its program that differs in some thread."""
    differs = found != made.wanted
    told = []
    for place in np.unique(differs.argmax(0)[differs.any(0)]):
        thread = int(np.flatnonzero(differs[place] & ~differs[:place].any(0))[0])
        values = f"GPU {int(found[place, thread]):#x}, table {int(made.wanted[place, thread]):#x}"
        told.append(f"program {made.number}, row {place}, {made.cases[place]}, thread {thread}: {values}")
    return told
