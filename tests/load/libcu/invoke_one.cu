#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(int* out) { auto b = cg::this_thread_block(); auto t = cg::tiled_partition<32>(b); cg::invoke_one(t, [&] { atomicAdd(out, 1); }); }
