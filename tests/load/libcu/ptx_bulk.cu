#include <cuda/std/cstdint>
#include <cuda/ptx>
#include <cuda/barrier>
namespace ptx = cuda::ptx;
__global__ void k(const int* in, int* out) {
  __shared__ alignas(128) int s[256]; __shared__ uint64_t bar;
  if (threadIdx.x == 0) { ptx::mbarrier_init(&bar, 1); ptx::fence_proxy_async(ptx::space_shared); }
  __syncthreads();
  if (threadIdx.x == 0) { ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, in, sizeof(s), &bar);
     ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(s)); }
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
  for (int i = threadIdx.x; i < 256; i += 64) s[i] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) { ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, s, sizeof(s)); ptx::cp_async_bulk_commit_group(); ptx::cp_async_bulk_wait_group(ptx::n32_t<0>()); } }
