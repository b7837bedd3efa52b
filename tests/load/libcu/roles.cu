#include <cuda/std/cstdint>
#include <cuda/pipeline>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  __shared__ int s[2][32];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  bool producer = threadIdx.x < 32;
  auto pipe = cuda::make_pipeline(block, &state, producer ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  int t = threadIdx.x % 32;
  if (producer) for (int i = 0; i < 5; i++) { pipe.producer_acquire(); cuda::memcpy_async(&s[i & 1][t], in + i * 32 + t, sizeof(int), pipe); pipe.producer_commit(); }
  else for (int i = 0; i < 5; i++) { pipe.consumer_wait(); out[i * 32 + t] = s[i & 1][31 - t]; pipe.consumer_release(); }
}
