"""What `mma` measures: a matrix product by mma.sync with a ring of stages, and a loop that only multiplies."""

import tilewright as tw
from tilewright.lang import T, Tx
from tilewright.layout import mma_fragment_layout, mma_shared_layout

M, N, WARPS, STAGES = 256, 128, (4, 2), 4
DEPTH, PART = 64, 16  # of a stage along K: rows as wide as the swizzle; of a product of fragments


class Operand:
    """A, or B turned: rows x K in memory, their tiles in the stages of the ring, and two fragments of a part."""

    def __init__(self, name, array, tile, rows, stages=STAGES, warps=WARPS):
        self.array, self.first, self.rows, self.stages = array, tile * rows, rows, stages
        layout = mma_shared_layout("float16", 3, (stages, rows, DEPTH))
        self.ring = T.alloc_buffer((stages, rows, DEPTH), "float16", scope="shared", layout=layout)
        shape = (rows, PART) if name == "A" else (PART, rows)
        layout = mma_fragment_layout(name, shape, "float16", warps=warps)
        self.parts = [T.alloc_buffer(shape, "float16", scope="local", layout=layout) for _ in range(2)]
        self.turned = name == "B"

    def load(self, step):
        """Have the tile of a step copied to its stage."""
        part = self.array[self.first : self.first + self.rows, step * DEPTH : step * DEPTH + DEPTH]
        with T.If(step * DEPTH < self.array.shape[1]), T.Then():
            Tx.cta.copy_async(self.ring[step % self.stages], part, dispatch="ldgsts")

    def fetch(self, step, part):
        """Bring a part of a stage to registers."""
        to = self.parts[part % 2]
        source = self.ring[step % self.stages, :, part * PART : part * PART + PART]
        Tx.cta.copy(to.permute(1, 0) if self.turned else to, source)


class Both:
    """A and B."""

    def __init__(self, left, top):
        self.operands = left, top

    def load(self, step):
        """Have the tiles of a step copied, if there is one."""
        for operand in self.operands:
            operand.load(step)
        T.ptx.cp_async.commit_group()

    def fetch(self, step, part):
        """Bring a part of a step's tiles to registers."""
        for operand in self.operands:
            operand.fetch(step, part)

    def fragments(self, part):
        """Where a part is."""
        return [operand.parts[part % 2] for operand in self.operands]


def product(tile_m: int = M, tile_n: int = N, warps: tuple[int, int] = WARPS, stages: int = STAGES) -> tw.Executable:
    """D = A @ B.T, in float16, of whole tiles; the next part comes to registers while one is multiplied."""

    @T.prim_func
    def mma_product(a: T.handle, b: T.handle, d: T.handle):
        m, n, k = T.int32(), T.int32(), T.int32()
        A, B = T.match_buffer(a, (m, k), "float16"), T.match_buffer(b, (n, k), "float16")
        D = T.match_buffer(d, (m, n), "float16")
        T.assume(m % tile_m == 0)
        T.assume(n % tile_n == 0)
        T.assume(k % DEPTH == 0)
        down, right = T.cta_id([m // tile_m, n // tile_n])
        T.thread_id([32 * warps[0] * warps[1]])
        left = T.meta_var(Operand("A", A, down, tile_m, stages, warps))
        both = T.meta_var(Both(left, Operand("B", B, right, tile_n, stages, warps)))
        layout = mma_fragment_layout("D", (tile_m, tile_n), "float32", warps=warps)
        sums = T.alloc_buffer((tile_m, tile_n), "float32", scope="local", layout=layout)

        @T.inline
        def arrived():
            T.ptx.cp_async.wait_group(stages - 2)
            T.cuda.cta_sync()

        sums[:] = 0
        for stage in T.unroll(stages - 1):
            both.load(stage)
        arrived()
        both.fetch(0, 0)
        for step in range(k // DEPTH):
            for part in (0, 1, 2, 3):
                if part < 3:
                    both.fetch(step, part + 1)  # without a question: such a branch would keep ldmatrix and mma apart
                else:
                    arrived()
                    if (step + 1) * DEPTH < k:
                        both.fetch(step + 1, 0)
                if part == 0:
                    both.load(step + stages - 1)
                Tx.cta.gemm(sums, *both.fragments(part), sums, beta=1.0)
        D[down * tile_m : (down + 1) * tile_m, right * tile_n : (right + 1) * tile_n] = sums

    return tw.compile(mma_product, target="sm_90a")


# Eight products that do not wait for each other, again and again, of registers that hold anything.
BARE = """
extern "C" __global__ void __launch_bounds__(THREADS) bare(float* y) {
  float d[8][4] = {};
  unsigned a[4], b[2];
  for (int i = 0; i < 4; ++i) a[i] = 0x2c002c00u + threadIdx.x * 77u % 1024u * 65537u + i;
  for (int i = 0; i < 2; ++i) b[i] = 0xac002c00u + threadIdx.x * 55u % 1024u * 65537u + i;
  for (int k = 0; k < TIMES; ++k)
    #pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                   "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  if (sum == 1.2345e30f) y[0] = sum;
}
"""
