"""What `mma` measures: a matrix product by mma.sync with a ring of stages, and a loop that only multiplies."""

from dataclasses import dataclass

import tilewright as tw
from tilewright.lang import T, Tx
from tilewright.layout import mma_fragment_layout, mma_shared_layout

DEPTH = 64  # of a stage: rows of 128 bytes, as wide as the swizzle


@dataclass(frozen=True, slots=True)
class Tiles:
    """m, n: a CTA's tile. warps: that share it, along M and along N. stages: of the ring. resident: CTAs
    of a multiprocessor.
    """

    m: int = 128
    n: int = 256
    warps: tuple[int, int] = (2, 4)
    stages: int = 4
    resident: int = 1
    ahead: bool = False

    @property
    def threads(self) -> int:
        return 32 * self.warps[0] * self.warps[1]


def product(tiles: Tiles) -> tw.Executable:
    """D = A @ B.T, in float16; extents are whole tiles."""
    sums_layout = mma_fragment_layout("D", (tiles.m, tiles.n), "float32", warps=tiles.warps)

    @T.prim_func
    def mma_product(a: T.handle, b: T.handle, d: T.handle):
        m, n, k = T.int32(), T.int32(), T.int32()
        A, B = T.match_buffer(a, (m, k), "float16"), T.match_buffer(b, (n, k), "float16")
        D = T.match_buffer(d, (m, n), "float16")
        T.func_attr({"min_blocks": tiles.resident})
        for extent, tile in ((m, tiles.m), (n, tiles.n), (k, DEPTH)):
            T.assume(extent % tile == 0)
        down, right = T.cta_id([m // tiles.m, n // tiles.n])
        T.thread_id([tiles.threads])
        left, top = (
            T.alloc_buffer((tiles.stages, rows, DEPTH), "float16", scope="shared",
                           layout=mma_shared_layout("float16", 3, (tiles.stages, rows, DEPTH)))
            for rows in (tiles.m, tiles.n)
        )  # fmt: skip
        sums = T.alloc_buffer((tiles.m, tiles.n), "float32", scope="local", layout=sums_layout)

        @T.inline
        def load(step):
            if step * DEPTH < k:
                for ring, source, tile in ((left, A, down), (top, B, right)):
                    rows = T.meta_var(ring.shape[1])
                    part = source[tile * rows : tile * rows + rows, step * DEPTH : step * DEPTH + DEPTH]
                    Tx.cta.copy_async(ring[step % tiles.stages], part, dispatch="ldgsts")
            T.ptx.cp_async.commit_group()

        parts = [(T.alloc_buffer((tiles.m, 16), "float16", scope="local", layout=mma_fragment_layout("A", (tiles.m, 16), "float16", warps=tiles.warps)),
                  T.alloc_buffer((16, tiles.n), "float16", scope="local", layout=mma_fragment_layout("B", (16, tiles.n), "float16", warps=tiles.warps))) for _ in range(2)]

        @T.inline
        def fetch(step, k):
            stage: T.let = step % tiles.stages
            Tx.cta.copy(parts[k % 2][0], left[stage, :, k * 16 : k * 16 + 16])
            Tx.cta.copy(parts[k % 2][1].permute(1, 0), top[stage, :, k * 16 : k * 16 + 16])

        sums[:] = 0
        for stage in T.unroll(tiles.stages - 1):
            load(stage)
        if tiles.ahead:
            T.ptx.cp_async.wait_group(tiles.stages - 2)
            T.cuda.cta_sync()
            fetch(0, 0)
            for step in range(k // DEPTH):
                for s in (0, 1, 2, 3):
                    if s == 3:
                        T.ptx.cp_async.wait_group(tiles.stages - 2)
                        T.cuda.cta_sync()
                        if step + 1 < k // DEPTH:
                            fetch(step + 1, 0)
                    else:
                        fetch(step, s + 1)
                    if s == 0:
                        load(step + tiles.stages - 1)
                    Tx.cta.gemm(sums, parts[s % 2][0], parts[s % 2][1], sums, beta=1.0)
        else:
            for step in range(k // DEPTH):
                T.ptx.cp_async.wait_group(tiles.stages - 2)
                T.cuda.cta_sync()
                load(step + tiles.stages - 1)
                Tx.cta.gemm(sums, left[step % tiles.stages], top[step % tiles.stages], sums, transpose_B=True, beta=1.0)
        D[down * tiles.m : (down + 1) * tiles.m, right * tiles.n : (right + 1) * tiles.n] = sums

    return tw.compile(mma_product, target="sm_90a")


TRIED = (Tiles(ahead=True), Tiles(256, 128, (4, 2), ahead=True), Tiles(128, 128, (2, 2), 3, resident=2, ahead=True), Tiles(128, 256, (2, 4), 3, ahead=True), Tiles(256, 128, (4, 2)), Tiles())

# Eight products that do not wait for each other, again and again, of registers that hold anything.
BARE = """
extern "C" __global__ void __launch_bounds__(THREADS) bare(float* y, int times) {
  float d[8][4] = {};
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = 0x2c002c00u + threadIdx.x * 77u % 1024u * 65537u + i;
  for (int i = 0; i < 2; ++i) b[i] = 0xac002c00u + threadIdx.x * 55u % 1024u * 65537u + i;
  for (int k = 0; k < times; ++k)
    #pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  if (sum == 1.2345e30f) y[0] = sum;
}
"""
