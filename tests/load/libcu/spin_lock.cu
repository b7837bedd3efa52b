#include <cuda/std/cstdint>
#include <cuda/atomic>
__device__ cuda::atomic<int, cuda::thread_scope_device> held{0};
__global__ void k(int* n) { if (threadIdx.x) return;
  while (held.exchange(1, cuda::memory_order_acquire)) {} *n += 1; held.store(0, cuda::memory_order_release); }
