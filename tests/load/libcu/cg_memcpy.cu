#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__global__ void k(const int* in, int* out) {
  __shared__ alignas(16) int s[256]; auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, in, sizeof(int) * 256); cg::wait(block);
  for (int i = threadIdx.x; i < 256; i += 64) out[i] = s[255 - i]; }
