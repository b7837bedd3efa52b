// axpy for sm_90a, made by tilewright.
// Launch: axpy<<<dim3((n + 255) // 256, 1, 1), 256>>>(x, y, scale, n)
// Floating point: one rounding per operation: compile with --fmad=false.
// Nothing that is written overlaps what is __restrict__: a call where it does gets a text without that.

extern "C" __global__ void __launch_bounds__(256, 4)
axpy(const float* __restrict__ x, float* y, float scale, int n) {
  const int tid = (int)threadIdx.x;
  const int ctaid_x = (int)blockIdx.x;
  const int i = ctaid_x * 256 + tid;
  if (i < n) {
    y[i] = (i < n ? x[i] : 0.0f) * scale + y[i];
  }
}
