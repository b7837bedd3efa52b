// The end of a reduction by one warp, which old code wrote without any synchronisation.
__global__ void warp_sum(const float* in, float* out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t], s[t + 32] = in[t + 32];
    __syncwarp();
    for (int d = 32; d > 0; d /= 2) {
        float v = s[t + d];
#ifndef BUG
        __syncwarp();
#endif
        if (t < d) s[t] += v;
#ifndef BUG
        __syncwarp();
#endif
    }
    if (t == 0) *out = s[0];
}
