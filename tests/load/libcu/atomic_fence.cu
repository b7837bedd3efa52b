#include <cuda/std/cstdint>
#include <cuda/atomic>
__global__ void k(int* data, cuda::atomic<int, cuda::thread_scope_device>* f, int* out) {
  if (blockIdx.x == 0) { *data = 7; cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device); f->store(1, cuda::memory_order_relaxed); }
  else { while (f->load(cuda::memory_order_relaxed) == 0) {} cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device); *out = *data; } }
