"""Programs of many scalar rows on hardware, with branches and loops: all bits as the table has them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.hardware import Bench
from tests.gpu.ptx_chains import programs
from tests.gpu.ptx_programs import launched

pytestmark = pytest.mark.gpu

THREADS = 1 << 12
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_scalar_rows_store_what_the_table_says(part: int, bench: Bench) -> None:
    wrong = []
    for number, text, given, wanted in programs(THREADS, part, PARTS):
        found = launched(text, given, np.dtype(np.uint64), len(wanted))
        bench.tally["programs of scalar rows"] += 1
        bench.tally["bytes compared"] += wanted.nbytes
        for place in np.flatnonzero((found != wanted).any(-1)):
            thread = int(np.flatnonzero(found[place] != wanted[place])[0])
            values = f"GPU {int(found[place, thread]):#x}, table {int(wanted[place, thread]):#x}"
            wrong.append(f"program {number}: result {place}, thread {thread}: {values}")
    assert not wrong, f"{len(wrong)} results differ\n" + "\n".join(wrong[:40])
