#include <cuda/std/cstdint>
#include <cuda/barrier>
__global__ void k(const int* in, int* out) {
  __shared__ alignas(128) int s[256];
  #pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) { init(&bar, blockDim.x); cuda::device::experimental::fence_proxy_async_shared_cta(); }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token t;
  if (threadIdx.x == 0) { cuda::device::memcpy_async_tx(s, in, cuda::aligned_size_t<16>(sizeof(s)), bar); t = cuda::device::barrier_arrive_tx(bar, 1, sizeof(s)); }
  else t = bar.arrive();
  bar.wait(std::move(t));
  for (int i = threadIdx.x; i < 256; i += 64) out[i] = s[255 - i]; }
