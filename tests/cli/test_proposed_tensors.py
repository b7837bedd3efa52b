"""`tilewright check` of kernels that take tensors with their sizes, from a file that does not say these."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import verdicts_on

ACCESSORS = """
#include <torch/extension.h>
template <typename scalar_t>
__global__ void gated(const torch::PackedTensorAccessor32<scalar_t, 3, torch::RestrictPtrTraits> gates,
                      const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> cell,
                      torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> out) {
    int n = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c GUARD gates.size(2)) out[n][c] = gates[n][0][c] * cell[n][c] + gates[n][1][c];
}
torch::Tensor host(torch::Tensor gates, torch::Tensor cell) {
    auto out = torch::zeros_like(cell);
    const dim3 blocks((cell.size(1) + 127) / 128, cell.size(0));
    AT_DISPATCH_FLOATING_TYPES(gates.type(), "gated", ([&] {
        gated<scalar_t><<<blocks, 128>>>(
            gates.packed_accessor32<scalar_t, 3, torch::RestrictPtrTraits>(),
            cell.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
            out.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
    }));
    return out;
}
"""
INFOS = """
#include <ATen/cuda/detail/IndexUtils.cuh>
#include <torch/extension.h>
__global__ void taken(const float* x, const at::cuda::detail::TensorInfo<int64_t, int> places, float* out, int many) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i GUARD many) out[i] = x[places.data[i]];
}
void host(torch::Tensor x, torch::Tensor index, torch::Tensor out) {
    auto info = at::cuda::detail::getTensorInfo<int64_t, int>(index);
    int many = index.numel();
    taken<<<(many + 127) / 128, 128>>>(x.data_ptr<float>(), info, out.data_ptr<float>(), many);
}
"""


@pytest.mark.parametrize("text", [ACCESSORS, INFOS], ids=["accessors", "infos"])
@pytest.mark.parametrize(("guard", "status"), [("<", "clean"), ("<=", "wrong")])
def test_a_tensor_with_its_sizes_is_proposed(text: str, guard: str, status: str, tmp_path: Path) -> None:
    (one,) = verdicts_on(text.replace("GUARD", guard), tmp_path)

    assert one["status"] == status, one


def test_the_extents_of_tensors_with_sizes_are_equal_and_few(tmp_path: Path) -> None:
    (one,) = verdicts_on(ACCESSORS.replace("GUARD", "<"), tmp_path)

    sizes = {option.rpartition("=")[2].strip("'") for option in one["proposed"]}
    assert sizes == {"32"}
