#define T 16
template <int K> __global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* C, int n) {
    __shared__ float As[T][T], Bs[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        As[threadIdx.y][threadIdx.x] = A[row * K + k0 + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * n + col];
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
#ifndef BUG
        __syncthreads();
#endif
    }
    C[row * n + col] = sum;
}
void host(float* a, float* b, float* c) { matmul<64><<<dim3(2, 2), dim3(T, T)>>>(a, b, c, 32); }
