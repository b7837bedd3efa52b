#include <cuda/std/cstdint>
#include <cuda/ptx>
#include <cuda/barrier>
namespace ptx = cuda::ptx;
__global__ void k(const int* in, int* out) {
  __shared__ uint64_t bar; __shared__ int s[64];
  if (threadIdx.x == 0) ptx::mbarrier_init(&bar, 64);
  __syncthreads();
  s[threadIdx.x] = in[threadIdx.x];
  uint64_t st = ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);
  while (!ptx::mbarrier_try_wait(ptx::sem_acquire, ptx::scope_cta, &bar, st)) {}
  out[threadIdx.x] = s[63 - threadIdx.x]; }
