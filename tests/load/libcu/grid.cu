#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(int* a, int* out) {
  auto g = cg::this_grid(); a[g.thread_rank()] = g.thread_rank(); g.sync(); out[g.thread_rank()] = a[g.size() - 1 - g.thread_rank()]; }
