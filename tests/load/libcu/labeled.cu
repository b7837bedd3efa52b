#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block()); auto g = cg::labeled_partition(tile, in[threadIdx.x] % 3);
  out[threadIdx.x] = cg::reduce(g, 1, cg::plus<int>()); }
