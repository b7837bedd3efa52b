"""Functions of the host in a `load_inline`: read, and their launches run; what cannot be read is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentError
from tilewright.serve.contest import load_inline

CUDA = """
#include <torch/extension.h>
template <typename scalar_t>
__global__ void scaled(const scalar_t* __restrict__ A, const scalar_t* B, scalar_t* C, int N, float s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { C[i] = A[i] + B[i] * s; }
}
__global__ void product(const float* A, const float* B, float* C, int M, int N, int K) {
    int r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 8 + threadIdx.x;
    if (r >= M || c >= N) { return; }
    float sum = 0;
    for (int k = 0; k < K; ++k) { sum += A[r * K + k] * B[k * N + c]; }
    C[r * N + c] = sum;
}
torch::Tensor axpy(torch::Tensor A, const torch::Tensor& B, float s) {
    TORCH_CHECK(A.numel() == B.numel(), "as many elements");
    const int N = A.numel();
    auto C = torch::zeros_like(A);
    const int threads = 64;
    scaled<float><<<(N + threads - 1) / threads, threads>>>(
        A.data_ptr<float>(), (const float*)B.data_ptr(), C.data_ptr<float>(), N, s);
    return C;
}
std::vector<torch::Tensor> both(torch::Tensor A, torch::Tensor B) {
    int M = A.size(0), K = A.size(1);
    int N = B.size(-1);
    auto C = torch::empty({M, B.size(1)}, A.options());
    auto D = C.clone();
    dim3 block(8, 8);
    dim3 grid((N + block.x - 1) / block.x, (M + block.y - 1) / block.y);
    product<<<grid, block>>>(A.data_ptr<float>(), B.data_ptr<float>(), C.data_ptr<float>(), M, N, K);
    product<<<grid, block>>>(A.data_ptr<float>(), B.data_ptr<float>(), D.data_ptr<float>(), M, N, K);
    return {C, D};
}
torch::Tensor perhaps(torch::Tensor A, int n) {
    if (n > 3) { product<<<1, 8>>>(A.data_ptr<float>(), A.data_ptr<float>(), A.data_ptr<float>(), 1, 1, 1); }
    return A;
}
torch::Tensor by_others(torch::Tensor A) {
    auto B = made_elsewhere(A);
    product<<<1, 8>>>(A.data_ptr<float>(), B.data_ptr<float>(), A.data_ptr<float>(), 1, 1, 1);
    return A;
}
torch::Tensor unsized(torch::Tensor A) {
    product<<<count(A), 8>>>(A.data_ptr<float>(), A.data_ptr<float>(), A.data_ptr<float>(), 1, 1, 1);
    return A;
}
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return load_inline("mine", "", CUDA, functions=["axpy", "both", "perhaps", "by_others", "unsized"])


def test_a_function_of_the_host_launches_an_instance_on_what_it_makes(module: Any) -> None:
    a, b = (np.random.default_rng(seed).random((9, 20), np.float32) for seed in (0, 1))

    made = module.axpy(a, b, 2.0)

    assert np.array_equal(made, a + 2 * b)


def test_extents_follow_from_sizes_and_from_blocks(module: Any) -> None:
    a, b = np.ones((9, 20), np.float32), np.ones((20, 11), np.float32)

    first, second = module.both(a, b)

    assert first.shape == second.shape == (9, 11)
    assert (first == 20).all()
    assert (second == 20).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda m, a: m.perhaps(a, 1), "which nothing here compiles"),
        (lambda m, a: m.by_others(a), r"(?s)which is read, not compiled.*`B\.data_ptr<float>\(\)`"),
        (lambda m, a: m.unsized(a), "(?s)which is read, not compiled.*a launch of product"),
        (lambda m, a: m.axpy(a), "(?s)axpy takes 3 arguments.*A, B, s"),
    ],
)
def test_what_cannot_be_read_is_refused(module: Any, call: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        call(module, np.ones((4, 4), np.float32))
