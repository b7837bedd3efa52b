#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  __shared__ int s[64];
  auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<8>(block); int r = block.thread_rank();
  s[r] = in[r]; tile.sync();
  out[r] = s[r / 8 * 8 + 7 - r % 8]; }
