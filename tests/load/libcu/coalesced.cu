#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out, int* count) {
  int r = threadIdx.x;
  if (in[r] % 3 == 0) { auto g = cg::coalesced_threads(); int base = 0; if (g.thread_rank() == 0) base = atomicAdd(count, g.size()); base = g.shfl(base, 0); out[base + g.thread_rank()] = in[r]; } }
