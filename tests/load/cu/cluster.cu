// Each CTA of a cluster reads its neighbour's shared memory.
__global__ void __cluster_dims__(2, 1, 1) exchanged(const int* in, int* out) {
    __shared__ int mine[32];
    unsigned rank, at;
    mine[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#ifndef BUG
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
    unsigned here = (unsigned)__cvta_generic_to_shared(&mine[31 - threadIdx.x]);
    int v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(here), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    out[blockIdx.x * 32 + threadIdx.x] = v;
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
