#include <cub/block/block_reduce.cuh>
__global__ void k(const int* in, int* out) {
  using R = cub::BlockReduce<int, 128>; __shared__ typename R::TempStorage t; int v = in[threadIdx.x]; int s = R(t).Sum(v); if (threadIdx.x == 0) *out = s; }
