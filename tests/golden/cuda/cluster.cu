// cluster for sm_90, made by tilewright.
// Launch: cluster<<<dim3(4, 1, 1), 64, 65536>>>(out)
// Dynamic shared memory: 65536 bytes; allow them with cudaFuncSetAttribute first.
// Floating point: one rounding per operation: compile with --fmad=false.

// Every thread of the cluster waits for all others; their memory accesses are ordered.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" : : : "memory");
}

// One lane of the mask, always the same one; out='p': whether it is the caller.
__device__ __forceinline__ bool elect_sync(unsigned int mask) {
  unsigned int d;
  asm volatile("{ .reg .pred one; elect.sync _|one, %1; selp.b32 %0, 1, 0, one; }" : "=r"(d) : "r"(mask) : "memory");
  return d != 0;
}

// CTA in its cluster, second axis.
__device__ __forceinline__ int tw_cluster_ctaid_y() {
  int d;
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(d));
  return d;
}

// Rank of the CTA in its cluster.
__device__ __forceinline__ int tw_cluster_ctarank() {
  int d;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(d));
  return d;
}

// Cluster of the grid, first axis.
__device__ __forceinline__ int tw_clusterid_x() {
  int d;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(d));
  return d;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64)
cluster(int* out) {
  const int tid = (int)threadIdx.x;
  const int cluster_ctaid_y = tw_cluster_ctaid_y();
  const int cluster_ctarank = tw_cluster_ctarank();
  const int clusterid_x = tw_clusterid_x();
  extern __shared__ __align__(1024) unsigned char smem[];
  int* tile = (int*)smem;
  tile[tid] = cluster_ctarank + cluster_ctaid_y;
  cluster_sync();
  if (elect_sync(0xffffffffu)) {
    out[clusterid_x] = tile[tid];
  }
}
