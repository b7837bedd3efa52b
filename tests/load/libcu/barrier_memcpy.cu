#include <cuda/std/cstdint>
#include <cuda/barrier>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ alignas(16) int s[256];
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  cuda::memcpy_async(block, s, in, cuda::aligned_size_t<16>(sizeof(int) * 256), bar);
  bar.arrive_and_wait();
  for (int i = threadIdx.x; i < 256; i += 64) out[i] = s[255 - i]; }
