"""`kernels.matmul`: the arrays that are multiplied, the choice of tiles, the layouts of operands, and the operator.

Rows of an operand are contiguous along K or, of 16-bit elements, along M or N, and begin at multiples of 16 bytes; any
other is copied first. A product with few rows is turned: the weights' rows are the M of the kernel. Where C has too few
tiles for all multiprocessors, the CTAs of a cluster share K. Where K is short, one tile is stored while the next one is
multiplied.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log2, prod
from numbers import Real
from typing import Any, NamedTuple

from tilewright import host
from tilewright.dtypes import dtype
from tilewright.errors import ArgumentError, TargetError, choices, described
from tilewright.isa import SECTOR_BYTES, clusters_on
from tilewright.kernels.arrays import (
    Array,
    contiguous,
    expect,
    info_of,
    kind_of,
    like,
    multiprocessors,
    public,
)
from tilewright.kernels.combine import combine
from tilewright.kernels.forms import ACTIVATIONS, ROW_BYTES, MatmulKind, Tiles
from tilewright.kernels.matmul import product
from tilewright.kernels.operators import Arrays, Launches, TorchOperator

# Which tiles a product gets: those that are estimated to be the fastest of all candidates.
#
# A product may also be *turned*: the rows of the weights are then the M of the kernel.
#
# `make tune`: of 4 cases the estimate has another choice 1 % faster in 3:
#   matmul 2048^3: 128x128 c1 p1 r1 25.0 us (measured 28.3), taken 128x256 c1 p1 r1 28.4 us (measured 28.0)
#   matmul 4096^3: 128x128 c1 p1 r1 178.7 us (measured 195.2), taken 128x256 c1 p1 r1 183.9 us (measured 188.7)
#   matmul 128 x 4096 x 4096: 128x64 c1 p2 r1 13.9 us, taken 64x128 c1 p2 r1, turned 16.4 us


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


HALVES, FLOAT8 = ("bfloat16", "float16"), ("float8_e4m3fn", "float8_e5m2")
KINDS = (*HALVES, "float32", *FLOAT8)
RESULTS = (*HALVES, "float32")
ALIGNED = 16  # bytes: rows begin at multiples
MOST_TRIED = 4  # tiles, where registers do not suffice


def laid_out(array: Array, *, may_turn: bool) -> tuple[Array, bool]:
    """An operand, (..., rows, K), as the kernel takes it: itself or a copy, or turned, (..., K, rows)."""
    nbytes = _bytes(array)
    if _fits(array, nbytes):
        return array, False
    turned = array.swapaxes(-1, -2)
    if may_turn and _fits(turned, nbytes):
        return turned, True
    return padded(array, nbytes), False


def _fits(array: Array, nbytes: int) -> bool:
    info = info_of(array)
    *steps, last = (int(step) for step in info.steps)
    aligned = all(step * nbytes % ALIGNED == 0 for step in steps) and (info.address or 0) % ALIGNED == 0
    return aligned and last == 1 and all(step > 0 for step in steps) and steps[-1] >= array.shape[-1]


def padded(array: Array, nbytes: int) -> Array:
    """A copy whose rows begin at multiples of 16 bytes."""
    if array.shape[-1] * nbytes % ALIGNED == 0:
        copy = contiguous(array)
        return copy if _fits(copy, nbytes) else copied(like(array), array)
    return copied(room(array, array.shape, kind_of(array)), array)


def room(array: Array, shape: Any, kind: str) -> Array:
    """A new array of that shape whose rows begin at multiples of 16 bytes."""
    run = ALIGNED * 8 // dtype(kind).bits
    *outer, columns = shape
    return like(array, (*outer, -(-columns // run) * run), kind)[..., :columns]


def zeros(array: Array, shape: Any, kind: str | None = None) -> Array:
    """A new array of zeros."""
    return filled(like(array, shape, kind), 0)


def filled(to: Array, number: float) -> Array:
    """The array, with this number in each place; torch by `fill_`, which remembered calls can do again."""
    if host.is_torch(to):
        to.fill_(number)
    else:
        to[...] = number
    return to


def copied(to: Array, array: Array) -> Array:
    to[...] = array
    return to


# The operator


def outputs(a: Array, b: Array, bias: Array, residual: Array, scale_a: Array, scale_b: Array, activation: str,
            result: str) -> Arrays:  # fmt: skip
    expect("a", a, KINDS)
    expect("b", b, FLOAT8 if kind_of(a) in FLOAT8 else (kind_of(a),))
    fits = len(a.shape) >= 2 and len(b.shape) in (2, len(a.shape)) and a.shape[-1] == b.shape[-2]
    if not fits or (len(b.shape) > 2 and tuple(a.shape[:-2]) != tuple(b.shape[:-2])):
        raise ArgumentError("a and b have no product", given=f"shapes {tuple(a.shape)} and {tuple(b.shape)}",
                            allowed="(..., M, K) and (K, N), or (..., K, N) with the same dimensions")  # fmt: skip
    kind = result or ("bfloat16" if kind_of(a) in FLOAT8 else kind_of(a))
    if kind not in RESULTS:
        raise ArgumentError(f"no result of {kind}", given=kind, allowed=choices(kind, RESULTS))
    if activation not in ACTIVATIONS:
        raise ArgumentError(
            "no such activation", given=repr(activation), allowed=choices(activation, tuple(filter(None, ACTIVATIONS)))
        )
    c = like(a, (*a.shape[:-1], b.shape[-1]), kind)
    _check_epilogue(c, bias, residual, scale_a, scale_b)
    return (c,)


def _check_epilogue(c: Array, bias: Array, residual: Array, scale_a: Array, scale_b: Array) -> None:
    if bias is not None:
        expect("bias", bias, RESULTS, shape=c.shape[-1:])
    if residual is not None:
        expect("residual", residual, RESULTS, shape=c.shape)
    if scale_a is None:
        return
    rows, columns = prod(c.shape[:-1]), c.shape[-1]
    sizes = (tuple(scale_a.shape), tuple(scale_b.shape))
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        expect(name, scale, ("float32",))
    if sizes not in (((1,), (1,)), ((rows,), (columns,))):
        raise ArgumentError("the scales do not fit", given=f"shapes {sizes[0]} and {sizes[1]}",
                            allowed=f"one number each, or ({rows},) and ({columns},)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class After:
    """The arrays of an epilogue, or None. `Any`: arrays."""

    bias: Any = None
    residual: Any = None
    scale_a: Any = None
    scale_b: Any = None
    activation: str = ""

    @property
    def is_simple(self) -> bool:
        """Is there at most a bias?"""
        return self.residual is None and self.scale_a is None and not self.activation

    @property
    def kinds(self) -> dict[str, str]:
        """The fields of a `MatmulKind` for it."""
        kinds = {name: kind_of(array) for name in ("bias", "residual") if (array := getattr(self, name)) is not None}
        numbers = () if self.scale_a is None else (self.scale_a.shape[0], self.scale_b.shape[0])
        scales = {(): "", (1, 1): "tensor"}.get(numbers, "rows")
        return {**kinds, "activation": self.activation, "scales": scales}

    def arrays(self, *, turned: bool, batch: tuple[int, ...]) -> Arrays:
        """The arrays as the kernel takes them, 0 for a missing one. turned: the bias is one for each row."""
        bias, residual, scale_a, scale_b = self.bias, self.residual, self.scale_a, self.scale_b
        if bias is not None:
            bias = contiguous(bias).reshape((-1, 1) if turned else (1, -1))
        if residual is not None and not _fits(residual, _bytes(residual)):
            residual = padded(residual, _bytes(residual))
        if scale_a is not None:
            batch = batch if self.kinds["scales"] == "rows" else ()
            scale_a, scale_b = contiguous(scale_a), contiguous(scale_b)
            if turned:
                scale_a, scale_b = scale_b.reshape(-1, 1), scale_a.reshape(*batch, 1, -1)
            else:
                scale_a, scale_b = scale_a.reshape(*batch, -1, 1), scale_b.reshape(1, -1)
        return tuple(0 if array is None else array for array in (bias, residual, scale_a, scale_b))


def run(results: Arrays, args: Arrays) -> Launches:
    a, b, bias, residual, scale_a, scale_b, activation, _ = args
    c = results[0]
    if a.shape[-1] == 0:  # what follows the product is that of zeros
        a, b = zeros(a, (*a.shape[:-1], ALIGNED)), zeros(b, (*b.shape[:-2], ALIGNED, b.shape[-1]))
    if len(b.shape) == 2:
        a, c, residual = (None if x is None else _matrix(x) for x in (a, c, residual))
    elif len(b.shape) > 3:
        a, b, c, residual = (None if x is None else x.reshape(-1, *x.shape[-2:]) for x in (a, b, c, residual))
    into = c if _fits(c, _bytes(c)) else room(c, c.shape, kind_of(c))
    yield from launches(into, a, b.swapaxes(-1, -2), After(bias, residual, scale_a, scale_b, activation))
    if into is not c:
        c[...] = into


def multiplied(
    c: Array, a: Array, b: Array, after: After = After(), plan: tuple[Tiles, bool] | None = None
) -> None:  # fmt: skip
    """C = A @ B.T and the epilogue, carried out; as `launches` says."""
    for compiled, arguments in launches(c, a, b, after, plan):
        compiled(*arguments)


def launches(
    c: Array, a: Array, b: Array, after: After = After(), plan: tuple[Tiles, bool] | None = None
) -> Launches:  # fmt: skip
    """C = A @ B.T and the epilogue, for one matrix each or equally many; C is as the kernel takes it.

    plan: the tiles, and are the weights' rows the M of the kernel? Chosen if left out.
    """
    sides = [laid_out(array, may_turn=kind_of(array) in HALVES) for array in (a, b)]
    tiles, turned = plan or _plan(c, a, b, sides, after)
    left, right = sides[::-1] if turned else sides
    down, across = (array.shape[-1 if lies_turned else -2] for array, lies_turned in (left, right))
    high, wide = tiles.m * tiles.cluster, tiles.n * tiles.beside
    work = tiles.apart * prod(c.shape[:-2]) * -(-down // high) * -(-across // wide)
    clusters = min(work, clusters_at_once(tiles, multiprocessors(a)))
    form = _form(c, sides, after, turned)
    kernel = product(*kernel_of(tiles, form))
    if tiles.apart == 1:
        yield kernel, (left[0], right[0], c, *after.arrays(turned=turned, batch=c.shape[:-2]), clusters)
        return
    sums = room(c, (tiles.apart, *c.shape), "float32")
    yield kernel, (left[0], right[0], sums, 0, 0, 0, 0, clusters)
    bias = 0 if after.bias is None else contiguous(after.bias)
    yield combine(tiles.apart, form.c, form.bias), (sums, bias, c)


def kernel_of(tiles: Tiles, form: MatmulKind) -> tuple[Tiles, MatmulKind]:
    """What the kernel is made of: where K is in parts anywhere, its results are their sums."""
    if tiles.apart == 1:
        return tiles, form
    return replace(tiles, apart=1), replace(form, c="float32", bias="", partial=True)


def _plan(c: Array, a: Array, b: Array, sides: Sequence[tuple[Array, bool]], after: After) -> tuple[Tiles, bool]:
    """The tiles that are estimated to be the fastest, of those that the GPU's compiler finds registers for."""
    steps = -(-a.shape[-1] * dtype(kind_of(a)).bits // (8 * ROW_BYTES))
    batched = len(c.shape) > 2
    best = chosen(
        a.shape[-2], b.shape[-2], steps, multiprocessors(a), c.shape[0] if batched else 1,
        lie=(_lies(*sides[0]), _lies(*sides[1])), simple=after.is_simple and not batched,
        most=MOST_TRIED,
    )  # fmt: skip
    if host.device_of(a) == "cpu":
        return best[0]
    return next((plan for plan in best if has_registers(plan[0], _form(c, sides, after, plan[1]))), best[-1])


@cache
def has_registers(tiles: Tiles, form: MatmulKind) -> bool:
    """Does the kernel assemble without spills? Some versions of the compiler need more registers than others."""
    try:
        return bool(product(*kernel_of(tiles, form)).assembly)
    except TargetError:
        return False


def _form(c: Array, sides: Sequence[tuple[Array, bool]], after: After, turned: bool) -> MatmulKind:
    (a, a_turned), (b, b_turned) = sides[::-1] if turned else sides
    kinds = [_multiplied_as(kind_of(array)) for array in (a, b)]
    lie = (a_turned, b_turned, turned)
    return MatmulKind(kinds[0], kinds[1], kind_of(c), lie, len(c.shape) > 2, partial=False, **after.kinds)


def _lies(array: Array, turned: bool) -> Lies:
    """How an operand lies. Memory moves 32 bytes at once."""
    info = info_of(array)
    starts = [int(step) * _bytes(array) for step in info.steps[:-1]]
    return Lies(all(start % SECTOR_BYTES == 0 for start in (*starts, info.address or 0)), turned)


def _bytes(array: Array) -> int:
    """Bytes of an element."""
    return dtype(kind_of(array)).bits // 8


def _multiplied_as(kind: str) -> str:
    return "tf32" if kind == "float32" else kind


def gradient(args: Arrays, results: Arrays, gradients: Arrays) -> Arrays:
    torch = sys.modules["torch"]
    a, b, bias, residual, scale_a, _, activation, _ = args
    if scale_a is not None or kind_of(a) in FLOAT8:
        raise ArgumentError("a product with scales or of float8 has no gradient",
                            given=f"a of {kind_of(a)}{'' if scale_a is None else ' with scale_a'}",
                            allowed=f"no scales, and {', '.join((*HALVES, 'float32'))}")  # fmt: skip
    (slope,) = gradients
    inner = slope
    if activation:
        before = FORWARD(a, b, bias, None, None, None, "", "float32")
        inner = SLOPES[activation](torch, slope.float(), before)
    sums = None if bias is None else _matrix(inner).sum(0, dtype=torch.float32).to(bias.dtype)
    inner = inner.to(a.dtype)
    rows, columns = (_matrix(x) if len(b.shape) == 2 else x for x in (a, inner))
    da = FORWARD(inner, b.transpose(-1, -2), None, None, None, None, "", "")
    db = FORWARD(rows.transpose(-1, -2), columns, None, None, None, None, "", "")
    return (da, db, sums, None if residual is None else slope.to(residual.dtype), None, None, None, None)


def _matrix(array: Array) -> Array:
    """All rows below each other, also of an array without any element."""
    return array.reshape(prod(array.shape[:-1]), array.shape[-1])


# For each activation, its derivative times the slope after it, in operators of torch.
SLOPES: dict[str, Any] = {
    "relu": lambda torch, slope, x: torch.ops.aten.threshold_backward(slope, x, 0),
    "gelu": lambda torch, slope, x: torch.ops.aten.gelu_backward(slope, x),
    "silu": lambda torch, slope, x: torch.ops.aten.silu_backward(slope, x),
}
FORWARD = TorchOperator(
    "matmul",
    "(Tensor a, Tensor b, Tensor? bias, Tensor? residual, Tensor? scale_a, Tensor? scale_b, str activation, str result)"
    " -> Tensor",
    outputs,
    run,
    gradient,
    runs_on_nothing=True,
)


def _flat(name: str, scale: Any, a: Array) -> Array | None:
    """A scale as a line of numbers, where ``a`` is. Raises ArgumentError for what is neither."""
    if scale is None:
        return None
    if isinstance(scale, Real) and host.is_array(a):
        return filled(like(a, (1,), "float32"), float(scale))
    if not host.is_array(scale):
        raise ArgumentError(f"{name} is neither a number nor an array", given=described(scale),
                            allowed="a number, or an array of float32")  # fmt: skip
    return scale.reshape(-1)


def _scales(a: Array, b: Array, scale_a: Any, scale_b: Any) -> tuple[Array | None, Array | None]:
    """Both scales as lines of numbers: 1 for one that is left out, and one number for each row beside one for each
    column, or the other way round.
    """
    lines = [_flat(name, scale, a) for name, scale in (("scale_a", scale_a), ("scale_b", scale_b))]
    if all(line is None for line in lines) or not (host.is_array(a) and host.is_array(b)):
        return None, None
    of_a, of_b = (filled(like(a, (1,), "float32"), 1.0) if line is None else line for line in lines)
    if (of_a.shape[0] == 1) != (of_b.shape[0] == 1):
        if of_a.shape[0] == 1:
            of_a = copied(like(of_a, (prod(a.shape[:-1]),)), of_a)
        else:
            of_b = copied(like(of_b, b.shape[-1:]), of_b)
    return of_a, of_b


@public.names
def matmul(
    a: Array,
    b: Array,
    *,
    bias: Array | None = None,
    activation: str | None = None,
    residual: Array | None = None,
    scale_a: Array | float | None = None,
    scale_b: Array | float | None = None,
    dtype: str | None = None,
) -> Array:
    """activation(a @ b * scale_a * scale_b + bias) + residual, in float32 sums; differentiable in torch without scales.

    a: (..., M, K). b: (K, N), or (..., K, N). Both float16, bfloat16, float32 (multiplied as tf32) or, in any mix,
    float8_e4m3fn and float8_e5m2. They may be transposed views: no copy is made of 16-bit ones, nor of a b with K
    contiguous. dtype: of the result, "float32", "float16", "bfloat16"; that of a if left out, of float8 bfloat16.
    bias: N numbers. residual: as large as the result. activation: "relu", "gelu", "silu". scale_a, scale_b: a number,
    or a float32 array of one number, or of one for each row of a, for each column of b; 1 where left out.
    """
    return FORWARD(a, b, bias, residual, *_scales(a, b, scale_a, scale_b), activation or "", dtype or "")
