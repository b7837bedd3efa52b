#include <cuda/std/cstdint>
#include <cuda/pipeline>
__global__ void k(const int* in, int* out) {
  __shared__ int s[2][64];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x;
  pipe.producer_acquire(); cuda::memcpy_async(&s[0][t], in + t, sizeof(int), pipe); pipe.producer_commit();
  for (int i = 0; i < 4; i++) {
    if (i + 1 < 4) { pipe.producer_acquire(); cuda::memcpy_async(&s[(i + 1) & 1][t], in + (i + 1) * 64 + t, sizeof(int), pipe); pipe.producer_commit(); }
    if (i + 1 < 4) cuda::pipeline_consumer_wait_prior<1>(pipe); else cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    out[i * 64 + t] = s[i & 1][63 - t];
    __syncthreads();
    pipe.consumer_release();
  } }
