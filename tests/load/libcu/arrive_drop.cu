#include <cuda/std/cstdint>
#include <cuda/barrier>
__global__ void k(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ int s[64]; int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x); __syncthreads();
  s[t] = in[t]; if (t >= 32) { bar.arrive_and_drop(); return; }
  bar.arrive_and_wait(); out[t] = s[63 - t]; bar.arrive_and_wait(); s[t] = 0; bar.arrive_and_wait(); out[32 + t] = s[31 - t]; }
