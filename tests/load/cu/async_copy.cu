// Tiles by cp.async, in two stages.
__device__ inline void copy16(void* to, const void* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from));
}
__global__ void doubled(const float4* in, float4* out, int rounds) {
    __shared__ float4 tile[2][64];
    int t = threadIdx.x;
    copy16(&tile[0][t], &in[t]);
    asm volatile("cp.async.commit_group;");
    for (int r = 0; r < rounds; ++r) {
        if (r + 1 < rounds) copy16(&tile[(r + 1) % 2][t], &in[(r + 1) * 64 + t]);
        asm volatile("cp.async.commit_group;");
#ifdef BUG
        asm volatile("cp.async.wait_group 2;");
#else
        asm volatile("cp.async.wait_group 1;");
#endif
        __syncthreads();
        float4 v = tile[r % 2][63 - t];
        out[r * 64 + t] = make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w);
        __syncthreads();
    }
}
