"""Device code that uses Thrust: sequential algorithms, tuples, complex numbers and function objects."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.load.cu_headers import wheel_folders

TEXT = """
#include <thrust/binary_search.h>
#include <thrust/complex.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>
struct Kept { thrust::device_vector<int> values; };
__global__ void k(int* x, int n, int* out) {
    thrust::sort(thrust::seq, x, x + n);
    out[0] = thrust::binary_search(thrust::seq, x, x + n, 3);
    out[1] = thrust::lower_bound(thrust::seq, x, x + n, 4) - x;
    thrust::pair<int, int> ends = thrust::make_pair(x[0], x[n - 1]);
    thrust::swap(ends.first, ends.second);
    out[2] = ends.first;
    out[3] = thrust::reduce(thrust::seq, x, x + n, 0, thrust::maximum<int>()) + thrust::plus<int>()(1, 2);
    out[4] = thrust::get<0>(thrust::make_tuple(5, 1.5f)) + (int)thrust::abs(thrust::complex<float>(3.f, 4.f));
}
void run(int* x, int n, int* out) { thrust::device_vector<int> lasting(n); k<<<1, 1>>>(x, n, out); }
"""


def test_what_device_code_uses_of_thrust_is_there() -> None:
    if not wheel_folders():
        pytest.skip("NVIDIA's headers are not installed: pip install tilewright[cu]")
    x, out = np.array([4, 3, 9, 4, 1], np.int32), np.zeros(5, np.int32)

    tw.load_cu(TEXT)["k"].simulate(x, 5, out, grid=1, block=1)

    assert x.tolist() == [1, 3, 4, 4, 9]
    assert out.tolist() == [1, 2, 9, 12, 10]
