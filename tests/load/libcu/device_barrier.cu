#include <cuda/std/cstdint>
#include <cuda/barrier>
#include <cuda/atomic>
using bar = cuda::barrier<cuda::thread_scope_device>;
__device__ alignas(bar) char place[sizeof(bar)];
__device__ int ready;
__global__ void k(int* data, int* out) {
  bar* b = reinterpret_cast<bar*>(place); cuda::atomic_ref<int, cuda::thread_scope_device> r(ready);
  if (blockIdx.x == 0) { init(b, 4); r.store(1, cuda::memory_order_release); } else while (!r.load(cuda::memory_order_acquire)) {}
  for (int i = 0; i < 2; i++) { data[blockIdx.x] = blockIdx.x + 10 * i; b->arrive_and_wait(); out[4 * i + blockIdx.x] = data[(blockIdx.x + 1) % 4]; b->arrive_and_wait(); } }
