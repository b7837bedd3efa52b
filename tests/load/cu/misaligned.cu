__global__ void copy4(const float* in, float* out, int skip) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef BUG
    const float4* from = reinterpret_cast<const float4*>(in + skip);
#else
    const float4* from = reinterpret_cast<const float4*>(in + 4 * skip);
#endif
    reinterpret_cast<float4*>(out)[i] = from[i];
}
