#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block()); int r = threadIdx.x;
  out[r] = cg::inclusive_scan(tile, in[r]); out[64 + r] = cg::exclusive_scan(tile, in[r]); }
