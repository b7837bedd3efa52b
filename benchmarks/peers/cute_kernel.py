"""An 8x16 float16 tile from global to shared memory, by ldmatrix to registers, and back to global memory."""

import cutlass
import cutlass.memory
from cutlass import cute
from cutlass.cute.nvgpu import warp


@cute.kernel
def copy_warp(a: cute.Tensor, b: cute.Tensor, load: cute.TiledCopy):
    thread, _, _ = cute.arch.thread_idx()
    layout = cute.make_layout((8, 16), stride=(16, 1))
    tile = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float16, layout, 16)
    for i in cutlass.range_constexpr(4):
        tile[thread // 4, thread % 4 * 4 + i] = a[thread // 4, thread % 4 * 4 + i]
    cute.arch.sync_threads()
    mine = load.get_slice(thread)
    registers = cute.make_fragment_like(mine.partition_D(tile))
    cute.copy(load, mine.partition_S(tile), registers)
    cute.autovec_copy(registers, mine.partition_D(b))


@cute.jit
def copy_tile(a: cute.Tensor, b: cute.Tensor):
    atom = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(transpose=False, num_matrices=2), cutlass.Float16)
    fragment = cute.make_layout(((4, 8), (2, 2)), stride=((16, 1), (8, 64)))  # lane 4g+t: row g, columns 2t and 2t+1
    copy_warp(a, b, cute.make_tiled_copy(atom, fragment, (8, 16))).launch(grid=[1, 1, 1], block=[32, 1, 1])
