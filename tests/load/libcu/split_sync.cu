#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  __shared__ int s[64]; auto b = cg::this_thread_block(); s[threadIdx.x] = in[threadIdx.x]; auto t = b.barrier_arrive(); int x = in[threadIdx.x] * 3; b.barrier_wait(cuda::std::move(t)); out[threadIdx.x] = s[63 - threadIdx.x] + x; }
