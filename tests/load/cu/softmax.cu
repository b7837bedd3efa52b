#include <math.h>
// One warp for each row.
__global__ void softmax(const float* x, float* y, int cols) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float most = -INFINITY;
    for (int c = lane; c < cols; c += 32) most = fmaxf(most, x[row * cols + c]);
    for (int d = 16; d > 0; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
    float sum = 0.0f;
    for (int c = lane; c < cols; c += 32) sum += expf(x[row * cols + c] - most);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
#ifdef BUG
    cols += 1;
#endif
    for (int c = lane; c < cols; c += 32) y[row * cols + c] = expf(x[row * cols + c] - most) / sum;
}
