"""C = (A * SFA) @ (B * SFB).T with a scale for each block along K: mxfp8 and nvfp4, a ring of stages.

mxfp8 has 8-bit floats and a power of two for each 32 of them, nvfp4 4-bit floats and an 8-bit float for each 16. Scales
are stored as cuBLAS has them, 128 rows by 4 blocks in 512 bytes; `tcgen05.cp` brings each 512 bytes to the four columns
of tensor memory in which a product looks for them. It stays before the product by itself; a commit waits for both.
Each 128 rows of A say which B is theirs: one for all here, several in blackwell_grouped.py. Run it as a module,
`python -m examples.blackwell_scaled`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tilewright as tw
from examples.blackwell.parts import begin, end, scaled_inputs, store_rows
from tilewright import T, Tx
from tilewright.layout import S, TCol, TLane, mma_shared_layout, sf_smem_layout, sf_tmem_layout

STEP, STAGES = 128, 2


class Format(NamedTuple):
    """element, scale: dtypes. scales: of a row in a stage; per_mma: those of an instruction. width: bytes of a row."""

    element: str
    scale: str
    scales: int
    per_mma: int
    width: int


FORMATS = {"mxfp8": Format("float8_e4m3fn", "float8_e8m0fnu", 4, 1, 128),
           "nvfp4": Format("float4_e2m1fn", "float8_e4m3fn", 8, 4, 64)}  # fmt: skip


@T.inline
def bring(made, sources, tiles, full, empty, firsts):
    """TMA fills a stage once its last product is over."""
    nbytes = T.meta_var(sum(tile.shape[1] for tile in tiles[:2]) * made.width + 256 * made.scales)
    for turn in T.serial(sources[2].shape[1]):
        stage, k = turn % STAGES, turn * made.width
        bar = full.ptr_to([stage])
        T.ptx.mbarrier.try_wait(empty.ptr_to([stage]), 1 - turn // STAGES % 2)
        T.ptx.mbarrier.arrive.expect_tx(bar, nbytes)
        for source, tile, first in zip(sources[:2], tiles[:2], firsts[:2], strict=True):
            Tx.copy_async(tile[stage, :, :], source[first : first + tile.shape[1], k : k + made.width], mbar=bar)
        for source, tile, first in zip(sources[2:], tiles[2:], firsts[2:], strict=True):
            Tx.copy_async(tile[stage, :], source[first, turn, :], mbar=bar)


@T.inline
def multiply(made, tiles, full, empty, acc, addr, turns):
    """Scales go to tensor memory, then the product; a commit hands the stage back."""
    n = T.meta_var(acc.shape[1])
    left, right = [tile.view(made.element) for tile in tiles[:2]]
    in_shared = sf_smem_layout(128, made.scales, pipe_depth=STAGES)
    in_tmem = sf_tmem_layout(128, made.scales, made.per_mma)
    scales = [tile.view(STAGES, 128, made.scales, layout=in_shared) for tile in tiles[2:]]
    for turn in T.serial(turns):
        stage = turn % STAGES
        T.ptx.mbarrier.try_wait(full.ptr_to([stage]), turn // STAGES % 2)
        T.ptx.tcgen05.fence.after_thread_sync()  # the copies come after the products that have read these columns
        first: T.let = addr + n + 2 * stage * made.scales
        taken = [T.decl_buffer((128, made.scales), made.scale, scope="tmem", layout=in_tmem,
                               allocated_addr=first + side * made.scales) for side in range(2)]  # fmt: skip
        for into, source in zip(taken, scales, strict=True):
            Tx.copy_async(into[:, :], source[stage, :, :])
        Tx.gemm_async(acc, left[stage, :, :], right[stage, :, :], turn != 0, SFA=taken[0], SFB=taken[1][0:n, :])
        T.ptx.tcgen05.commit(empty.ptr_to([stage]), cta_group=1)


def scaled(made: Format, m: int, n: int, k: int, groups: int = 1) -> Any:
    """The kernel. A and B come as bytes, scales as blocks of 512 bytes; owner: the group of each 128 rows of A."""
    tile = [mma_shared_layout("uint8", made.width // 64 + 1, (STAGES, rows, made.width)) for rows in (128, n)]
    turns, block_bytes = blocks = k // STEP, 128 * made.scales

    @T.prim_func
    def product(
        A: T.Buffer((m, turns * made.width), "uint8"), B: T.Buffer((groups * n, turns * made.width), "uint8"),
        SFA: T.Buffer((m // 128, *blocks), made.scale), SFB: T.Buffer((groups, *blocks), made.scale),
        owner: T.Buffer((m // 128,), "int32"), C: T.Buffer((m, n), "float32"),
    ):  # fmt: skip
        block, warp_id, tid = T.cta_id([m // 128]), T.warp_id([8]), T.thread_id([256])
        tiles = [T.alloc_shared((STAGES, rows, made.width), "uint8", layout=each)
                 for rows, each in zip((128, n), tile, strict=True)]  # fmt: skip
        tiles = [*tiles, *(T.alloc_shared((STAGES, block_bytes), made.scale, align=128) for _ in range(2))]
        addr, done = T.alloc_shared([1], "uint32"), T.alloc_shared([1], "uint64")
        full, empty = [T.alloc_shared([STAGES], "uint64") for _ in range(2)]
        begin(addr, 256, warp_id, tid, full, empty, done)
        acc = T.decl_buffer((128, n), "float32", scope="tmem", allocated_addr=addr[0],
                            layout=S[(128, n) : (1 @ TLane, 1 @ TCol)])  # fmt: skip
        if warp_id < 4:
            store_rows(C, block * 128, acc, done.ptr_to([0]), 0)
        elif warp_id == 4 and T.ptx.elect_sync():
            group: T.let = owner[block]
            bring(made, (A, B, SFA, SFB), tiles, full, empty, (block * 128, group * n, block, group))
        elif warp_id == 5 and T.ptx.elect_sync():
            multiply(made, tiles, full, empty, acc, addr[0], turns)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
        end(addr, 256, warp_id)

    return product


def main() -> None:
    m, n, k = 256, 128, 512
    for name, made in FORMATS.items():
        operands, wanted = scaled_inputs(made, (m, n), k)
        c = np.zeros((m, n), np.float32)
        exe = tw.compile(scaled(made, m, n, k), target="sm_100a")
        run = exe.simulate(*operands, np.zeros(m // 128, np.int32), c, check="all")
        assert np.array_equal(c, wanted)
        print(f"{name}: {m} x {n} x {k}, exact; {len(run.warnings)} warnings")


if __name__ == "__main__":
    main()
