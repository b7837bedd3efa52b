#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void grid_sum(const float* in, float* partial, float* out) {
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    float v = in[grid.thread_rank()];
    for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) partial[grid.thread_rank() / 32] = v;
#ifndef BUG
    grid.sync();
#endif
    if (grid.thread_rank() == 0) {
        float sum = 0.0f;
        for (int k = 0; k < grid.size() / 32; ++k) sum += partial[k];
        *out = sum;
    }
}
