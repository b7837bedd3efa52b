#include <cuda/std/cstdint>
#include <cuda/semaphore>
__global__ void k(int* count, cuda::binary_semaphore<cuda::thread_scope_device>* sem) {
  if (threadIdx.x == 0) { sem->acquire(); *count = *count + 1; sem->release(); } }
