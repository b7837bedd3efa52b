"""Which tiles a product gets: those that are estimated to be the fastest of all candidates.

A product may also be *turned*: the rows of the weights are then the M of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tilewright.kernels.forms import ROW_BYTES, Tiles

__all__ = ["candidates", "chosen", "estimated_cycles"]

# Clusters of so many CTAs that run at once, of a CTA for each multiprocessor: on an H200 66, 30 and 15 of 132.
AT_ONCE = {1: 1.0, 2: 1 / 2, 4: 30 / 132, 8: 15 / 132}
# The columns of tiles, by their rows. A warpgroup's sums must leave it registers for the rest.
COLUMNS = {
    64: (8, 16, 32, 64, 96, 128, 192, 256),
    128: (32, 64, 96, 128, 160, 192, 224, 256),
    192: (64, 96, 128, 160, 192),
    256: (64, 96, 128, 160, 192),
}
LEAST_SHARED, MOST_SHARED = 32, 128  # columns of a tile whose B two CTAs share; and of one whose K several share
# Cycles of a multiprocessor, for comparing: to begin and end a tile, to launch a cluster, to exchange sums; bytes that
# it loads in one; the time of a CTA that loads alone.
TILE_CYCLES, CLUSTER_CYCLES, SUM_CYCLES, LOADED, ALONE = 2500, 500, 1500, 64, 1.003


@cache
def candidates() -> tuple[Tiles, ...]:
    """All tiles that there are to choose from."""
    return tuple(_candidates())


def _candidates() -> Iterator[Tiles]:
    for m, widths in COLUMNS.items():
        for n in widths:
            yield Tiles(m, n, cluster=1)
            if n > LEAST_SHARED:
                yield Tiles(m, n, cluster=2)
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


@cache
def chosen(m: int, n: int, k: int, processors: int, batch: int = 1) -> tuple[Tiles, bool]:
    """The tiles that are estimated to be the fastest, and whether the product is turned; k: in steps of the ring."""
    every = [(tiles, turned) for tiles in candidates() if tiles.parts <= k for turned in (False, True)]
    return min(every, key=lambda each: estimated_cycles(each[0], (n, m) if each[1] else (m, n), k, processors, batch))


def estimated_cycles(tiles: Tiles, extents: tuple[int, int], k: int, processors: int, batch: int = 1) -> float:
    """About how long a product takes; extents: of the kernel's M and N."""
    clusters = -(-extents[0] // (tiles.m * tiles.cluster)) * -(-extents[1] // tiles.n) * batch
    rounds = -(-clusters // max(1, int(processors * tiles.resident * AT_ONCE[tiles.cluster * tiles.parts])))
    loads = (tiles.m + tiles.n / tiles.cluster) * ROW_BYTES / LOADED
    step = tiles.resident * max(tiles.m * max(tiles.n, 32) / 32, loads) * (1 if tiles.cluster > 1 else ALONE)
    started = CLUSTER_CYCLES if tiles.cluster > 1 else 0
    each = TILE_CYCLES + (SUM_CYCLES if tiles.parts > 1 else 0)
    return started + rounds * (k / tiles.parts * step + each)
