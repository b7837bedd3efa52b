#include <cuda/std/cstdint>
#include <cuda/barrier>
struct Bump { int* n; __device__ void operator()() noexcept { ++*n; } };
__global__ void k(int* out) {
  using bar = cuda::std::barrier<Bump>; __shared__ alignas(bar) char place[sizeof(bar)]; __shared__ int n; bar* b = reinterpret_cast<bar*>(place);
  if (threadIdx.x == 0) { n = 0; new (b) bar(64, Bump{&n}); } __syncthreads();
  for (int i = 0; i < 3; i++) b->arrive_and_wait();
  out[threadIdx.x] = n; }
