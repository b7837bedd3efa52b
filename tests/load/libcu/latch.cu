#include <cuda/std/cstdint>
#include <cuda/latch>
__global__ void k(const int* in, int* out) {
  using latch = cuda::latch<cuda::thread_scope_block>;
  __shared__ alignas(latch) char place[sizeof(latch)]; __shared__ int s[64];
  latch* l = reinterpret_cast<latch*>(place);
  if (threadIdx.x == 0) new (l) latch(64);
  __syncthreads();
  s[threadIdx.x] = in[threadIdx.x];
  l->arrive_and_wait();
  out[threadIdx.x] = s[63 - threadIdx.x]; }
