// The inclusive sum of a CTA, in dynamic shared memory, with two halves that take turns.
extern "C" __global__ void scan(const int* in, int* out, int n) {
    extern __shared__ int temp[];
    int t = threadIdx.x, pout = 0, pin = 1;
    temp[t] = in[t];
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        pout = 1 - pout, pin = 1 - pout;
#ifdef BUG
        pout = 0, pin = 0;
#endif
        temp[pout * n + t] = t >= offset ? temp[pin * n + t] + temp[pin * n + t - offset] : temp[pin * n + t];
        __syncthreads();
    }
    out[t] = temp[pout * n + t];
}
