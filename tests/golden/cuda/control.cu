// control for sm_90a, made by tilewright.
// Launch: control<<<dim3(1, 1, 1), 32>>>(a, out)
// Floating point: one rounding per operation: compile with --fmad=false.

// Has the sign of b, where C++ gives it a's.
__device__ __forceinline__ int floor_mod_int32(int a, int b) {
  int r = (int)(a % b);
  return (int)(r + (r != 0 && (r ^ b) < 0 ? b : 0));
}

extern "C" __global__ void __launch_bounds__(32)
control(const int* a, int* out) {
  const int tid = (int)threadIdx.x;
  int total = 0;
  int limit = a[0];
  for (int i = 0, i_end = limit; i < i_end; ++i) {
    limit = (int)((unsigned int)limit - 1u);
    total = (int)((unsigned int)total + (unsigned int)a[i]);
  }
  for (int j = 9; j > -1; j -= 3) {
    if (a[j] == 7) {
      continue;
    }
    total = (int)((unsigned int)total + (unsigned int)j);
  }
  #pragma unroll
  for (int k = 0; k < 8; k += 2) {
    if (a[k] < 0) {
      break;
    }
  }
  while (total > 100) {
    total = total >> 1;
    if (floor_mod_int32(total, 3) == 0) {
      break;
    }
  }
  if (total < 0) {
    out[tid] = -1;
  } else if (total < 10 && tid != 0) {
    out[tid] = 0;
  } else {
    out[tid] = total;
  }
  printf("total of \"%d\" is %d\n", tid, total);
}
