#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ __cluster_dims__(2,1,1) void k(int* out) {
  __shared__ int s[64]; auto c = cg::this_cluster(); s[threadIdx.x] = threadIdx.x + 100 * c.block_rank(); c.sync();
  int* other = c.map_shared_rank(s, c.block_rank() ^ 1); out[blockIdx.x * 64 + threadIdx.x] = other[threadIdx.x]; c.sync(); }
