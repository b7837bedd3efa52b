"""The kernels that are measured: written as a user would write them, each copy by the variant that it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright import T, Tx
from tilewright.layout import S, TileLayout, laneid, mma_shared_layout, warpid

ROWS, COLUMNS = 16, 64  # of the tile that a warp moves at a time: 2 KiB of float16
WARPS = 32
SMS = 132
TILE_BYTES = ROWS * COLUMNS * 2
SWIZZLED = mma_shared_layout("float16", 3, (WARPS * ROWS, COLUMNS))
MATRICES = TileLayout(S[(2, 8, 8, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])
COLUMN_MATRICES = TileLayout(S[(8, 8, 2, 4, 2) : (4, 4 @ laneid, 2, 1 @ laneid, 1)])
VECTORS = TileLayout(S[(4, 4, 8, 8) : (8, 8 @ laneid, 1 @ laneid, 1)])
WORDS = TILE_BYTES // 4 // 32  # of a lane
BYTES = 32768  # of shared memory, for single accesses


@dataclass(frozen=True, slots=True)
class Way:
    """One way between shared memory and registers. variant: that must take the copy. stores: to shared memory?"""

    name: str
    variant: str
    registers: TileLayout
    layout: object
    trans: bool = False
    stores: bool = False


WAYS = (
    Way("ldmatrix.x4", "ldstmatrix", MATRICES, SWIZZLED),
    Way("ldmatrix.x4.trans", "ldstmatrix", COLUMN_MATRICES, SWIZZLED, trans=True),
    Way("stmatrix.x4", "ldstmatrix", MATRICES, SWIZZLED, stores=True),
    Way("stmatrix.x4.trans", "ldstmatrix", COLUMN_MATRICES, SWIZZLED, trans=True, stores=True),
    Way("ld.shared.v4", "reg", VECTORS, S[(WARPS * ROWS, COLUMNS)]),
    Way("st.shared.v4", "reg", VECTORS, S[(WARPS * ROWS, COLUMNS)], stores=True),
)


def moving(way: Way, turns: int) -> Any:
    """Each of 32 warps moves its tile ``turns`` times, from or to a place that depends on the data moved before.

    With random positive numbers that is always the same place, which only the data knows: nothing can be hoisted, and
    no load is left out, since every register has a say.
    """
    shape = (COLUMNS, ROWS) if way.trans else (ROWS, COLUMNS)
    variant = way.variant

    @T.prim_func
    def move(X: T.Buffer((WARPS * ROWS, COLUMNS), "float16"), Y: T.Buffer((SMS * WARPS * ROWS, COLUMNS), "float16"),
             cycles: T.Buffer((SMS,), "int64")):  # fmt: skip
        cta = T.cta_id([SMS])
        tid = T.thread_id([32 * WARPS])
        warp = T.warp_id([WARPS])
        T.lane_id([32])
        A = T.alloc_buffer((WARPS * ROWS, COLUMNS), "float16", scope="shared", layout=way.layout)
        R = T.alloc_buffer(shape, "float16", scope="local", layout=way.registers)
        words = R.local().view("uint32")
        turned = A.permute(1, 0)
        Tx.cta.copy(A[:, :], X[:, :])
        T.cuda.cta_sync()
        Tx.warp.copy(R[:, :], turned[:, warp * ROWS : warp * ROWS + ROWS]) if way.trans else Tx.warp.copy(
            R[:, :], A[warp * ROWS : warp * ROWS + ROWS, :]
        )
        place: T.int32 = warp
        T.cuda.cta_sync()
        start: T.let = T.cuda.clock()
        for _ in range(turns):
            if way.stores:
                if way.trans:
                    Tx.warp.copy(turned[:, place * ROWS : place * ROWS + ROWS], R[:, :], dispatch=variant)
                else:
                    Tx.warp.copy(A[place * ROWS : place * ROWS + ROWS, :], R[:, :], dispatch=variant)
                place = (place + 1 + T.cast(words[0] >> 31, "int32")) % WARPS  # elsewhere, or stores could be left out
            else:
                if way.trans:
                    Tx.warp.copy(R[:, :], turned[:, place * ROWS : place * ROWS + ROWS], dispatch=variant)
                else:
                    Tx.warp.copy(R[:, :], A[place * ROWS : place * ROWS + ROWS, :], dispatch=variant)
                signs: T.uint32 = words[0]
                for k in T.unroll(WORDS - 1):
                    signs = signs | words[k + 1]
                place = warp ^ T.cast(signs >> 31, "int32")
        T.cuda.cta_sync()
        stop: T.let = T.cuda.clock()
        if tid == 0:
            cycles[cta] = stop - start
        base: T.let = (cta * WARPS + warp) * ROWS
        if way.trans:
            Tx.warp.copy(Y.permute(1, 0)[:, base : base + ROWS], R[:, :])
        else:
            Tx.warp.copy(Y[base : base + ROWS, :], R[:, :])

    return move


def fragment(rows: int, columns: int, warps: int) -> TileLayout:
    """Registers of a CTA for rows x columns of float16: each warp a share of the rows, in 8 x 8 matrices."""
    each, across = rows // (8 * warps), columns // 8
    return TileLayout(S[(warps, each, 8, across, 4, 2) : (1 @ warpid, 2 * across, 4 @ laneid, 2, 1 @ laneid, 1)])


def copying(n: int, *, rows: int = 64, warps: int = 4) -> Any:
    """Global to shared memory to registers and all the way back; one tile of rows x 64 for each CTA."""
    layout = mma_shared_layout("float16", 3, (rows, COLUMNS))

    @T.prim_func
    def copy(X: T.Buffer((n, COLUMNS), "float16"), Y: T.Buffer((n, COLUMNS), "float16")):
        bx = T.cta_id([n // rows])
        T.warp_id([warps])
        T.lane_id([32])
        A = T.alloc_buffer((rows, COLUMNS), "float16", scope="shared", layout=layout)
        R = T.alloc_buffer((rows, COLUMNS), "float16", scope="local", layout=fragment(rows, COLUMNS, warps))
        Tx.cta.copy(A[:, :], X[bx * rows : bx * rows + rows, :], dispatch="gmem_smem")
        T.cuda.cta_sync()
        Tx.cta.copy(R[:, :], A[:, :], dispatch="ldstmatrix")
        T.cuda.warp_sync()  # before any lane overwrites what others read
        Tx.cta.copy(A[:, :], R[:, :], dispatch="ldstmatrix")
        T.cuda.cta_sync()
        Tx.cta.copy(Y[bx * rows : bx * rows + rows, :], A[:, :], dispatch="gmem_smem")

    return copy


def transposing(n: int, *, rows: int = 64, columns: int = 64, warps: int = 4, one: bool = False, down: bool = False,
                least: int = 0, back: str = "stmatrix") -> Any:  # fmt: skip
    """Each CTA turns a tile of rows x columns.

    one: the turned tile takes the place of the first in shared memory. down: neighbouring CTAs read below each other.
    least: CTAs that a multiprocessor must hold. back: transpose on the way into registers, or out of them.
    """
    before = mma_shared_layout("float16", 3, (rows, columns))
    after = mma_shared_layout("float16", 3, (columns, rows))

    @T.prim_func
    def transpose(X: T.Buffer((n, n), "float16"), Y: T.Buffer((n, n), "float16")):
        if least:
            T.attr({"tirx.launch_bounds_min_blocks_per_sm": least})
        first, second = T.cta_id([n // (rows if down else columns), n // (columns if down else rows)])
        T.warp_id([warps])
        T.lane_id([32])
        A = T.alloc_buffer((rows, columns), "float16", scope="shared", layout=before)
        B = (
            A.view(columns, rows, layout=after)
            if one
            else T.alloc_buffer((columns, rows), "float16", scope="shared", layout=after)
        )
        R = T.alloc_buffer((columns, rows), "float16", scope="local", layout=fragment(columns, rows, warps))
        y: T.let = (first if down else second) * rows
        x: T.let = (second if down else first) * columns
        Tx.cta.copy(A[:, :], X[y : y + rows, x : x + columns], dispatch="gmem_smem")
        T.cuda.cta_sync()
        Tx.cta.copy(R[:, :], A.permute(1, 0)[:, :], dispatch="ldstmatrix")
        if one:
            T.cuda.cta_sync()
        Tx.cta.copy(B[:, :], R[:, :], dispatch="ldstmatrix")
        T.cuda.cta_sync()
        Tx.cta.copy(Y[x : x + columns, y : y + rows], B[:, :], dispatch="gmem_smem")

    return transpose


# One access each, for the counters


def vector_access(nbytes: int, *, stores: bool) -> Any:
    """One access of ``nbytes`` by each lane, at the byte that ``places`` names; -1: by none."""
    words = nbytes // 4

    @T.prim_func
    def access(places: T.Buffer((32,), "int32"), X: T.Buffer((128,), "uint32"), Y: T.Buffer((128,), "uint32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((BYTES // 4,), "uint32", align=128)
        R = T.alloc_local((4,), "uint32")
        for k in T.unroll(4):
            R[k] = X[lane * 4 + k]
        if not stores:
            for i in range(BYTES // 128):
                tile[i * 32 + lane] = X[lane] + i
            T.cuda.warp_sync()
        if places[lane] >= 0:
            if stores:
                T.cuda.copy_bytes(tile.ptr_to([places[lane] // 4]), R.ptr_to([0]), nbytes)
            else:
                T.cuda.copy_bytes(R.ptr_to([0]), tile.ptr_to([places[lane] // 4]), nbytes)
        if stores:  # read it, or the compiler leaves out the store
            T.cuda.warp_sync()
            Y[lane] = tile[(X[0] % 64) * 32 + lane]
        else:
            for k in T.unroll(words):
                Y[lane * 4 + k] = R[k]

    return access


def matrix_access(num: int, *, stores: bool) -> Any:
    """One ldmatrix or stmatrix of ``num`` matrices, whose rows begin where ``places`` says."""

    @T.prim_func
    def access(places: T.Buffer((32,), "int32"), X: T.Buffer((128,), "uint32"), Y: T.Buffer((128,), "uint32")):
        T.cta_id([1])
        lane = T.lane_id([32])
        tile = T.alloc_shared((BYTES // 4,), "uint32", align=128)
        R = T.alloc_local((4,), "uint32")
        for k in T.unroll(4):
            R[k] = X[lane * 4 + k]
        if not stores:
            for i in range(BYTES // 128):
                tile[i * 32 + lane] = X[lane] + i
            T.cuda.warp_sync()
        if stores:
            T.ptx.stmatrix(False, num, ".b16", tile.ptr_to([places[lane] // 4]), *[R[k] for k in range(num)])
        else:
            T.ptx.ldmatrix(False, num, ".b16", tile.ptr_to([places[lane] // 4]), *[R[k] for k in range(num)])
        for k in T.unroll(4):
            Y[lane * 4 + k] = R[k]

    return access
