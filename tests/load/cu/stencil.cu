#define R 3
#define N 128
__constant__ float weights[2 * R + 1];
__global__ void stencil(const float* in, float* out, int n) {
    __shared__ float tile[N + 2 * R];
    int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + R;
    tile[l] = in[g];
    if (threadIdx.x < R) {
#ifndef BUG
        tile[l - R] = g >= R ? in[g - R] : 0.0f;
#endif
        tile[l + N] = g + N < n ? in[g + N] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int o = -R; o <= R; ++o) sum += tile[l + o] * weights[o + R];
    out[g] = sum;
}
