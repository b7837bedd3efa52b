#include <cuda/std/cstdint>
#include <cuda/barrier>
__global__ void k(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ int s[64];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 3; i++) {
    s[threadIdx.x] = in[threadIdx.x] + i;
    bar.arrive_and_wait();
    out[i * 64 + threadIdx.x] = s[63 - threadIdx.x];
    bar.arrive_and_wait();
  } }
