#include <cuda/std/cstdint>
#include <cuda/semaphore>
__global__ void k(int* slots, cuda::counting_semaphore<cuda::thread_scope_device, 2>* sem, int* inside, int* most) {
  if (threadIdx.x) return; sem->acquire(); int now = atomicAdd(inside, 1) + 1; atomicMax(most, now); atomicAdd(slots, 1); atomicSub(inside, 1); sem->release(); }
