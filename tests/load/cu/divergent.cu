__global__ void divergent(const float* in, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
#ifdef BUG
    if (t < n) {
        s[t] = in[t];
        __syncthreads();
    }
#else
    if (t < n) s[t] = in[t];
#endif
    __syncthreads();
    if (t < n) out[t] = s[n - 1 - t];
}
