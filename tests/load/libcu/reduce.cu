#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<32>(block); int r = block.thread_rank();
  int s = cg::reduce(tile, in[r], cg::plus<int>()); int m = cg::reduce(tile, in[r], cg::greater<int>());
  out[r] = s * 100 + m; }
