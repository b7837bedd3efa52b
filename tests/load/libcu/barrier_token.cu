#include <cuda/std/cstdint>
#include <cuda/barrier>
__global__ void k(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ int s[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  s[threadIdx.x] = in[threadIdx.x];
  auto t = bar.arrive();
  int x = threadIdx.x * 2;
  bar.wait(std::move(t));
  out[threadIdx.x] = s[63 - threadIdx.x] + x; }
