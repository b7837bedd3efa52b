#include <cuda/std/cstdint>
#include <cuda/atomic>
__global__ void k(int* data, int* flag, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
  if (blockIdx.x == 0) { *data = 7; f.store(1, cuda::memory_order_release); }
  else { while (f.load(cuda::memory_order_acquire) == 0) {} *out = *data; } }
