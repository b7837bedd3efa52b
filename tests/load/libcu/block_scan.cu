#include <cub/block/block_scan.cuh>
#include <cub/block/block_load.cuh>
__global__ void k(const int* in, int* out) {
  using S = cub::BlockScan<int, 128>; using L = cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>; __shared__ union { typename S::TempStorage s; typename L::TempStorage l; } t; int v[4];
  L(t.l).Load(in, v); __syncthreads(); S(t.s).InclusiveSum(v, v); for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = v[i]; }
