#include <cuda/std/cstdint>
#include <cuda/atomic>
__global__ void k(int* a, int* out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> x(*a); x.fetch_add(threadIdx.x); x.fetch_max(5); int e = -1;
  cuda::atomic_ref<int, cuda::thread_scope_block> y(a[1]); y.fetch_add(1); y.fetch_or(0);
  cuda::atomic_ref<int, cuda::thread_scope_device> w(a[2]); int old = w.load(); while (!w.compare_exchange_weak(old, old + 2)) {}
}
