"""Which tiles a product gets: those that are estimated to be the fastest of all candidates.

A product may also be *turned*: the rows of the weights are then the M of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from math import log2

from tilewright.kernels.forms import ROW_BYTES, Tiles

__all__ = ["candidates", "chosen", "clusters_at_once", "estimated_us"]

# Clusters of so many CTAs that run at once, of a CTA for each multiprocessor: on an H200 66, 30 and 15 of 132.
AT_ONCE = {1: 1.0, 2: 1 / 2, 4: 30 / 132, 8: 15 / 132}
# The columns of tiles, by their rows. A warpgroup's sums must leave it registers for the rest.
COLUMNS: dict[int, Sequence[int]] = {
    64: (8, 16, 32, 64, 96, 128, 192, 256),
    128: (32, 64, *range(96, 193, 16), 224, 256),
    192: (64, 96, 128, 160, 192),
    256: (64, *range(96, 193, 16)),
}
TURNED_COLUMNS = {128: (168, 208, 240), 192: (112, 144, 168, 176), 256: (168,)}  # with slabs along C's rows
LEAST_SHARED, MOST_SHARED = 32, 128  # more columns has a tile whose B is shared; no more has one whose K is shared
# Registers of sums that a thread has room for, by warpgroups and resident CTAs: where at most a bias follows the sums
# of a single product, and where more is to be held.
MOST_SUMS = {(1, 1): (128, 48), (2, 1): (192, 128), (3, 1): (96, 0), (1, 2): (64, 16)}

# What the estimate was fitted to: all candidates on 284 shapes, bfloat16, on an H200 (benchmarks/gpu/tune_products.py).
CYCLES_A_US, HBM_BYTES_A_US = 1830.0, 3.867e6
START_US, CTA_US, OVERLAPPED = 0.979, 0.0018, 0.389  # OVERLAPPED: of the shorter of arithmetic and memory
# Operations of 16 bits, when power is the limit; what loads take of it.
POWERED_A_US, POWERED_LOADS = 804e6, 9.90
FILL_CYCLES, CLUSTER_CYCLES, STEP_CYCLES = 593.0, 162.0, 26.0
TILE_CYCLES, RESULT_CYCLES, NARROW_CYCLES = 1216.0, 0.039, 79.0  # of a tile; of each result; of each halving below 32
# Where CTAs share K: to exchange sums; with more than 4 of them; for clusters that begin when others have ended.
SUM_CYCLES, SUM_COLUMN_CYCLES, EIGHT_CYCLES, AGAIN_CYCLES = 194.0, 22.5, 225.0, 7646.0
SLAB_CYCLES = 120.0  # of each slab more; not fitted
TENSOR, TENSOR_BUSY = 1.088, 0.108  # of the ideal time of tensor cores; more, the more of them are at work
# Cycles to load 128 bytes along K, by whether they begin at a multiple of 32, a sector: alone; what others add.
ROW_CYCLES, BUSY_ROW_CYCLES, LEAST_ROW = {True: 0.542, False: 2.502}, {True: 1.227, False: 2.838}, 0.614


@cache
def candidates() -> tuple[Tiles, ...]:
    """All tiles that there are to choose from."""
    return tuple(tiles for tiles in _candidates() if _has_room(tiles, simple=True))


def _candidates() -> Iterator[Tiles]:
    for m, widths in COLUMNS.items():
        for n in widths:
            yield Tiles(m, n, cluster=1)
            if n > LEAST_SHARED and (m, n) != (192, 160):  # to which NVRTC 13.0 gives too few registers
                yield from (Tiles(m, n, cluster=cluster) for cluster in ((2, 4) if m <= 128 else (2,)))
            pairs = [1, 2] if m == 64 and n <= MOST_SHARED else [1]
            if 2 in pairs:
                yield Tiles(m, n, cluster=1, resident=2)
            if m <= 128 and n <= MOST_SHARED and n & n - 1 == 0:
                yield from (
                    Tiles(m, n, cluster=1, parts=parts, resident=resident)
                    for parts in AT_ONCE
                    if parts > 1
                    for resident in pairs
                )
        for n in TURNED_COLUMNS.get(m, ()):
            yield from (Tiles(m, n, cluster=cluster) for cluster in (1, 2) if n % (8 * cluster) == 0)


@cache
def chosen(
    m: int,
    n: int,
    k: int,
    processors: int,
    batch: int = 1,
    *,
    aligned: tuple[bool, bool] = (True, True),
    simple: bool = True,
    most: int = 1,
) -> tuple[tuple[Tiles, bool], ...]:
    """The tiles that are estimated to be the fastest, best first, and whether the product is turned.

    k: in steps of the ring. aligned: do all rows of a, and of b, begin at multiples of 32 bytes? simple: does at most
    a bias follow the sums, and is there no batch? most: how many.
    """
    costs = {}
    for tiles in candidates():
        if tiles.parts <= k and _has_room(tiles, simple=simple):
            if tiles.n not in TURNED_COLUMNS.get(tiles.m, ()):
                costs[tiles, False] = estimated_us(tiles, (m, n), k, processors, batch, aligned)
            costs[tiles, True] = estimated_us(tiles, (n, m), k, processors, batch, aligned[::-1])
    return tuple(sorted(costs, key=lambda plan: costs[plan])[:most])


def clusters_at_once(tiles: Tiles, processors: int) -> int:
    """How many clusters run at the same time; more would wait until some of these are done with all their tiles."""
    return max(1, int(processors * tiles.resident * AT_ONCE[tiles.cluster * tiles.parts]))


def _has_room(tiles: Tiles, *, simple: bool) -> bool:
    """Do the sums of a thread, and its share of those of all parts, leave it enough registers?"""
    rows = tiles.m // tiles.groups
    sums = rows * (tiles.n + (tiles.share(8) if tiles.parts > 1 else 0)) // 128
    return sums <= MOST_SUMS[tiles.groups, tiles.resident][not simple]


def estimated_us(
    tiles: Tiles,
    extents: tuple[int, int],
    k: int,
    processors: int,
    batch: int = 1,
    aligned: tuple[bool, bool] = (True, True),
) -> float:
    """About how many microseconds a product takes; extents: of the kernel's M and N."""
    (rows, columns), ctas = extents, tiles.cluster * tiles.parts
    clusters = -(-rows // (tiles.m * tiles.cluster)) * -(-columns // tiles.n) * batch
    at_once = clusters_at_once(tiles, processors)
    busy = min(1.0, clusters * ctas / processors)
    together = max(1, min(tiles.resident, -(-clusters * ctas // processors)))
    arithmetic = tiles.m // 16 * max(tiles.n / 2, 16 + tiles.n / 4) * TENSOR * (1 + TENSOR_BUSY * busy)
    loads = sum(
        here * max(ROW_CYCLES[fits], ROW_CYCLES[fits] * LEAST_ROW + BUSY_ROW_CYCLES[fits] * busy)
        for here, fits in zip((min(tiles.m, rows), min(tiles.n, columns) / tiles.cluster), aligned, strict=True)
    )
    step = (max(arithmetic, loads) + STEP_CYCLES) * together
    tile = TILE_CYCLES + RESULT_CYCLES * tiles.m * tiles.n * together + NARROW_CYCLES * max(0.0, 5 - log2(tiles.n))
    if tiles.n % 32:  # in slabs of 16 columns
        tile += SLAB_CYCLES * tiles.n / 32 * tiles.m // tiles.groups / 64
    rounds = -(-clusters // at_once)
    cycles = rounds * (k / tiles.parts * step + tile) + FILL_CYCLES
    cycles += CLUSTER_CYCLES if tiles.cluster > 1 else 0
    if tiles.parts > 1:
        cycles += SUM_CYCLES + SUM_COLUMN_CYCLES * tiles.n + AGAIN_CYCLES * (rounds - 1)
        cycles += EIGHT_CYCLES if tiles.parts > 4 else 0
    computed = cycles / CYCLES_A_US + START_US + CTA_US * min(clusters, at_once) * ctas
    moved = batch * (k * ROW_BYTES * (rows + columns) + 2 * rows * columns) / HBM_BYTES_A_US + START_US
    loaded = (tiles.m + tiles.n / tiles.cluster) / (tiles.m * tiles.n)
    powered = batch * rows * columns * k * ROW_BYTES / POWERED_A_US * (1 + POWERED_LOADS * loaded)
    return max(max(computed, moved) + OVERLAPPED * min(computed, moved), powered)
