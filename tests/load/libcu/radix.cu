#include <cub/block/block_radix_sort.cuh>
__global__ void k(const int* in, int* out) {
  using S = cub::BlockRadixSort<int, 64, 2>; __shared__ typename S::TempStorage t; int v[2] = {in[threadIdx.x * 2], in[threadIdx.x * 2 + 1]};
  S(t).Sort(v); out[threadIdx.x * 2] = v[0]; out[threadIdx.x * 2 + 1] = v[1]; }
