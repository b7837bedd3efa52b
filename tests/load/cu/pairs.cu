struct Settings { int n; float scale; double bias; short steps[3]; };
struct __align__(16) Pair { float a, b, c, d; };
__device__ __noinline__ float weigh(float x, const Settings& s, int i) { return x * s.scale + (float)s.bias + s.steps[i % 3]; }
__global__ void pairs(const Pair* in, Pair* out, Settings s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef BUG
    if (i <= s.n) {
#else
    if (i < s.n) {
#endif
        Pair p = in[i];
        p.a = weigh(p.a, s, i), p.d = weigh(p.d, s, i + 1);
        out[i] = p;
    }
}
