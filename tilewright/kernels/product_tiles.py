"""Which tiles a product gets: those that are estimated to be the fastest of all candidates.

A product may also be *turned*: the rows of the weights are then the M of the kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import log2
from typing import NamedTuple

from tilewright.isa import clusters_on
from tilewright.kernels.forms import ROW_BYTES, MatmulKind, Tiles

# `make tune`: of 4 cases the estimate has another choice 1 % faster in 3:
#   matmul 2048^3: 128x128 c1 p1 r1 25.0 us (measured 28.3), taken 128x256 c1 p1 r1 28.4 us (measured 28.0)
#   matmul 4096^3: 128x128 c1 p1 r1 178.7 us (measured 195.2), taken 128x256 c1 p1 r1 183.9 us (measured 188.7)
#   matmul 128 x 4096 x 4096: 128x96 c1 p2 r1 13.8 us, taken 64x128 c1 p2 r1, turned 16.4 us


# The columns of tiles, by their rows. A warpgroup's sums must leave it registers for the rest.
COLUMNS: dict[int, Sequence[int]] = {
    64: (8, 16, 32, 64, 96, 128, 192, 256),
    128: (32, 64, *range(96, 193, 16), 168, 208, 224, 240, 256),
    192: (64, 96, 112, 128, 144, 160, 168, 176, 192),
    256: (64, *range(96, 193, 16), 168),
}
HIGH = 256  # rows: a warpgroup has 128
PINGPONG = {64: (96, 128, 192, 256), 128: (64, *range(96, 193, 16))}  # of tiles that two warpgroups take in turns
# Rows of tiles whose columns are a short side of C, of so many at most, or that in up to so many parts.
FITTED, MOST_FITTED, FITTED_PARTS = (64, 128, 192, 256), 512, 4
LEAST_SHARED = 32  # more columns has a tile whose B is shared
MOST_PARTS, MOST_APART = 8, 16  # of K: in a cluster, and anywhere
MOST_SHARED = 128  # no more has one of two that are resident
# Registers of sums that a thread has room for, by warpgroups and resident CTAs: where at most a bias follows the sums
# of a single product, and where more is to be held.
MOST_SUMS = {(1, 1): (128, 48), (2, 1): (200, 128), (3, 1): (100, 0), (1, 2): (64, 16)}

# What the estimate was fitted to: 19 to 60 candidates on each of 298 shapes, bfloat16, on an H200, 2026-11-29
# (benchmarks/gpu/tune_products.py), where half of them alone gave constants that choose as well for the other half; and
# from there to 5 to 18 candidates on each of 246 shapes, 2026-11-30, with K in parts anywhere and operands turned. What
# is known of tiles in turns, of reads again and of tiles of 256 rows is from 400 others, of that day, too. Two were
# changed by 160 shapes, 2026-11-30, each half of which chooses better by them: what CTAs that share K tell each other
# (256 bytes of a column, at about 20 a cycle), and how much longer tensor cores take that are all at work.
CYCLES_A_US, HBM_BYTES_A_US = 1893.0, 4.34e6
START_US, CTA_US, OVERLAPPED = 0.584, 0.0021, 0.223  # OVERLAPPED: of the shorter of arithmetic and memory
# Of the time that an operand takes to come from memory, more for each doubling of the clusters that read it.
READ_AGAIN = 0.08
# Operations of 16 bits, when power is the limit; what loads take of it, and tiles of 256 rows.
POWERED_A_US, POWERED_LOADS, POWERED_HIGH = 799e6, 5.2, 0.03
FILL_CYCLES, SQUARE_CYCLES = 2240.0, 492.0  # of a kernel; where four CTAs share A and B
# Of a step; more where CTAs of a cluster wait for each other's loads, where two CTAs share the multiprocessor, and of
# tiles of 256 rows.
STEP_CYCLES, CLUSTER_STEP_CYCLES, RESIDENT_STEP_CYCLES, HIGH_STEP_CYCLES = 7.2, 42.9, 128.0, 100.0
TILE_CYCLES, RESULT_CYCLES, NARROW_CYCLES = 75.0, 0.0853, 176.0  # of a tile; of each result; of each halving below 32
PINGPONG_RESULT_CYCLES = 0.2  # of each result, where one warpgroup stores a tile
SLAB_CYCLES = 161.0  # of each slab beyond those of 64 columns
# Where CTAs share K: to exchange sums, for each column of a warpgroup; where the ring lends its memory; for clusters
# that begin when others have ended.
SUM_COLUMN_CYCLES, LENT_CYCLES, AGAIN_CYCLES = 13.0, 7000.0, 18200.0
# Where K is in parts anywhere: the kernel that adds them up, and what it reads.
COMBINED_US, PARTS_BYTES_A_US = 6.65, 6.35e6
TENSOR, TENSOR_BUSY = 1.036, 0.2  # of the ideal time of tensor cores; more, the more of them are at work
# Cycles for 128 bytes along K: of the L2 cache for a line, if all multiprocessors load (rows that begin inside of a
# sector, at no multiple of 32 bytes, lie in two); of the multiprocessor that they come to; of such rows beside, alone
# and with others. What a step needs overlaps, nearly: a mean of this power takes the largest, and a little of the rest.
LINE_CYCLES, OWN_CYCLES = 2.02, 1.75
ROW_CYCLES, LEAST_ROW, BUSY_ROW_CYCLES = 2.17, 0.592, 2.43
OVERLAP_POWER = 6.18


class Lies(NamedTuple):
    """How an operand lies in memory. aligned: do all rows begin at multiples of 32 bytes? turned: are rows contiguous
    along M or N?
    """

    aligned: bool = True
    turned: bool = False

    def lines(self, extent: int, there: int) -> float:
        """How many lines of the cache a tile of that extent asks for, in 128 bytes along K; so much of it is there."""
        if not self.turned:
            return min(extent, there)
        piece = math.gcd(64, extent)
        return -(-min(extent, there) // piece) * 64


@cache
def candidates() -> tuple[Tiles, ...]:
    """All tiles that there are to choose from, for any shape."""
    usual = [tiles for m, widths in COLUMNS.items() for n in widths for tiles in _variants(m, n)]
    return (*usual, *(tiles for m, widths in PINGPONG.items() for n in widths for tiles in _in_turns(m, n)))


@cache
def fitted(columns: int) -> tuple[Tiles, ...]:
    """Tiles whose columns are a short side of C, or nearly equal parts of it: none has more than seven too many."""
    if columns > MOST_FITTED:
        return ()
    widths = sorted({-(-columns // (8 * parts)) * 8 for parts in range(1, FITTED_PARTS + 1)})
    wide = [(m, n) for m in FITTED for n in widths if n <= 256 and n not in COLUMNS[m]]
    return tuple(tiles for m, n in wide for tiles in (*_variants(m, n), *_in_turns(m, n)))


def _variants(m: int, n: int) -> Iterator[Tiles]:
    """Tiles of this size: alone, for CTAs that share A and B, and for those that share K."""
    every = [Tiles(m, n, cluster=1)]
    if n > LEAST_SHARED and (m, n) != (192, 160):  # to which NVRTC 13.0 gives too few registers
        every += (Tiles(m, n, cluster=cluster) for cluster in ((2, 4) if m <= 128 else (2,)))
        every += (Tiles(m, n, cluster=cluster, beside=2) for cluster in ((1, 2) if m != 192 else (1,)))
    pairs = [1, 2] if m == 64 and n <= MOST_SHARED else [1]
    if 2 in pairs:
        every.append(Tiles(m, n, cluster=1, resident=2))
    every += (Tiles(m, n, cluster=1, parts=parts, resident=count) for parts in _parts(m, n) for count in pairs)
    return (tiles for tiles in every if _is_possible(tiles))


def _in_turns(m: int, n: int) -> Iterator[Tiles]:
    """Tiles of this size that two warpgroups take in turns."""
    for cluster, beside in itertools.product((1, 2), (1, 2)):
        tiles = Tiles(m, n, cluster=cluster, beside=beside, pingpong=True)
        if n > LEAST_SHARED and _is_possible(tiles):
            yield tiles


def _is_possible(tiles: Tiles) -> bool:
    """Has it the registers, and can each CTA that shares B load whole groups of 8 rows of it?

    Of tiles where they cannot, and of others whose K is shared in odd eights of columns, one never ended on an H200
    (2026-11-30; which one is not known), where the simulator finds no fault.
    """
    return tiles.n % (8 * tiles.cluster) == 0 and _has_room(tiles, simple=True)


def _parts(m: int, n: int) -> Iterator[int]:
    """By how many CTAs the K of a tile can be shared: each stores 8 columns or multiples of 16."""
    for parts in range(2, MOST_PARTS + 1):
        if (m, n, parts) == (128, 256, 2):  # to which NVRTC 13.0 gives too few registers
            continue
        even = n % (16 * parts) == 0 or (n <= MOST_SHARED and n & n - 1 == 0 and parts & parts - 1 == 0)
        if m < HIGH and even:
            yield parts


@cache
def chosen(
    m: int,
    n: int,
    k: int,
    processors: int,
    batch: int = 1,
    *,
    lie: tuple[Lies, Lies] = (Lies(), Lies()),
    simple: bool = True,
    most: int = 1,
) -> tuple[tuple[Tiles, bool], ...]:
    """The tiles that are estimated to be the fastest, best first, and whether the product is turned.

    k: in steps of the ring. lie: how a and b do. simple: does at most a bias follow the sums, and is there no batch?
    most: how many.
    """
    costs = {}
    for turned, extents, sides in ((False, (m, n), lie), (True, (n, m), lie[::-1])):
        for kernel in (*candidates(), *fitted(extents[1])):
            if kernel.parts > k or not _has_room(kernel, simple=simple):
                continue
            if kernel.pingpong and _clusters(kernel, extents) * batch <= clusters_at_once(kernel, processors):
                continue  # no CTA has two tiles
            for tiles in (kernel, *(_apart(kernel, extents, k, processors) if simple else ())):
                costs[tiles, turned] = estimated_us(tiles, extents, k, processors, batch, sides, turned=turned)
    return tuple(sorted(costs, key=lambda plan: costs[plan])[:most])


def _apart(tiles: Tiles, extents: tuple[int, int], k: int, processors: int) -> Iterator[Tiles]:
    """The same tiles with K in as many parts as fill the multiprocessors once, twice or three times."""
    clusters, at_once = _clusters(tiles, extents), clusters_at_once(tiles, processors)
    numbers = {rounds * at_once // clusters for rounds in (1, 2, 3)}
    for number in sorted(numbers):
        if 1 < number <= min(MOST_APART, k // tiles.parts):
            yield replace(tiles, apart=number)


def _clusters(tiles: Tiles, extents: tuple[int, int]) -> int:
    """How many clusters have all tiles of C."""
    return -(-extents[0] // (tiles.m * tiles.cluster)) * -(-extents[1] // (tiles.n * tiles.beside))


def clusters_at_once(tiles: Tiles, processors: int) -> int:
    """How many clusters run at the same time; more would wait until some of these are done with all their tiles."""
    return max(1, int(tiles.resident * clusters_on(processors, tiles.ctas)))


def _has_room(tiles: Tiles, *, simple: bool) -> bool:
    """Do the sums of a thread, and its share of those of all parts, leave it enough registers?"""
    sums = tiles.rows * (tiles.n + (tiles.share(8) if tiles.parts > 1 else 0)) // 128
    return sums <= MOST_SUMS[tiles.groups, tiles.resident][not simple]


def estimated_us(
    tiles: Tiles,
    extents: tuple[int, int],
    k: int,
    processors: int,
    batch: int = 1,
    lie: tuple[Lies, Lies] = (Lies(), Lies()),
    *,
    turned: bool = False,
) -> float:
    """About how many microseconds a product takes; extents: of the kernel's M and N; lie: how its A and B do, turned:
    is C?
    """
    (rows, columns), ctas = extents, tiles.ctas
    clusters = _clusters(tiles, extents) * batch * tiles.apart
    at_once = clusters_at_once(tiles, processors)
    busy = min(1.0, clusters * ctas / processors)
    together = max(1, min(tiles.resident, -(-clusters * ctas // processors)))
    tile = _tile_cycles(tiles, together, turned=turned)
    rounds = -(-clusters // at_once)
    work = -(-k // tiles.apart) / tiles.parts * _step_cycles(tiles, extents, lie, busy) * together
    period = max(work, (work + tile) / 2) if tiles.pingpong else work + tile
    cycles = work + tile + (rounds - 1) * period + FILL_CYCLES + SQUARE_CYCLES * (min(tiles.cluster, tiles.beside) > 1)
    if tiles.parts > 1:
        cycles += SUM_COLUMN_CYCLES * tiles.n * tiles.groups + LENT_CYCLES * tiles.lends + AGAIN_CYCLES * (rounds - 1)
    computed = cycles / CYCLES_A_US + START_US + CTA_US * min(clusters, at_once) * ctas
    moved = batch * (k * ROW_BYTES * (rows + columns) + 2 * rows * columns) / HBM_BYTES_A_US + START_US
    reads = rows * log2(-(-columns // (tiles.n * tiles.beside))) + columns * log2(-(-rows // (tiles.m * tiles.cluster)))
    again = READ_AGAIN * batch * k * ROW_BYTES * reads / HBM_BYTES_A_US
    powering = POWERED_LOADS * (tiles.m / tiles.beside + tiles.n / tiles.cluster) / (tiles.m * tiles.n)
    powering += POWERED_HIGH * ((tiles.m == HIGH) - tiles.pingpong)
    powered = batch * rows * columns * k * ROW_BYTES / POWERED_A_US * (1 + powering)
    combined = COMBINED_US + 4 * tiles.apart * rows * columns / PARTS_BYTES_A_US if tiles.apart > 1 else 0.0
    return max(max(computed, moved) + OVERLAPPED * min(computed, moved), powered) + combined + again


@cache
def _tile_cycles(tiles: Tiles, together: int, *, turned: bool) -> float:
    """Cycles of a tile beside its steps: what stores it takes most of them. together: CTAs of the multiprocessor."""
    results = tiles.m * tiles.n * (1 if tiles.apart == 1 else 2)  # those of parts have twice the bytes
    result = PINGPONG_RESULT_CYCLES if tiles.pingpong else RESULT_CYCLES * together
    unit = MatmulKind("bfloat16", "bfloat16", "bfloat16", (False, False, turned)).unit(tiles)
    slabs = tiles.rows / 64 * (tiles.n / unit - tiles.n / 64)
    return TILE_CYCLES + result * results + NARROW_CYCLES * max(0.0, 5 - log2(tiles.n)) + SLAB_CYCLES * slabs


def _step_cycles(tiles: Tiles, extents: tuple[int, int], lie: tuple[Lies, Lies], busy: float) -> float:
    """Cycles of a step of the ring. busy: the part of the multiprocessors that have work."""
    arithmetic = tiles.m // 16 * max(tiles.n / 2, 16 + tiles.n / 4) * TENSOR * (1 + TENSOR_BUSY * busy)
    a, b = lie[0].lines(tiles.m, extents[0]), lie[1].lines(tiles.n, extents[1])
    loaded = tuple(zip((a / tiles.beside, b / tiles.cluster), lie, strict=True))
    inside = sum(count for count, side in loaded if not side.aligned)
    loads = inside * max(ROW_CYCLES, ROW_CYCLES * LEAST_ROW + BUSY_ROW_CYCLES * busy)
    lines = sum(count if side.aligned else 2 * count for count, side in loaded)
    needs = (arithmetic, loads, LINE_CYCLES * lines * busy, OWN_CYCLES * (a + b))
    step = float(sum(need**OVERLAP_POWER for need in needs) ** (1 / OVERLAP_POWER)) + STEP_CYCLES
    step += CLUSTER_STEP_CYCLES * (tiles.cluster * tiles.beside > 1) + RESIDENT_STEP_CYCLES * (tiles.resident > 1)
    return step + HIGH_STEP_CYCLES * (tiles.m == HIGH)
