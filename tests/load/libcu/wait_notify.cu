#include <cuda/std/cstdint>
#include <cuda/atomic>
__global__ void k(cuda::atomic<int, cuda::thread_scope_device>* f, int* d, int* out) {
  if (blockIdx.x == 0) { *d = 5; f->store(1); f->notify_all(); } else { f->wait(0); *out = *d; } }
