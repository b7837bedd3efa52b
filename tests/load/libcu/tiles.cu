#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<16>(block);
  int v = in[block.thread_rank()];
  for (int i = tile.size() / 2; i > 0; i /= 2) v += tile.shfl_down(v, i);
  if (tile.thread_rank() == 0) out[block.thread_rank() / 16] = v; }
