"""Rows of lengths that are no powers of two, and rows that do not begin on 16 bytes, beside `copy_` of the same bytes.

python -m benchmarks.gpu row_lengths           # 256 MiB of each length, as RESULTS.md has it
python -m benchmarks.gpu.row_lengths 1001 4097 # other lengths
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.gpu.measure import Table
from benchmarks.gpu.memory_bound import (
    BYTES,
    COPY,
    KINDS,
    OURS,
    TORCH,
    Captured,
    Row,
    check,
    cold,
    copying,
    moved_bytes,
    works,
)

LENGTHS = (768, 1536, 5120, 151, 32003, 50257)
ALIGNED, ANYWHERE = 0.95, 0.88  # of the rate of `copy_`, where rows begin on 16 bytes and where they do not


def rows(lengths: tuple[int, ...]) -> Iterator[Row]:
    """Each kernel over rows without gaps between them."""
    import torch

    from tilewright import kernels

    for columns in lengths:
        for work in works().values():
            for kind in KINDS:
                dtype = getattr(torch, kind)
                args = work.arguments(BYTES // dtype.itemsize // columns, columns, dtype)
                wanted = work.torch(*args)
                calls = {OURS: Captured(partial(getattr(kernels, work.name), *args))}
                calls[OURS]()
                torch.cuda.synchronize()
                what = f"{work.name}, rows of {columns}, {kind}"
                check(what, calls[OURS].result, wanted)
                calls[TORCH] = Captured(partial(work.torch, *args))
                calls[COPY] = Captured(copying(moved_bytes(args) + moved_bytes(wanted)))
                least = ANYWHERE if columns * dtype.itemsize % 16 else ALIGNED
                yield Row(what, cold(calls), least)


def run(lengths: tuple[int, ...] = LENGTHS) -> Table:
    found = []
    for row in rows(lengths):
        print(" | ".join(row.cells()[:4]), flush=True)
        found.append(row)
    head = ("what", "copy_ us", f"{OURS}, of copy_", f"{TORCH}, of copy_")
    claims = tuple(claim for row in found for claim in row.claims())
    return Table("Rows of any length", head, tuple(row.cells()[:4] for row in found), claims)


if __name__ == "__main__":
    print(run(tuple(map(int, sys.argv[1:])) or LENGTHS).markdown())
